#include "global/region_sync.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "algorithms/windows.h"
#include "base/mutex.h"
#include "global/ledger_key.h"
#include "memory/tentative.h"

namespace weir::global {

using memory::mutated;
using memory::Mutation;
using memory::Tuple;
using memory::WindowCells;

namespace {

constexpr Millis kHeartbeatEvery{2000};
constexpr Millis kHeartbeatRetry{500};
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

SyncRules with_valid_lease(SyncRules rules) {
  rules.lease = std::max(rules.lease, kMinLease);
  return rules;
}

std::string holder_name(uint64_t incarnation) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name(16, '0');
  for (size_t i = 0; i < name.size(); ++i) name[i] = kDigits[incarnation >> (60 - 4 * i) & 15];
  return name;
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
      trigger_(*tuples_, *global_, *watch_, regions_),
      importer_(
          {.region = global_->shared.region(), .holder = holder_name(region_->incarnation)},
          global_->ledger, completions_, regions_,
          [this](Instant now, std::vector<TupleChange> changes) {
            notify(now, std::move(changes));
          },
          region_->incarnation),
      publisher_({.region = global_->shared.region(), .holder = holder_name(region_->incarnation)},
                 global_->ledger, completions_, regions_, importer_,
                 [this](Instant now, std::vector<TupleChange> changes) {
                   notify(now, std::move(changes));
                 }),
      heartbeat_(completions_),
      cleaning_(completions_) {}

RegionSync::~RegionSync() {
  if (store_ != nullptr) store_->subscribe(nullptr);
}

WorkReport RegionSync::run_once(Instant now, Flush flush) {
  const base::MutexLock run(run_mutex_);
  now = std::max(now, latest_, [](Instant a, Instant b) { return a.mono < b.mono; });
  const bool clock_set = clock_was_set(now);
  latest_ = now;
  if (clock_set) {
    // By the former time, imported rows seemed expired or too early, and tuples ahead of it were
    // not evaluated.
    importer_.read_all_again();
    trigger_.evaluate_all();
    make_all_stale();
  }
  if (started_ == MonoTime{}) {
    started_ = imported_at_ = now.mono;
    cleaning_.next = now.mono + kCleanEvery;
  }
  choose_store();
  completions_->run_all(now);
  update_siblings(now);
  continue_making_stale();
  if (regions_.count > 0) {
    evaluate_all_after_change();
    trigger_.evaluate_listed(now);
    trigger_.evaluate_timers(now);
    if (flush == Flush::kAll) trigger_.make_all_due(now);
    send_due(now, flush);
  }
  importer_.run(now, regions_.rules.import_every, flush);
  if (is_bridge(now)) {
    if (regions_.count > 0) publisher_.run(now, flush);
    clean(now);
  } else {
    publisher_.stop();
  }
  heartbeat(now);
  // A store that replies at once is done in one run.
  constexpr int kMaxSteps = 100;
  for (int step = 0; step < kMaxSteps && completions_->run_all(now); ++step) {
  }
  size_t waiting = publisher_.waiting();
  if (flush == Flush::kAll) {
    if (importer_.awaits_grant(now.mono)) waiting = std::max<size_t>(waiting, 1);
    if (waiting == 0) importer_.release();
  }
  if (flush == Flush::kAll || now.mono - stats_updated_ >= kStatsEvery) update_stats(now);
  return {.waiting = waiting};
}

// Whether the wall clock was set since the last run, by more than clocks differ.
bool RegionSync::clock_was_set(Instant now) const {
  if (started_ == MonoTime{}) return false;
  const Millis passed = std::chrono::duration_cast<Millis>(now.mono - latest_.mono);
  const Millis step = (now.wall - latest_.wall) - passed;
  return step > kClockStep || step < -kClockStep;
}

// The origin holds what the region knows, as long as it accepts writes.
void RegionSync::choose_store() {
  BridgeStore* const shared = region_->origin ? region_->origin->bridge_store() : nullptr;
  const bool usable = shared != nullptr && accepts_writes(region_->origin->reach());
  const Mode mode = usable ? Mode::kOrigin : Mode::kAlone;
  const bool lost = usable && region_->origin->epoch() != origin_epoch_;
  if (usable) origin_epoch_ = region_->origin->epoch();
  if (mode == mode_ && !lost) return;
  const bool first = mode_ == Mode::kNone;
  // After a loss, the origin may not know what was due, nor this process what was sent to it.
  trigger_.forget_due();
  trigger_.evaluate_all();
  // Messages are numbered anew. What other regions wrote may be missing.
  last_message_.reset();
  if (mode == mode_) {
    importer_.discard_positions();
    return make_all_stale();
  }
  publisher_.stop();
  if (store_ != nullptr) store_->subscribe(nullptr);
  mode_ = mode;
  regions_.complete = false;
  if (mode == Mode::kOrigin) {
    use_origin();
  } else {
    use_own_store();
  }
  subscribe(*store_);
  importer_.use(*store_, mode == Mode::kOrigin ? StoreUse::kShared : StoreUse::kPrivate,
                std::max(regions_.own, importer_.own_position()));
  publisher_.use(*store_);
  if (lost && !first) importer_.discard_positions();
}

void RegionSync::use_origin() {
  store_ = region_->origin->bridge_store();
  // What this process knew by itself is not missed: the origin has it or learns it.
  global_->set_own_store(nullptr);
  own_store_ = nullptr;
  make_all_stale();
}

void RegionSync::use_own_store() {
  own_store_ = make_in_process_origin(tuples_->clock, global_->max_private_tuples);
  store_ = own_store_->bridge_store();
  global_->set_own_store(own_store_);
}

void RegionSync::subscribe(BridgeStore& store) {
  const uint64_t subscription = ++subscription_;
  store.subscribe([this, subscription, weak = std::weak_ptr(completions_)](BridgeMessage message) {
    const auto completions = weak.lock();
    if (!completions) return;
    auto shared = std::make_shared<BridgeMessage>(std::move(message));
    completions->post([this, subscription, shared](Instant now) {
      if (subscription == subscription_) on_message(now, *shared);
    });
  });
}

// Cells with a reason to publish go to the store together with their counts.
void RegionSync::send_due(Instant now, Flush flush) {
  std::vector<regional::DueCell> cells = trigger_.take_due();
  if (cells.empty()) return;
  if (mode_ == Mode::kAlone) return send_due_to_own_store(cells);
  // A process that ends sends no more counts: they are at the origin.
  if (flush == Flush::kAll) add_due(now, cells);
  region_->add_due(std::move(cells));
}

void RegionSync::add_due(Instant now, const std::vector<regional::DueCell>& cells) {
  std::vector<DueTuple> entries;
  for (const regional::DueCell& cell : cells) {
    const epoch::Guard guard;
    const Tuple tuple = tuples_->table.at(cell.index);
    if (!tuple || WindowCells(tuple).generation() != cell.generation) continue;
    const WallTime end = end_of_window(cell.sequence, tuple.slot->header.duration());
    entries.push_back({.tuple = memory::encode_key(tuple.slot->header, tuple.slot->key_words()),
                       .kind = cell.due,
                       .at = cell.due == Due::kWindowEnd ? end : now.wall});
  }
  if (!entries.empty()) store_->add_due(std::move(entries));
}

void RegionSync::send_due_to_own_store(const std::vector<regional::DueCell>& cells) {
  std::vector<CellReplay> replays;
  for (const regional::DueCell& cell : cells) {
    const epoch::Guard guard;
    const Tuple tuple = tuples_->table.at(cell.index);
    if (!tuple) continue;
    const WindowCells window(tuple);
    if (window.generation() != cell.generation) continue;
    const auto own = memory::settled(window.own(cell.sequence), window.tentative());
    if (!own) {
      watch_->push(cell.index);
      continue;
    }
    // The siblings as far as they are known: with the origin lost, each process counts for itself.
    const Count siblings = memory::count_in(window.siblings(cell.sequence), cell.sequence);
    replays.push_back(
        {.cell = {memory::encode_key(tuple.slot->header, tuple.slot->key_words()), cell.sequence},
         .writer = region_->component(1),
         .total = own->count_of(cell.sequence) + siblings,
         .expires_at = WallTime((cell.sequence + 2) * tuple.slot->header.duration()),
         .limit_seen = memory::smallest_limit(tuple),
         .due = cell.due});
  }
  if (!replays.empty()) own_store_->replay(std::move(replays), [](const auto&) {});
}

void RegionSync::notify(Instant now, std::vector<TupleChange> changes) {
  BridgeNotice notice{.regions = regions_,
                      .import_age = std::chrono::ceil<Millis>(
                          now.mono - std::max(importer_.stats().imported_at, started_)),
                      .changes = std::move(changes)};
  // A process whose lease has ended does not know what the bridge has found out since.
  if (!is_bridge(now)) notice.regions.complete = false;
  store_->notify(encode(notice));
}

void RegionSync::on_message(Instant now, const BridgeMessage& message) {
  const bool missed = last_message_ && message.number != *last_message_ + 1;
  // The first message shows only where the numbers are: tuples may have been read before it.
  if (missed || !last_message_) {
    if (missed) ++messages_missed_;
    make_all_stale();
  }
  last_message_ = message.number;
  const auto notice = decode_notice(message.body);
  if (!notice) return;
  if (!is_bridge(now)) regions_ = notice->regions;
  imported_at_ = std::max(imported_at_, now.mono - Nanos(notice->import_age));
  for (const TupleChange& change : notice->changes) merge(now, change);
}

// With other inputs of the rule, counts may have a reason to be published that had none.
void RegionSync::evaluate_all_after_change() {
  const RuleInputs inputs{.rules = regions_.rules,
                          .count = regions_.count,
                          .complete = regions_.complete,
                          .doublings = regions_.doublings};
  if (inputs == rule_inputs_) return;
  rule_inputs_ = inputs;
  trigger_.evaluate_all();
}

void RegionSync::merge(Instant now, const TupleChange& change) {
  if (!is_window_tuple(change.tuple)) return;
  const memory::TupleKey key(change.tuple, tuples_->hash);
  const epoch::Guard guard;
  const Tuple tuple = tuples_->table.find(key);
  if (!tuple) return;
  rows_applied_ += change.counts.size();
  const auto merged = global_->shared.merge(now.wall, tuple, key, change.counts);
  if (merged == SharedTuples::Merge::kNoMemory) trigger_.note_skipped(now.mono);
  if (merged != SharedTuples::Merge::kUnchanged) watch_->push(tuple.index);
}

void RegionSync::merge_regions(const Tuple& tuple, const std::vector<RegionCount>& counts) {
  const memory::TupleKey key(tuple.slot->header, tuple.slot->key_words(), tuples_->hash);
  const auto merged = global_->shared.merge(tuples_->clock.now().wall, tuple, key, counts);
  if (merged == SharedTuples::Merge::kNoMemory) no_memory_.store(true, std::memory_order_relaxed);
  if (merged != SharedTuples::Merge::kUnchanged) watch_->push(tuple.index);
}

// This process may have missed a message: the next request for a tuple reads it from the origin.
void RegionSync::make_all_stale() {
  stale_at_ = 0;
  region_->note_missed_messages(latest_.mono);
}

void RegionSync::continue_making_stale() {
  constexpr size_t kSlotsAtATime = 65'536;
  for (size_t i = 0; i < kSlotsAtATime && stale_at_ < tuples_->table.slots(); ++i, ++stale_at_) {
    const epoch::Guard guard;
    const Tuple tuple = tuples_->table.at(static_cast<uint32_t>(stale_at_));
    if (!tuple || tuple.slot->header.cell_class() != memory::CellClass::kWindow) continue;
    WindowCells(tuple).fresh_until().store(0, std::memory_order_release);
  }
}

void RegionSync::update_siblings(Instant now) {
  const uint32_t siblings = region_->origin ? region_->origin->live_nodes() : 1;
  if (siblings < siblings_) {
    died_counts_until_ = std::max(died_counts_until_, now.wall + 2 * trigger_.longest_window());
  }
  siblings_ = siblings;
  // Without an origin, what a former process had not published died with it.
  if (mode_ == Mode::kAlone) {
    died_counts_until_ = std::max(died_counts_until_, importer_.stats().former_rows_until);
  }
}

// How many siblings may each admit another limit: while the processes of the region cannot exchange
// counts through the origin, or cannot keep them.
uint64_t RegionSync::diverging_siblings(Instant now) const {
  if (!region_->origin || siblings_ <= 1) return 0;
  const bool lost = region_->origin->reach() != Reach::kPrompt;
  const bool late = Nanos(region_->replay_lag.load(std::memory_order_relaxed)) > kMaxInFlight;
  return lost || late || tuples_->sketch.live_until() > now.wall ? siblings_ - 1 : 0;
}

// What a region may leave unpublished when all is well, in millionths of a limit: the allowance,
// and what the row budget adds to the slack.
uint64_t RegionSync::usual_ppm() const {
  const uint64_t others = std::max(regions_.count, 2U) - 1;
  const uint32_t doublings = std::min(regions_.max_doublings(), kMaxDoublings);
  const uint64_t allowance = uint64_t{regions_.rules.unpublished_permille} * 1000 / others;
  const uint64_t slack = uint64_t{regions_.rules.slack_permille} * 1000;
  return std::min(allowance << doublings, kWholeLimit) + std::min(slack << doublings, kWholeLimit) -
         slack;
}

// The most that this region may have unpublished, as far as this process can tell. Counts that wait
// too long or that the origin does not have count as a whole limit.
uint64_t RegionSync::unpublished_ppm(Instant now) {
  const bool waits = trigger_.waiting(now).longest > kMaxInFlight ||
                     (is_bridge(now) && publisher_.lag(now.mono) > kMaxInFlight);
  const bool skipped = trigger_.skipped().cells > 0 &&
                       now.mono - trigger_.skipped().at < 2 * Nanos(trigger_.longest_window());
  const bool evicted = mode_ == Mode::kAlone && tuples_->evicted.live_until() > now.wall;
  const bool whole = (waits && !mutated(Mutation::kWaitingNotExported)) || skipped || evicted ||
                     tuples_->sketch.live_until() > now.wall || died_counts_until_ > now.wall;
  const uint64_t diverging = diverging_siblings(now) * kWholeLimit;
  if (whole || diverging > 0) return std::max(kWholeLimit, usual_ppm()) + diverging;
  return usual_ppm();
}

// The bridge reports for the region. Another process reports only what is worse than usual.
void RegionSync::heartbeat(Instant now) {
  if (no_memory_.exchange(false, std::memory_order_relaxed)) trigger_.note_skipped(now.mono);
  if (heartbeat_.give_up_late_call(now.mono)) ++heartbeat_errors_;
  const uint64_t unpublished = unpublished_ppm(now);
  if (!is_bridge(now) && unpublished <= usual_ppm()) return;
  // A higher value than reported goes out at once.
  if (unpublished > reported_unpublished_ && !heartbeat_.in_flight()) heartbeat_.next = now.mono;
  if (!heartbeat_.is_due(now.mono)) return;
  heartbeat_.next = now.mono + kHeartbeatEvery;
  reported_unpublished_ = unpublished;
  const LedgerRegion self{.region = global_->shared.region(), .unpublished_ppm = unpublished};
  global_->ledger->heartbeat(self, configured_rules_,
                             heartbeat_.call<LedgerFleet>(
                                 now.mono, [this](Instant when, const Result<LedgerFleet>& fleet) {
                                   if (fleet) {
                                     fleet_updated_ = heartbeat_.began();
                                     update_fleet(*fleet);
                                   } else {
                                     ++heartbeat_errors_;
                                     heartbeat_.next = when.mono + kHeartbeatRetry;
                                   }
                                 }));
}

void RegionSync::update_fleet(const LedgerFleet& fleet) {
  const bool one = mutated(Mutation::kRegionsUnderestimated);
  const auto count = static_cast<uint32_t>(one ? 1 : std::max<size_t>(1, fleet.regions.size()));
  const SyncRules rules = with_valid_lease(fleet.rules);
  regions_.count = count;
  regions_.rules = rules;
  regions_.unpublished_ppm = 0;
  regions_.max_ppm = 0;
  for (const LedgerRegion& region : fleet.regions) {
    if (region.region == global_->shared.region()) continue;
    // A silent region may have a whole limit unpublished.
    const uint64_t least = region.silent > kSilentAfter ? kWholeLimit : 0;
    const uint64_t unpublished = std::max(region.unpublished_ppm, least);
    regions_.unpublished_ppm += unpublished;
    regions_.max_ppm += std::max(unpublished, kWholeLimit);
  }
}

void RegionSync::clean(Instant now) {
  (void)cleaning_.give_up_late_call(now.mono);
  if (!global_->cleans || !cleaning_.is_due(now.mono) || !global_->ledger->reachable()) return;
  cleaning_.next = now.mono + kCleanEvery;
  global_->ledger->clean(
      kCleanRows, cleaning_.call<LedgerCleaning>(
                      now.mono, [this](Instant when, const Result<LedgerCleaning>& cleaning) {
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

  const BridgePublisher::Stats& published = publisher_.stats();
  const BridgeImporter::Stats& imported = importer_.stats();
  const PublishTrigger::Waiting waiting = trigger_.waiting(now);
  const auto rows = [&](PublishReason reason) {
    return published.rows[static_cast<size_t>(reason)];
  };
  SyncStats stats{.presence = rows(PublishReason::kPresence),
                  .contended = rows(PublishReason::kContended),
                  .exhaustion = rows(PublishReason::kExhaustion),
                  .roll_over = rows(PublishReason::kRollOver),
                  .publish_errors = published.errors,
                  .dropped = published.dropped,
                  .left_out = trigger_.skipped().cells,
                  .waiting = std::max<uint64_t>(waiting.cells, publisher_.waiting()),
                  .publish_lag = std::max(waiting.longest, publisher_.lag(now.mono)),
                  .imported = imported.read,
                  .applied = rows_applied_,
                  .import_errors = imported.errors + heartbeat_errors_,
                  .last_import = imported.last_read,
                  .invalid = imported.invalid,
                  .no_room = imported.no_room,
                  .messages_missed = messages_missed_,
                  .lost = imported.lost,
                  .import_lag = quiet,
                  .write_lag = unwritten > kUnwrittenAfter ? unwritten : Nanos(0),
                  .full_read_age = now.mono - std::max(started_, imported.full_read_ended),
                  .full_read_took = imported.full_read_took,
                  .full_reads = imported.full_reads,
                  .deleted = deleted_,
                  .regions = regions_.count,
                  .budget_used = publisher_.budget().used(),
                  .rules_differ = regions_.count > 0 && regions_.rules != configured_rules_,
                  .ready = regions_.complete,
                  .bridge = is_bridge(now)};
  stats.bound = bound(now);
  {
    const base::MutexLock lock(global_->shared.mutex());
    stats.keys = global_->shared.size();
  }
  const base::MutexLock lock(stats_mutex_);
  stats_ = stats;
}

// For how long the ledger has accepted neither a heartbeat nor a row of the bridge. Rows alone may
// fail, too. Another process cannot tell.
Nanos RegionSync::write_lag(Instant now) const {
  if (!is_bridge(now)) return Nanos(0);
  const MonoTime accepted = std::max({started_, fleet_updated_, publisher_.written_at()});
  const MonoTime failing = publisher_.failing_since().value_or(now.mono);
  return std::max(now.mono - accepted, now.mono - failing);
}

// Whether other regions may have published counts that this process does not know.
bool RegionSync::may_miss_counts(Instant now) const {
  return now.mono - imported_at_ > kMaxInFlight + Nanos(regions_.rules.import_every) ||
         stale_at_ < tuples_->table.slots() || trigger_.skipped().cells > 0 ||
         importer_.stats().no_room_until > now.wall || tuples_->sketch.live_until() > now.wall;
}

// The most that may be admitted, as a multiple of a limit, plus the counts in flight. The other
// regions may have as much unpublished as they reported; if no region knows of another, each
// region, or each of its processes, admits a limit.
double RegionSync::bound(Instant now) const {
  if (!regions_.complete || regions_.count == 0) return std::numeric_limits<double>::infinity();
  const double slack = 1 + regions_.rules.slack_permille / 1e3;
  const auto diverging = static_cast<double>(diverging_siblings(now));
  const double most = std::max(1 + static_cast<double>(regions_.max_ppm) / 1e6, slack) + diverging;
  if (may_miss_counts(now)) return most;
  return std::min(slack + static_cast<double>(regions_.unpublished_ppm) / 1e6 + diverging, most);
}

SyncStats RegionSync::stats() const {
  const base::MutexLock lock(stats_mutex_);
  return stats_;
}

}  // namespace weir::global
