#include "global/region_sync.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/split_mix.h"

namespace weir::global {
namespace {

constexpr Millis kHeartbeatEvery{2000};
constexpr Millis kHeartbeatRetry{500};
constexpr Millis kImportRetry{500};
constexpr Millis kLookBackEvery{2000};  // for late commits
constexpr Millis kDeadline{5000};       // for any reply
constexpr Millis kPageEvery{50};        // in all full reads but the first
constexpr Millis kFullReadEvery{60'000};
constexpr Millis kFullReadPause{5000};  // at least
constexpr Millis kCleanEvery{10'000};
constexpr size_t kCleanRows = 5000;
constexpr Millis kStatsEvery{50};
constexpr Millis kBehindAfter{5000};  // without an import
// Without an accepted write: two heartbeats, of which one failed.
constexpr Millis kUnwrittenAfter{4000};
// A count that is older than this is no longer in flight, and widens the bound.
constexpr Nanos kMaxInFlight = Millis(2000);
constexpr Millis kSilentAfter{3 * kHeartbeatEvery};
constexpr Millis kClockStep{1000};
constexpr uint64_t kWholeLimit = 1'000'000;  // in millionths

// The rules as this process applies them. A lease concerns only the region that takes it, so one
// longer than agreed takes nothing from the others.
SyncRules with_valid_lease(SyncRules rules) {
  rules.lease = std::max(rules.lease, shortest_lease(rules));
  return rules;
}

}  // namespace

RegionSync::RegionSync(std::shared_ptr<memory::TupleStore> tuples,
                       std::shared_ptr<regional::RegionState> region,
                       std::shared_ptr<GlobalState> global,
                       std::shared_ptr<memory::PublishWatch> watch, const SyncRules& rules)
    : tuples_(std::move(tuples)),
      region_(std::move(region)),
      global_(std::move(global)),
      watch_(std::move(watch)),
      configured_rules_(rules),
      regions_{.rules = with_valid_lease(rules)},
      publisher_(*tuples_, *region_, *global_, *watch_, completions_, regions_),
      importer_(*tuples_, *global_, regions_, publisher_.trigger()),
      jitter_(region_->incarnation) {}

WorkReport RegionSync::run_once(Instant now, Flush flush) {
  const std::lock_guard run(run_mutex_);
  now = std::max(now, latest_, [](Instant a, Instant b) { return a.mono < b.mono; });
  if (clock_was_set(now)) {
    // By the former time, imported rows seemed expired or too early, and tuples ahead of it were
    // not evaluated.
    import_failed_ = true;
    publisher_.trigger().evaluate_all();
  }
  latest_ = now;
  if (started_ == MonoTime{}) {
    started_ = imported_at_ = now.mono;
    schedule_next(cleaning_, now, kCleanEvery);
  }
  completions_->run_all(now);
  heartbeat(now);
  if (regions_.count > 0) {
    publisher_.trigger().evaluate_listed(now);
    publisher_.trigger().evaluate_due(now);
    if (flush == Flush::kAll) publisher_.enqueue_all(now);
    if (flush == Flush::kAll || now.mono >= publishing_.next) {
      schedule_next(publishing_, now, regions_.rules.publish_every);
      publisher_.publish(now, flush);
    }
    import_changes(now);
    read_next_page(now);
    clean(now);
  }
  if (flush == Flush::kAll || now.mono - stats_updated_ >= kStatsEvery) update_stats(now);
  return {.waiting = publisher_.waiting()};
}

// Whether the wall clock was set since the last run, by more than clocks differ.
bool RegionSync::clock_was_set(Instant now) const {
  if (started_ == MonoTime{}) return false;
  const Millis passed = std::chrono::duration_cast<Millis>(now.mono - latest_.mono);
  const Millis step = (now.wall - latest_.wall) - passed;
  return step > kClockStep || step < -kClockStep;
}

// Counts from the time at which the task was due, so that slow runs cause no drift; missed calls
// are not repeated. The jitter is a fifth, so that processes do not call at the same time.
void RegionSync::schedule_next(PeriodicTask& task, Instant now, Nanos every) {
  const int64_t fifth = std::max<int64_t>(1, every.count() / 5);
  const auto jitter =
      static_cast<int64_t>(base::split_mix(jitter_) % static_cast<uint64_t>(2 * fifth + 1)) - fifth;
  const MonoTime planned = task.next == MonoTime{} ? now.mono : task.next;
  task.next = std::max(planned + every + Nanos(jitter), now.mono);
}

// Whether it is time, and the last call was answered or timed out.
bool RegionSync::is_due(Instant now, PeriodicTask& task) {
  if (task.in_flight && now.mono - task.began >= kDeadline) {
    task.in_flight = false;
    import_failed_ = import_failed_ || task.imports;
    ++import_errors_;
  }
  return !task.in_flight && now.mono >= task.next;
}

// The reply function for a port: posts the answer to the completion queue, which handles it unless
// the call timed out before.
template <typename Answer, typename Handle>
auto RegionSync::reply_for(PeriodicTask& task, Handle handle) {
  const uint64_t number = ++task.number;
  task.in_flight = true;
  return [this, &task, number, handle = std::move(handle),
          weak = std::weak_ptr(completions_)](Result<Answer> answer) {
    const auto completions = weak.lock();
    if (!completions) return;
    auto shared = std::make_shared<Result<Answer>>(std::move(answer));
    completions->post([&task, number, handle, shared](Instant when) {
      if (!task.in_flight || task.number != number) return;
      task.in_flight = false;
      handle(when, *shared);
    });
  };
}

void RegionSync::heartbeat(Instant now) {
  update_siblings();
  const uint64_t unpublished = unpublished_ppm(now);
  // A higher value than reported goes out at once.
  if (unpublished > reported_unpublished_ && !heartbeat_.in_flight) heartbeat_.next = now.mono;
  if (!is_due(now, heartbeat_)) return;
  heartbeat_.began = now.mono;
  heartbeat_.next = now.mono + kHeartbeatEvery;
  reported_unpublished_ = unpublished;
  const LedgerRegion self{.region = global_->remote.region(), .hidden_ppm = unpublished};
  global_->ledger->heartbeat(
      self, configured_rules_,
      reply_for<LedgerFleet>(heartbeat_, [this](Instant when, const Result<LedgerFleet>& fleet) {
        if (fleet) {
          fleet_updated_ = heartbeat_.began;
          update_fleet(*fleet);
        } else {
          ++import_errors_;
          heartbeat_.next = when.mono + kHeartbeatRetry;
        }
      }));
}

void RegionSync::update_siblings() {
  const uint32_t siblings = region_->origin ? region_->origin->live_nodes() : 1;
  if (siblings < siblings_) node_died_ = true;
  siblings_ = siblings;
}

// How many siblings may each admit another limit: while the processes of the region cannot exchange
// counts through the origin, or cannot keep them.
uint64_t RegionSync::diverging_siblings(Instant now) const {
  if (!region_->origin || siblings_ <= 1) return 0;
  const bool lost = region_->origin->reach() != Reach::kPrompt;
  const bool late = Nanos(region_->replay_lag.load(std::memory_order_relaxed)) > kMaxInFlight;
  return lost || late || tuples_->sketch.matters_until() > now.wall ? siblings_ - 1 : 0;
}

// The most that this region may count unpublished, as far as this process can tell, in millionths
// of a limit. Counts that wait too long, were skipped or were evicted count as a whole limit.
uint64_t RegionSync::unpublished_ppm(Instant now) const {
  const uint64_t others = std::max(regions_.count, 2U) - 1;
  const uint64_t usual = uint64_t{regions_.rules.hidden_permille} * 1000 / others;
  const bool whole =
      publisher_.skipped_recently(now.mono) || publisher_.lag(now.mono) > kMaxInFlight ||
      tuples_->evicted.matters_until() > now.wall || tuples_->sketch.matters_until() > now.wall ||
      node_died_ || died_counts_until_ > now.wall;
  const uint64_t diverging = diverging_siblings(now) * kWholeLimit;
  if (whole || diverging > 0) return kWholeLimit + diverging;
  return std::min(usual << publisher_.budget().max_doublings(), kWholeLimit);
}

void RegionSync::update_fleet(const LedgerFleet& fleet) {
  const bool one = memory::mutated(memory::Mutation::kRegionsUnderestimated);
  const auto count = static_cast<uint32_t>(one ? 1 : std::max<size_t>(1, fleet.regions.size()));
  const SyncRules rules = with_valid_lease(fleet.rules);
  // With more regions the allowance of each is smaller, so a count may have reached it.
  if (count != regions_.count || rules != regions_.rules) publisher_.trigger().evaluate_all();
  regions_.count = count;
  regions_.rules = rules;
  regions_.unpublished_ppm = 0;
  regions_.max_ppm = 0;
  for (const LedgerRegion& region : fleet.regions) {
    if (region.region == global_->remote.region()) continue;
    // A silent region may have a whole limit unpublished.
    const uint64_t least = region.silent > kSilentAfter ? kWholeLimit : 0;
    const uint64_t unpublished = std::max(region.hidden_ppm, least);
    regions_.unpublished_ppm += unpublished;
    regions_.max_ppm += std::max(unpublished, kWholeLimit);
  }
}

void RegionSync::import_changes(Instant now) {
  if (!is_due(now, importing_)) return;
  if (!global_->ledger->reachable()) {
    import_failed_ = true;
    return;
  }
  importing_.began = now.mono;
  schedule_next(importing_, now, regions_.rules.import_every);
  const LedgerCursor cursor = next_read(now);
  if (cursor.look_back != LookBack::kNone) import_began_ = now.mono;
  global_->ledger->changes_since(
      cursor,
      reply_for<LedgerChanges>(importing_, [this, look_back = cursor.look_back](
                                               Instant when, const Result<LedgerChanges>& answer) {
        remainder_.reset();
        if (answer) {
          on_changes(when, *answer, look_back);
        } else {
          ++import_errors_;
          import_failed_ = true;
          importing_.next = when.mono + kImportRetry;
        }
      }));
}

// Every read looks back, except that of an answer's remainder.
LedgerCursor RegionSync::next_read(Instant now) const {
  if (remainder_) return *remainder_;
  const bool brief = cursor_ && now.mono < next_look_back_;
  return {.position = brief ? cursor_->position : looked_back_from_.position,
          .look_back = brief ? LookBack::kShort : LookBack::kLong};
}

void RegionSync::on_changes(Instant now, const LedgerChanges& changes, LookBack look_back) {
  // The changes are not enough at the start, after a clock was set back, and after a failure, which
  // may have replaced the ledger by a replica that was behind.
  const bool failed = std::exchange(import_failed_, false);
  if (!cursor_ || failed || changes.cut || changes.next.position < cursor_->position) {
    full_read_due_ = true;
    may_have_missed_ = true;
    full_reading_.next = {};
    page_ = {};
  }
  // Late commits are looked for from where the first part of an answer was read.
  if (look_back != LookBack::kNone) cursor_ = changes.next;
  if (look_back == LookBack::kLong) {
    looked_back_from_ = changes.next;
    next_look_back_ = import_began_ + kLookBackEvery;
  }
  remainder_ = changes.rest;
  if (remainder_) {
    importing_.next = now.mono;
  } else {
    imported_at_ = import_began_;
  }
  invalid_ += changes.invalid;
  last_import_ = changes.news.rows.size() + changes.news.presences.size();
  importer_.merge(now, changes.news);
}

void RegionSync::read_next_page(Instant now) {
  if (!cursor_ || !is_due(now, full_reading_) || !global_->ledger->reachable()) return;
  if (page_.after.empty()) {
    const Nanos pause = full_read_due_ ? kFullReadPause : kFullReadEvery;
    if (full_reads_ > 0 && now.mono - full_read_ended_ < pause) return;
    full_read_due_ = false;
    missed_before_ = std::exchange(may_have_missed_, false);
    full_read_began_ = now.mono;
    importer_.begin_full_read(now);
  }
  full_reading_.began = now.mono;
  full_reading_.next = regions_.fully_read ? now.mono + kPageEvery : now.mono;
  global_->ledger->read_page(
      page_,
      reply_for<LedgerPage>(full_reading_, [this](Instant when, const Result<LedgerPage>& page) {
        on_page(when, page);
      }));
}

void RegionSync::on_page(Instant now, const Result<LedgerPage>& page) {
  if (!page) {
    ++import_errors_;
    full_reading_.next = now.mono + kImportRetry;
    page_ = {};
    full_read_due_ = true;
    may_have_missed_ = true;
    return;
  }
  invalid_ += page->invalid;
  importer_.merge(now, page->news);
  page_ = page->next;
  if (!page->last) return;
  page_ = {};
  importer_.end_full_read(now);
  missed_before_ = false;
  if (std::exchange(node_died_, false)) {
    died_counts_until_ = std::max(died_counts_until_, importer_.own_rows_until());
  }
  full_read_ended_ = now.mono;
  full_read_took_ = full_read_ended_ - full_read_began_;
  ++full_reads_;
  if (std::exchange(regions_.fully_read, true)) return;
  publisher_.trigger().evaluate_all();
}

void RegionSync::clean(Instant now) {
  if (!is_due(now, cleaning_) || !global_->ledger->reachable()) return;
  cleaning_.began = now.mono;
  schedule_next(cleaning_, now, kCleanEvery);
  global_->ledger->clean(
      kCleanRows, reply_for<LedgerCleaning>(
                      cleaning_, [this](Instant when, const Result<LedgerCleaning>& cleaning) {
                        if (!cleaning) return;
                        deleted_ += cleaning->deleted;
                        // There may be more.
                        if (cleaning->deleted >= kCleanRows) cleaning_.next = when.mono;
                      }));
}

void RegionSync::update_stats(Instant now) {
  stats_updated_ = now.mono;
  const Nanos quiet = now.mono - imported_at_;
  const Nanos most = std::max<Nanos>(kBehindAfter, 3 * Nanos(regions_.rules.import_every));
  const Nanos unwritten = write_lag(now);
  global_->behind.store(quiet > most || unwritten > kUnwrittenAfter, std::memory_order_relaxed);

  const Publisher::Stats& published = publisher_.stats();
  const Importer::Stats& imported = importer_.stats();
  const auto rows = [&](PublishReason reason) {
    return published.rows[static_cast<size_t>(reason)];
  };
  SyncStats stats{.presence = rows(PublishReason::kPresence),
                  .contended = rows(PublishReason::kContended),
                  .exhaustion = rows(PublishReason::kExhaustion),
                  .roll_over = rows(PublishReason::kRollOver),
                  .publish_errors = published.errors,
                  .dropped = published.dropped,
                  .left_out = published.overflow + publisher_.trigger().skipped().cells,
                  .waiting = publisher_.waiting(),
                  .publish_lag = publisher_.lag(now.mono),
                  .imported = imported.imported,
                  .import_errors = import_errors_,
                  .last_import = last_import_,
                  .invalid = invalid_ + imported.invalid,
                  .received_total = imported.entries,
                  .no_room = imported.no_space,
                  .lost = imported.lost,
                  .import_lag = quiet,
                  .write_lag = unwritten > kUnwrittenAfter ? unwritten : Nanos(0),
                  .full_read_age = now.mono - (full_reads_ == 0 ? started_ : full_read_ended_),
                  .full_read_took = full_read_took_,
                  .full_reads = full_reads_,
                  .deleted = deleted_,
                  .regions = regions_.count,
                  .budget_used = publisher_.budget().used(),
                  .rules_differ = regions_.count > 0 && regions_.rules != configured_rules_,
                  .ready = regions_.fully_read};
  stats.bound = bound(now);
  {
    const std::lock_guard lock(global_->remote.mutex());
    stats.keys = global_->remote.size();
    stats.keys_received = global_->remote.imported_only();
  }
  const std::lock_guard lock(stats_mutex_);
  stats_ = stats;
}

// For how long the ledger has accepted neither a heartbeat nor a row of this process. Rows alone
// may fail, too.
Nanos RegionSync::write_lag(Instant now) const {
  const MonoTime accepted = std::max({started_, fleet_updated_, publisher_.written_at()});
  const MonoTime failing = publisher_.failing_since().value_or(now.mono);
  return std::max(now.mono - accepted, now.mono - failing);
}

// Whether other regions may have published counts that this process did not import or cannot keep.
bool RegionSync::may_miss_counts(Instant now) const {
  return may_have_missed_ || missed_before_ || import_failed_ || !importer_.has_all() ||
         now.mono - imported_at_ > kMaxInFlight + Nanos(regions_.rules.import_every) ||
         now.mono - fleet_updated_ > kMaxInFlight + Nanos(kHeartbeatEvery) ||
         tuples_->sketch.matters_until() > now.wall;
}

// The most that may be admitted, as a multiple of a limit, plus the counts in flight. The other
// regions may have as much unpublished as they reported; if no region knows of another, each
// region, or each of its processes, admits a limit.
double RegionSync::bound(Instant now) const {
  if (!regions_.fully_read) return std::numeric_limits<double>::infinity();
  const double slack = 1 + regions_.rules.slack_permille / 1e3;
  const auto diverging = static_cast<double>(diverging_siblings(now));
  const double most = std::max(1 + static_cast<double>(regions_.max_ppm) / 1e6, slack) + diverging;
  if (may_miss_counts(now)) return most;
  return std::min(slack + static_cast<double>(regions_.unpublished_ppm) / 1e6 + diverging, most);
}

SyncStats RegionSync::stats() const {
  const std::lock_guard lock(stats_mutex_);
  return stats_;
}

}  // namespace weir::global
