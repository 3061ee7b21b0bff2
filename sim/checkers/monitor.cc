#include "sim/checkers/monitor.h"

#include <algorithm>
#include <utility>

#include "global/ledger_key.h"
#include "memory/usage_key.h"

namespace weir::sim {

// Requests know nothing of usage tuples: global_burst_bound.cc checks what they are for. The
// requests of clients whose settings change have no records, and a workspace.
static bool is_unrecorded(const std::string& tuple) {
  return memory::header_of(tuple).workspace_bytes() > 0 || memory::is_usage_tuple(tuple);
}

static bool is_reachable(const Node& node, MonoTime now) {
  return node.is_running() && !node.is_paused(now) && node.link->reach() != Reach::kNone;
}

Monitor::Monitor(const Timeline& timeline, std::string only_checker)
    : timeline_(timeline), only_checker_(std::move(only_checker)) {}

void Monitor::add_region(const std::string& name, const OriginHistory& origin, Sharing sharing) {
  const bool has_origin = sharing == Sharing::kOrigin;
  regions_.push_back(std::make_unique<Region>(Region{.name = name, .origin = origin}));
  regions_.back()->checkers = has_origin ? all_region_checkers() : region_checkers_without_origin();
  const Region& region = *regions_.back();
  states_.push_back({.name = region.name,
                     .oracle = region.oracle,
                     .origin = region.origin,
                     .nodes = region.views,
                     .has_origin = has_origin});
}

void Monitor::add_node(Node& node) {
  Region& region = at(node.region);
  region.nodes.push_back(&node);
  region.views.emplace_back();
}

void Monitor::watch_ledger(const WatchedLedger& ledger, std::function<Delays()> delays) {
  ledger_ = &ledger;
  delays_ = std::move(delays);
  global_checkers_ = all_global_checkers();
}

ProcessInfo& Monitor::start_process(Node& node) {
  return oracle(node.region)
      .start_process(node.index, node.engine->incarnation(), node.normal.most_delay);
}

template <typename Checkers, typename Check>
void Monitor::run(const Checkers& checkers, const Check& check) {
  for (const auto& checker : checkers) {
    if (violation_ || stopped_) return;
    if (!only_checker_.empty() && checker->name() != only_checker_) continue;
    if (const auto found = check(*checker)) {
      violation_ = std::string(checker->name()) + ": " + *found;
      violated_at_ = timeline_.now().mono;
    }
  }
}

template <typename Check>
void Monitor::check(int region, const Check& check) {
  if (violation_ || stopped_) return;
  const RegionView seen = view(region);
  run(at(region).checkers, [&](RegionChecker& checker) { return check(checker, seen); });
}

template <typename Check>
void Monitor::check_regions(const Check& check_one) {
  for (size_t i = 0; i < regions_.size(); ++i) check(static_cast<int>(i), check_one);
}

template <typename Check>
void Monitor::check_global(const Check& check) {
  if (ledger_ == nullptr || violation_ || stopped_) return;
  const GlobalView seen = global_view();
  run(global_checkers_, [&](GlobalChecker& checker) { return check(checker, seen); });
}

// Messages between regions are late or lost from now on; bounds on delays allow for that.
void Monitor::note_disruption() {
  const MonoTime now = timeline_.now().mono;
  if (!disruption_began_ || now - last_disruption_ > kRecovery) disruption_began_ = now;
  last_disruption_ = now;
}

void Monitor::after_write(int region, const OriginWrite& write) {
  if (is_unrecorded(write.replay.cell.tuple)) return;
  check(region, [&](RegionChecker& checker, const RegionView& seen) {
    return checker.after_write(seen, write);
  });
}

void Monitor::after_commit(const Committed& committed) {
  history_.note(timeline_.now().mono, committed.rows);
  std::vector<LedgerRow> rows = committed.rows;
  std::erase_if(rows, [](const LedgerRow& row) {
    return is_unrecorded(
        memory::TupleKey(global::request_of(row.key), base::KeyedHash{1}).encoded());
  });
  check_global([&](GlobalChecker& checker, const GlobalView& seen) {
    return checker.after_commit(seen, {.by = committed.by, .rows = rows, .at = committed.at});
  });
}

void Monitor::after_sent(const Node& node, const SentReplay& sent) {
  check(node.region, [&](RegionChecker& checker, const RegionView& seen) {
    return checker.after_sent(seen, sent);
  });
}

void Monitor::after_received(const Node& node, const ReceivedReplay& received) {
  check(node.region, [&](RegionChecker& checker, const RegionView& seen) {
    return checker.after_received(seen, received);
  });
}

void Monitor::after_received(const Node& node, const ReceivedRead& received) {
  check(node.region, [&](RegionChecker& checker, const RegionView& seen) {
    return checker.after_received(seen, received);
  });
}

void Monitor::after_reconnect(const Node& node, int process) {
  check(node.region, [&](RegionChecker& checker, const RegionView& seen) {
    return checker.after_reconnect(seen, process);
  });
}

void Monitor::record(const Node& node, std::vector<RequestRecord>& together) {
  refresh_views();
  const NodeView& seen = view(node);
  for (RequestRecord& record : together) {
    record.answered_at = node.clock.now();
    record.contributor.generation = seen.generation_of(record.tuple);
    record.may_be_replaced = seen.may_replace_tuple_of(record);
  }
  add_to_oracle(node, together);
  mark_late_decisions(together);
}

void Monitor::add_to_oracle(const Node& node, std::vector<RequestRecord>& together) {
  const NodeView& seen = view(node);
  Oracle& oracle = at(node.region).oracle;
  std::vector<RequestRecord>& ambiguous = at(node.region).ambiguous[node.index];
  std::erase_if(ambiguous, [&](const RequestRecord& each) {
    return each.answered_at.mono != timeline_.now().mono ||
           each.contributor.generation != seen.generation_of(each.tuple);
  });
  for (const RequestRecord& record : ambiguous) oracle.take_back(record);
  const size_t count = together.size();
  together.insert(together.end(), ambiguous.begin(), ambiguous.end());
  ambiguous.clear();

  // A leap of all clocks ends the windows of requests that wait, so their tuples may be swept.
  const auto& jumped_at = conditions.jumped_at;
  const bool outwaited_leap =
      jumped_at && std::any_of(together.begin(), together.end(), [&](const RequestRecord& each) {
        return each.requested_at.mono <= *jumped_at;
      });
  // A tuple begins again when its clock is set hours back, and once more after each request that
  // waited with the time before that.
  const bool outwaited_restart =
      node.process->wrong_clock_until != WallTime{} &&
      std::any_of(together.begin(), together.end(),
                  [&](const RequestRecord& each) { return seen.has_younger_tuple_than(each); });
  if (guarantees.evicts || outwaited_leap || outwaited_restart) {
    mark_evicted_charges(together, oracle, [&](const CellId& cell) { return seen.own_of(cell); });
  }
  for (const RequestRecord& record : together) {
    if (record.is_local()) continue;
    is_sketched(record) ? oracle.add_sketched(record) : oracle.add(record);
    if (record.charged && record.may_be_replaced && record.contributor.generation != 0) {
      ambiguous.push_back(record);
    }
  }
  together.resize(count);
}

void Monitor::after_answer(const Node& node, const RequestRecord& record,
                           const std::vector<RequestRecord>& together) {
  if (record.is_local()) {
    check(node.region, [&](RegionChecker& checker, const RegionView& seen) {
      return checker.after_local_answer(seen, record);
    });
    check_global([&](GlobalChecker& checker, const GlobalView& seen) {
      return checker.after_local_answer(seen, node.region, record);
    });
    return;
  }
  if (is_sketched(record) || has_unknown_decision_time(together)) return;
  check(node.region, [&](RegionChecker& checker, const RegionView& seen) {
    return checker.after_answer(seen, record);
  });
  check_global([&](GlobalChecker& checker, const GlobalView& seen) {
    return checker.after_answer(seen, node.region, record);
  });
}

void Monitor::after_wait(const Node& node, MonoTime began) {
  const FinishedWait wait{.node = node.index, .began = began, .ended = node.clock.now().mono};
  check(node.region, [&](RegionChecker& checker, const RegionView& seen) {
    return checker.after_wait(seen, wait);
  });
}

void Monitor::after_changes(int region, const ChangedUse& use) {
  check(region, [&](RegionChecker& checker, const RegionView& seen) {
    return checker.after_changes(seen, use);
  });
}

// Most events change no cell: messages in flight, or background work with nothing to do. But an
// outage or a pause may begin and end while no node is touched, and checkers excuse only what they
// have seen.
void Monitor::after_event() {
  const MonoTime now = timeline_.now().mono;
  bool changed = false;
  for_each_node([&](const Node& node, const Region& region) {
    const NodeView& seen = region.views[static_cast<size_t>(node.index)];
    changed = changed || node.touched || is_reachable(node, now) != seen.reachable;
  });
  if (!changed) return;
  refresh_views();
  check_regions(
      [](RegionChecker& checker, const RegionView& seen) { return checker.after_event(seen); });
  check_global(
      [](GlobalChecker& checker, const GlobalView& seen) { return checker.after_event(seen); });
  for_each_node([](Node& node, const Region&) { node.touched = has_ready(node); });
}

void Monitor::audit() {
  for_each_node([](Node& node, const Region&) { node.touched = true; });
  refresh_views();
  for_each_node([this](const Node& node, Region& region) {
    NodeView& seen = region.views[static_cast<size_t>(node.index)];
    seen.shared.clear();
    seen.unrecorded.clear();
    seen.sync = {};
    seen.replay_lag = Nanos(0);
    if (!node.is_running()) return;
    seen.sync = node.engine->sync_stats();
    seen.replay_lag = node.engine->stats().replay_lag;
    conditions.no_room = conditions.no_room || seen.sync.left_out > 0;
    node.engine->inspect_sync(node.clock.now(), [&](const global::SharedCell& cell) {
      (is_unrecorded(cell.tuple) ? seen.unrecorded : seen.shared).push_back(cell);
    });
  });
  check_global(
      [](GlobalChecker& checker, const GlobalView& seen) { return checker.at_audit(seen); });
}

void Monitor::at_end() {
  check_regions(
      [](RegionChecker& checker, const RegionView& seen) { return checker.at_end(seen); });
  check_global([](GlobalChecker& checker, const GlobalView& seen) { return checker.at_end(seen); });
}

bool Monitor::is_sketched(const RequestRecord& record) const {
  return guarantees.evicts && record.contributor.generation == 0 &&
         record.verdict.basis == Basis::kDegraded;
}

void Monitor::refresh_views() {
  const MonoTime now = timeline_.now().mono;
  for_each_node([now](const Node& node, Region& region) {
    NodeView& seen = region.views[static_cast<size_t>(node.index)];
    seen.node = node.index;
    seen.now = node.clock.now();
    seen.latest = node.clock.latest();
    seen.last_replay = node.last_replay;
    seen.paused_until = node.paused_until;
    seen.in_flight = node.in_flight;
    seen.reachable = is_reachable(node, now);
    // A reply charges requests that are answered a little later.
    seen.touched = node.touched && !has_ready(node);
    if (!node.touched) return;
    seen.cells.clear();
    const auto known = std::exchange(seen.created, {});
    const auto counted = std::exchange(seen.most_own, {});
    seen.process = node.is_running() ? node.process->number : -1;
    if (!node.is_running()) return;
    seen.incarnation = node.engine->incarnation();
    node.engine->inspect([&](const decide::CellView& cell) {
      if (is_unrecorded(cell.tuple)) return;
      seen.cells.push_back(cell);
      const auto found = known.find(cell.generation);
      seen.created[cell.generation] = found == known.end() ? seen.now.mono : found->second;
      const std::pair window(cell.generation, cell.sequence);
      const auto most = counted.find(window);
      seen.most_own[window] = std::max(cell.own, most == counted.end() ? 0 : most->second);
    });
  });
}

RegionView Monitor::view(int index) const {
  const Region& region = at(index);
  return {.oracle = region.oracle,
          .origin = region.origin,
          .nodes = region.views,
          .now = timeline_.now(),
          .guarantees = guarantees,
          .calm_since = conditions.calm_since,
          .jumped_at = conditions.jumped_at,
          .has_ledger = ledger_ != nullptr};
}

GlobalView Monitor::global_view() const {
  const MonoTime now = timeline_.now().mono;
  const bool disrupted = disruption_began_ && now - last_disruption_ <= kRecovery;
  const auto& jumped_at = conditions.jumped_at;
  return {.regions = states_,
          .ledger = *ledger_,
          .history = history_,
          .now = timeline_.now(),
          .guarantees = guarantees,
          .delays = delays_(),
          .disrupted_since = disrupted ? disruption_began_ : std::nullopt,
          .rejected = conditions.rejected,
          .fault_free = conditions.fault_free,
          .budget_limited = conditions.budget_limited,
          .failed_over = conditions.failed_over,
          .jumped_lately = jumped_at && now - *jumped_at <= kRecovery,
          .no_room = conditions.no_room,
          .calm_since = conditions.calm_since};
}

}  // namespace weir::sim
