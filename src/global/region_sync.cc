#include "global/region_sync.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "algorithms/windows.h"
#include "base/mutex.h"
#include "global/ledger_key.h"
#include "memory/tentative.h"
#include "regional/freshness.h"

namespace weir::global {

using memory::mutated;
using memory::Mutation;
using memory::Tuple;
using memory::WindowCells;

namespace {

constexpr Millis kStatsEvery{50};
constexpr Millis kClockStep{1000};
constexpr Millis kStarting{5000};
constexpr Millis kTellSurvivalEvery{15'000};

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
  subscription_ = nullptr;
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
    started_ = imported_at_ = fleet_known_at_ = complete_at_ = now.mono;
    cleaning_.next = now.mono + kCleanEvery;
  }
  // Before the replies of this run: they may end it.
  if (regions_.complete) complete_at_ = now.mono;
  if (misses_rows(now)) missed_at_ = now;
  if (!is_bridge(now)) not_bridge_at_ = now.mono;
  choose_store();
  tell_of_survival(now);
  completions_->run_all(now);
  update_siblings(now);
  continue_making_stale();
  if (regions_.count > 0) {
    evaluate_all_after_change();
    trigger_.evaluate_listed(now);
    trigger_.evaluate_timers(now);
  }
  // Also if the ledger has not told yet how many regions there are: then this waits for it.
  const bool publishes = regions_.count > 0 || flush == Flush::kAll;
  if (flush == Flush::kAll) trigger_.make_all_due(now);
  if (publishes) send_due(now, flush);
  importer_.run(now, regions_.rules.import_every, flush);
  if (is_bridge(now)) {
    if (publishes) publisher_.run(now, flush);
    clean(now);
  } else {
    publisher_.stop();
  }
  hold_causes(now);
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
  // A process that has just started makes its connections one after the other. It has applied no
  // row that the origin could have lost, unless it is the bridge already.
  survivor_ = survivor_ || latest_.mono - started_ >= kStarting;
  const bool was_bridge = mode_ == Mode::kOrigin && importer_.is_bridge(latest_.mono);
  const bool may_miss_rows = lost && (survivor_ || was_bridge);
  tells_survival_ = {};
  // After a loss, the origin may not know what was due, nor this process what was sent to it.
  trigger_.forget_due();
  trigger_.evaluate_all();
  // Messages are numbered anew. What other regions wrote may be missing.
  last_message_.reset();
  if (mode == mode_) {
    if (may_miss_rows) importer_.discard_positions();
    return make_all_stale();
  }
  publisher_.stop();
  subscription_ = nullptr;
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
  if (may_miss_rows) importer_.discard_positions();
}

// An origin that lost its data gets the counts of this process again: the bridge must not add them
// once more from the ledger. The record is repeated, since the origin keeps it for a minute, and it
// may be lost.
void RegionSync::tell_of_survival(Instant now) {
  static_assert(3 * kTellSurvivalEvery < kRecordsKept);
  if (!survivor_ || mode_ != Mode::kOrigin || now.mono < tells_survival_) return;
  tells_survival_ = now.mono + kTellSurvivalEvery;
  store_->keep_record(encode(SurvivorRecord{.incarnation = region_->incarnation}),
                      [](const auto&) {});
}

void RegionSync::use_origin() {
  store_ = region_->origin->bridge_store();
  // The bridge must find out if the ledger loses what this process published by itself. The ledger
  // may have lost it before, when the bridge did not know of it, or has repeated what it knew. So
  // from now on only what the origin has counts as published.
  if (own_store_) {
    own_store_->bridge_store()->read_records([&](const Result<std::vector<std::string>>& records) {
      if (!records) return;
      for (const std::string& record : *records) {
        store_->keep_record(record, [](const auto&) {});
        forget_published(record);
      }
    });
  }
  // What this process knew by itself is not missed: the origin has it or learns it.
  global_->set_own_store(nullptr);
  own_store_ = nullptr;
  make_all_stale();
}

void RegionSync::forget_published(const std::string& record) {
  const auto notice = decode_notice(record);
  if (!notice) return;
  for (const TupleChange& change : notice->changes) {
    if (!is_window_tuple(change.tuple)) continue;
    global_->shared.forget_published(memory::TupleKey(change.tuple, tuples_->hash));
  }
}

void RegionSync::use_own_store() {
  own_store_ = make_in_process_origin(tuples_->clock, global_->max_private_tuples);
  store_ = own_store_->bridge_store();
  global_->set_own_store(own_store_);
}

void RegionSync::subscribe(BridgeStore& store) {
  const uint64_t number = ++subscriptions_;
  subscription_ =
      store.subscribe([this, number, weak = std::weak_ptr(completions_)](BridgeMessage message) {
        const auto completions = weak.lock();
        if (!completions) return;
        auto shared = std::make_shared<BridgeMessage>(std::move(message));
        completions->post([this, number, shared](Instant now) {
          if (number == subscriptions_) on_message(now, *shared);
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
  BridgeNotice notice{
      .regions = regions_,
      .import_age =
          std::chrono::ceil<Millis>(now.mono - std::max(importer_.stats().imported_at, started_)),
      .fleet_age = std::chrono::ceil<Millis>(now.mono - std::max(fleet_known_at_, started_)),
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
  const auto notice = decode_notice(
      message.body, [this](std::span<const std::string_view> tuples) { return serves(tuples); });
  if (!notice) return;
  if (!is_bridge(now)) regions_ = notice->regions;
  imported_at_ = std::max(imported_at_, now.mono - Nanos(notice->import_age));
  fleet_known_at_ = std::max(fleet_known_at_, now.mono - Nanos(notice->fleet_age));
  for (const TupleChange& change : notice->changes) merge(now, change);
}

// Which of these tuples are in the table. Most are not, which its control bytes say: the look-ups
// wait for them together.
std::vector<bool> RegionSync::serves(std::span<const std::string_view> tuples) const {
  const memory::Table& table = tuples_->table;
  std::vector<bool> found(tuples.size());
  for (size_t i = 0; i < tuples.size(); ++i) {
    found[i] = is_window_tuple(tuples[i]);
    if (found[i]) table.prefetch_control(memory::TupleKey(tuples[i], tuples_->hash).hash());
  }
  const epoch::Guard guard;
  for (size_t i = 0; i < tuples.size(); ++i) {
    if (found[i]) found[i] = bool(table.find(memory::TupleKey(tuples[i], tuples_->hash)));
  }
  return found;
}

// With other inputs of the rule, counts may have a reason to be published that had none.
void RegionSync::evaluate_all_after_change() {
  const RuleInputs inputs{.rules = regions_.rules,
                          .count = regions_.count,
                          .complete = regions_.complete,
                          .doublings = regions_.doublings};
  if (inputs == rule_inputs_) return;
  rule_inputs_ = inputs;
  region_->other_regions.store(std::max(regions_.count, 2U) - 1, std::memory_order_relaxed);
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
  if (mutated(Mutation::kOwnRowFresh)) {
    const Nanos fresh = regional::fresh_for(tuple.slot->header.duration(), region_->max_freshness);
    WindowCells(tuple).fresh_until().store(regional::Freshness::read(now.mono, fresh).word);
  }
  if (merged == SharedTuples::Merge::kUnchanged) return;
  watch_->push(tuple.index);
  region_->note_foreign(*tuples_, tuple);
}

regional::RegionTotals RegionSync::totals_of(const std::vector<RegionCount>& counts,
                                             int64_t sequence) const {
  const LedgerTotals totals = global::totals_of(counts, global_->shared.region(), sequence);
  return {.foreign = {.current = totals.current.foreign, .previous = totals.last.foreign},
          .own = {.current = totals.current.own_region, .previous = totals.last.own_region}};
}

void RegionSync::merge_regions(const Tuple& tuple, const std::vector<RegionCount>& counts) {
  const memory::TupleKey key(tuple.slot->header, tuple.slot->key_words(), tuples_->hash);
  const auto merged = global_->shared.merge(tuples_->clock.now().wall, tuple, key, counts);
  if (merged == SharedTuples::Merge::kNoMemory) no_memory_.store(true, std::memory_order_relaxed);
  if (merged == SharedTuples::Merge::kUnchanged) return;
  watch_->push(tuple.index);
  region_->note_foreign(*tuples_, tuple);
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

}  // namespace weir::global
