#include "limiter/sharing.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/mutex.h"
#include "base/split_mix.h"

namespace weir::limiter {
namespace {

constexpr Millis kHeartbeatEvery{2000};
constexpr Millis kHeartbeatAgain{500};  // after a failure
constexpr Millis kImportAgain{500};
constexpr Millis kLookBackEvery{2000};  // for what commits late
constexpr Millis kDeadline{5000};       // for any answer
constexpr Millis kPageEvery{50};        // of a read of everything, but the first
constexpr Millis kEverythingEvery{60'000};
constexpr Millis kEverythingPause{5000};  // at least
constexpr Millis kCleanEvery{10'000};
constexpr size_t kCleanRows = 5000;
constexpr Millis kSumUpEvery{50};
constexpr Millis kBehindAfter{5000};  // without news
// Without a write that was accepted: two turns of attending, of which one failed.
constexpr Millis kUnwrittenAfter{4000};
// What waits for longer than this, or was heard longer ago, is no longer what is under way, and
// widens the bound.
constexpr Nanos kUnderWay = Millis(2000);
constexpr Millis kSilentAfter{3 * kHeartbeatEvery};
constexpr Millis kClockStep{1000};
constexpr uint64_t kWhole = 1'000'000;  // a limit, in millionths

// The rules as this process goes by them. A lease is only ever its own, so a longer one than agreed
// on takes nothing from the others.
SyncRules sound(SyncRules rules) {
  rules.lease = std::max(rules.lease, shortest_lease(rules));
  return rules;
}

}  // namespace

RegionSync::RegionSync(std::shared_ptr<Store> store, const SyncRules& rules)
    : store_(std::move(store)),
      wished_(rules),
      regions_{.rules = sound(rules)},
      publisher_(store_, completions_, regions_),
      importer_(store_, regions_, publisher_.trigger()),
      chance_(store_->incarnation) {}

WorkReport RegionSync::run_once(Instant now, Flush flush) {
  const base::MutexLock turn(turn_);
  now = std::max(now, latest_, [](Instant a, Instant b) { return a.mono < b.mono; });
  if (was_set(now)) {
    // What was heard by another time was held to be over, or not yet possible; and tuples that were
    // ahead of that time were not looked at.
    import_failed_ = true;
    publisher_.trigger().look_at_all();
  }
  latest_ = now;
  if (started_ == MonoTime{}) {
    started_ = received_ = now.mono;
    plan(cleaning_, now, kCleanEvery);
  }
  completions_->open(now);
  heartbeat(now);
  if (regions_.count > 0) {
    publisher_.trigger().look_at_listed(now);
    publisher_.trigger().look_at_due(now);
    if (flush == Flush::kAll) publisher_.enqueue_all(now);
    if (flush == Flush::kAll || now.mono >= publishing_.next) {
      plan(publishing_, now, regions_.rules.publish_every);
      publisher_.publish(now, flush);
    }
    import_changes(now);
    read_everything(now);
    clean(now);
  }
  if (flush == Flush::kAll || now.mono - summed_up_ >= kSumUpEvery) sum_up(now);
  return {.waiting = publisher_.waiting()};
}

// Whether the wall clock was set since the last turn, by more than clocks differ.
bool RegionSync::was_set(Instant now) const {
  if (started_ == MonoTime{}) return false;
  const Millis passed = std::chrono::duration_cast<Millis>(now.mono - latest_.mono);
  const Millis step = (now.wall - latest_.wall) - passed;
  return step > kClockStep || step < -kClockStep;
}

// The next turn follows from when this one was due, so that slow turns do not drift; turns that
// were missed are not made up for. A fifth more or less, lest all processes come at once.
void RegionSync::plan(Turn& turn, Instant now, Nanos every) {
  const int64_t fifth = std::max<int64_t>(1, every.count() / 5);
  const auto jitter =
      static_cast<int64_t>(base::split_mix(chance_) % static_cast<uint64_t>(2 * fifth + 1)) - fifth;
  const MonoTime planned = turn.next == MonoTime{} ? now.mono : turn.next;
  turn.next = std::max(planned + every + Nanos(jitter), now.mono);
}

// Whether it is time, and the last one was answered or given up.
bool RegionSync::is_due(Instant now, Turn& turn) {
  if (turn.under_way && now.mono - turn.began >= kDeadline) {
    turn.under_way = false;
    import_failed_ = import_failed_ || turn.hears;
    ++import_errors_;
  }
  return !turn.under_way && now.mono >= turn.next;
}

// What to hand to a port: puts the answer into the inbox, where it counts unless it was given up.
template <typename Answer, typename Take>
auto RegionSync::answer_to(Turn& turn, Take take) {
  const uint64_t number = ++turn.number;
  turn.under_way = true;
  return [this, &turn, number, take = std::move(take),
          box = std::weak_ptr(completions_)](Result<Answer> answer) {
    const auto completions = box.lock();
    if (!completions) return;
    auto parcel = std::make_shared<Result<Answer>>(std::move(answer));
    completions->put([&turn, number, take, parcel](Instant when) {
      if (!turn.under_way || turn.number != number) return;
      turn.under_way = false;
      take(when, *parcel);
    });
  };
}

void RegionSync::heartbeat(Instant now) {
  watch_siblings();
  const uint64_t hidden = this->hidden(now);
  // Who hides more than it said says so at once.
  if (hidden > said_hidden_ && !heartbeat_.under_way) heartbeat_.next = now.mono;
  if (!is_due(now, heartbeat_)) return;
  heartbeat_.began = now.mono;
  heartbeat_.next = now.mono + kHeartbeatEvery;
  said_hidden_ = hidden;
  const LedgerRegion self{.region = store_->remote.region(), .hidden_ppm = hidden};
  store_->ledger->heartbeat(
      self, wished_,
      answer_to<LedgerFleet>(heartbeat_, [this](Instant when, const Result<LedgerFleet>& fleet) {
        if (fleet) {
          fleet_received_ = heartbeat_.began;
          hear_fleet(when, *fleet);
        } else {
          ++import_errors_;
          heartbeat_.next = when.mono + kHeartbeatAgain;
        }
      }));
}

void RegionSync::watch_siblings() {
  const uint32_t siblings = store_->origin ? store_->origin->live_nodes() : 1;
  if (siblings < siblings_) one_died_ = true;
  siblings_ = siblings;
}

// By how many limits the processes of the region may differ, beside one: while they cannot tell
// each other what they accept, or have no room to keep it.
uint64_t RegionSync::nodes_apart(Instant now) const {
  if (!store_->origin || siblings_ <= 1) return 0;
  const bool lost = store_->origin->reach() != Reach::kPrompt;
  const bool late = Nanos(store_->replay_lag.load(std::memory_order_relaxed)) > kUnderWay;
  return lost || late || store_->sketch.live_until() > now.wall ? siblings_ - 1 : 0;
}

// What this region may count before others know of it, as far as this process can tell, in
// millionths of a limit. What waits, was left out or has made room for others is hidden whole.
uint64_t RegionSync::hidden(Instant now) const {
  const uint64_t others = std::max(regions_.count, 2U) - 1;
  const uint64_t usual = uint64_t{regions_.rules.hidden_permille} * 1000 / others;
  const bool whole = publisher_.leaves_out(now.mono) || publisher_.lag(now.mono) > kUnderWay ||
                     store_->forgotten.live_until() > now.wall ||
                     store_->sketch.live_until() > now.wall || one_died_ ||
                     died_matters_until_ > now.wall;
  const uint64_t slow = nodes_apart(now) * kWhole;
  if (whole || slow > 0) return kWhole + slow;
  return std::min(usual << publisher_.budget().most_doubled(), kWhole);
}

void RegionSync::hear_fleet(Instant /*now*/, const LedgerFleet& fleet) {
  const bool one = memory::mutated(memory::Mutation::kRegionsUnderestimated);
  const auto count = static_cast<uint32_t>(one ? 1 : std::max<size_t>(1, fleet.regions.size()));
  const SyncRules rules = sound(fleet.rules);
  // With more regions each may hide less: what was enough to stay silent may be so no more.
  if (count != regions_.count || rules != regions_.rules) publisher_.trigger().look_at_all();
  regions_.count = count;
  regions_.rules = rules;
  regions_.hidden_ppm = 0;
  regions_.most_ppm = 0;
  for (const LedgerRegion& region : fleet.regions) {
    if (region.region == store_->remote.region()) continue;
    // Of one that is silent nobody knows what it told nobody.
    const uint64_t least = region.silent > kSilentAfter ? kWhole : 0;
    const uint64_t hidden = std::max(region.hidden_ppm, least);
    regions_.hidden_ppm += hidden;
    regions_.most_ppm += std::max(hidden, kWhole);
  }
}

void RegionSync::import_changes(Instant now) {
  if (!is_due(now, importing_)) return;
  if (!store_->ledger->reachable()) {
    import_failed_ = true;
    return;
  }
  importing_.began = now.mono;
  plan(importing_, now, regions_.rules.import_every);
  const LedgerCursor cursor = next_read(now);
  if (cursor.look_back != LookBack::kNone) import_began_ = now.mono;
  store_->ledger->changes_since(
      cursor,
      answer_to<LedgerChanges>(importing_, [this, look_back = cursor.look_back](
                                               Instant when, const Result<LedgerChanges>& answer) {
        rest_.reset();
        if (answer) {
          hear_changes(when, *answer, look_back);
        } else {
          ++import_errors_;
          import_failed_ = true;
          importing_.next = when.mono + kImportAgain;
        }
      }));
}

// Only the rest of an answer is read without looking back.
LedgerCursor RegionSync::next_read(Instant now) const {
  if (rest_) return *rest_;
  const bool brief = cursor_ && now.mono < look_back_;
  return {.position = brief ? cursor_->position : looked_back_from_.position,
          .look_back = brief ? LookBack::kShort : LookBack::kLong};
}

void RegionSync::hear_changes(Instant now, const LedgerChanges& changes, LookBack look_back) {
  // At the start, after a clock that was set back, and after a failure, which may have
  // put a replica that was behind in the place of the ledger, what changed is not enough.
  const bool failed = std::exchange(import_failed_, false);
  if (!cursor_ || failed || changes.cut || changes.next.position < cursor_->position) {
    reads_everything_ = true;
    may_have_missed_ = true;
    reading_.next = {};
    place_ = {};
  }
  // What commits late is looked for from where the first part of an answer was read.
  if (look_back != LookBack::kNone) cursor_ = changes.next;
  if (look_back == LookBack::kLong) {
    looked_back_from_ = changes.next;
    look_back_ = import_began_ + kLookBackEvery;
  }
  rest_ = changes.rest;
  if (rest_) {
    importing_.next = now.mono;
  } else {
    received_ = import_began_;
  }
  invalid_ += changes.invalid;
  last_import_ = changes.news.rows.size() + changes.news.presences.size();
  importer_.take_in(now, changes.news);
}

void RegionSync::read_everything(Instant now) {
  if (!cursor_ || !is_due(now, reading_) || !store_->ledger->reachable()) return;
  if (place_.after.empty()) {
    const Nanos pause = reads_everything_ ? kEverythingPause : kEverythingEvery;
    if (full_reads_ > 0 && now.mono - full_ended_ < pause) return;
    reads_everything_ = false;
    missed_before_ = std::exchange(may_have_missed_, false);
    full_began_ = now.mono;
    importer_.begin_full(now);
  }
  reading_.began = now.mono;
  reading_.next = regions_.all_received ? now.mono + kPageEvery : now.mono;
  store_->ledger->read_page(
      place_, answer_to<LedgerPage>(reading_, [this](Instant when, const Result<LedgerPage>& page) {
        if (!page) {
          ++import_errors_;
          reading_.next = when.mono + kImportAgain;
          place_ = {};
          reads_everything_ = true;
          may_have_missed_ = true;
          return;
        }
        invalid_ += page->invalid;
        importer_.take_in(when, page->news);
        place_ = page->next;
        if (!page->last) return;
        place_ = {};
        importer_.end_full(when);
        missed_before_ = false;
        if (std::exchange(one_died_, false)) {
          died_matters_until_ = std::max(died_matters_until_, importer_.ours_until());
        }
        full_ended_ = when.mono;
        full_took_ = full_ended_ - full_began_;
        ++full_reads_;
        if (std::exchange(regions_.all_received, true)) return;
        publisher_.trigger().look_at_all();
      }));
}

void RegionSync::clean(Instant now) {
  if (!is_due(now, cleaning_) || !store_->ledger->reachable()) return;
  cleaning_.began = now.mono;
  plan(cleaning_, now, kCleanEvery);
  store_->ledger->clean(
      kCleanRows, answer_to<LedgerCleaning>(
                      cleaning_, [this](Instant when, const Result<LedgerCleaning>& cleaning) {
                        if (!cleaning) return;
                        deleted_ += cleaning->deleted;
                        // There is more.
                        if (cleaning->deleted >= kCleanRows) cleaning_.next = when.mono;
                      }));
}

void RegionSync::sum_up(Instant now) {
  summed_up_ = now.mono;
  const Nanos quiet = now.mono - received_;
  const Nanos most = std::max<Nanos>(kBehindAfter, 3 * Nanos(regions_.rules.import_every));
  const Nanos unwritten = write_lag(now);
  store_->behind.store(quiet > most || unwritten > kUnwrittenAfter, std::memory_order_relaxed);

  const Publisher::Stats& published = publisher_.stats();
  const Importer::Stats& imported = importer_.stats();
  const auto rows = [&](Publish rule) { return published.rows[static_cast<size_t>(rule)]; };
  SyncStats stats{.presence = rows(Publish::kPresence),
                  .contended = rows(Publish::kContended),
                  .exhaustion = rows(Publish::kExhaustion),
                  .roll_over = rows(Publish::kRollOver),
                  .publish_errors = published.errors,
                  .dropped = published.dropped,
                  .left_out = published.left_out + publisher_.trigger().left_out().cells,
                  .waiting = publisher_.waiting(),
                  .publish_lag = publisher_.lag(now.mono),
                  .imported = imported.imported,
                  .import_errors = import_errors_,
                  .last_import = last_import_,
                  .invalid = invalid_ + imported.invalid,
                  .received_total = imported.received,
                  .no_room = imported.no_room,
                  .lost = imported.lost,
                  .import_lag = quiet,
                  .write_lag = unwritten > kUnwrittenAfter ? unwritten : Nanos(0),
                  .full_read_age = now.mono - (full_reads_ == 0 ? started_ : full_ended_),
                  .full_read_took = full_took_,
                  .full_reads = full_reads_,
                  .deleted = deleted_,
                  .regions = regions_.count,
                  .budget_used = publisher_.budget().used(),
                  .rules_differ = regions_.count > 0 && regions_.rules != wished_,
                  .ready = regions_.all_received};
  stats.bound = bound(now);
  {
    const base::MutexLock lock(store_->remote.mutex());
    stats.keys = store_->remote.size();
    stats.keys_received = store_->remote.received();
  }
  const base::MutexLock lock(mutex_);
  stats_ = stats;
}

// For how long the ledger has accepted nothing from this process: neither that it is there, which
// it says every two seconds, nor rows. Rows alone may fail, too.
Nanos RegionSync::write_lag(Instant now) const {
  const MonoTime accepted = std::max({started_, fleet_received_, publisher_.written_at()});
  const MonoTime failing = publisher_.failing_since().value_or(now.mono);
  return std::max(now.mono - accepted, now.mono - failing);
}

// Whether others may have told what this process did not hear, or has no room for.
bool RegionSync::knows_too_little(Instant now) const {
  return may_have_missed_ || missed_before_ || import_failed_ || !importer_.has_all() ||
         now.mono - received_ > kUnderWay + Nanos(regions_.rules.import_every) ||
         now.mono - fleet_received_ > kUnderWay + Nanos(kHeartbeatEvery) ||
         store_->sketch.live_until() > now.wall;
}

// Of a limit, beside what is under way. The others may hide what they said they would; if nobody
// heard of anybody, each region admits a limit, or each of its processes does.
double RegionSync::bound(Instant now) const {
  if (!regions_.all_received) return std::numeric_limits<double>::infinity();
  const double slack = 1 + regions_.rules.slack_permille / 1e3;
  const auto slow = static_cast<double>(nodes_apart(now));
  const double most = std::max(1 + static_cast<double>(regions_.most_ppm) / 1e6, slack) + slow;
  if (knows_too_little(now)) return most;
  return std::min(slack + static_cast<double>(regions_.hidden_ppm) / 1e6 + slow, most);
}

SyncStats RegionSync::stats() const {
  const base::MutexLock lock(mutex_);
  return stats_;
}

}  // namespace weir::limiter
