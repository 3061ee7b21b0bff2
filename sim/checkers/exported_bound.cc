// The exported bound: all regions together admit at most
//
//   fixed_window, sliding_window:         B L + recent, in each window
//   gcra, token_bucket:                   r (t - s) + B b + recent, in any time (s, t] that ends
//                                         with an admission and in which at most a burst drains
//   sliding_window_strict, sliding_log:   B L + recent, in any such time below the duration
//
// with B the bound that the accepting process exports for the namespace and the algorithm, L the
// largest limit, b the largest burst, r the rate, and `recent` the counts accepted anywhere in the
// last 2 D and in the time that a change of the bound takes to arrive. This holds under any fault;
// D is the delay without faults. A region may exceed the limit by counts in flight between its
// nodes or accepted in isolation; the regional bound covers those. Nobody knows of counts that were
// not published when their process ended and the origin lost them, or that the ledger rejected.
//
// Until a window is over, the largest B of all processes must also cover all that it has admitted:
// the cause of an excess may be over, and the excess is not. Then `recent` are the counts that were
// in flight at the last accept, and a change of the bound has arrived. A process that restarts
// forgets.
//
// Of states, verdicts of a region that its origin did not decide are left out, relaxed requests,
// which count in their process alone, and what a cut-off origin may have forgotten: docs/ledger.md
// lists it. Relaxed requests on windows are like all others.

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "algorithms/windows.h"
#include "base/wide.h"
#include "global/ledger_key.h"
#include "memory/usage_key.h"
#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

// Other regions detect after 6 s that a region is silent, and each of them reads that within 2 s
// more, or detects another 2 s later that it reads nothing.
constexpr Millis kBoundReceivedWithin{10'000};

// Counts that wait for less than this are in flight: they do not widen the bound.
constexpr Millis kInFlight{2100};

class ExportedBound final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "the exported bound"; }

  Violation after_answer(const GlobalView& view, int region, const RequestRecord& record) override {
    Count& largest = limits_[record.tuple];
    largest = std::max(largest, record.limit);
    if (!record.charged) return {};
    // As of the last audit, at most 100 ms ago.
    const NodeView& node =
        view.regions[static_cast<size_t>(region)].nodes[static_cast<size_t>(record.node)];
    const double exported = bound_of(node, record.tuple);
    if (!node.sync.ready || exported <= 0) return {};

    const MonoTime from = view.now.mono - 2 * view.delays.total() - kBoundReceivedWithin;
    return check(view, record.cell(), from, largest, exported,
                 "node " + std::to_string(record.node) + " exports");
  }

  Violation at_audit(const GlobalView& view) override {
    if (view.jumped_lately || view.failed_over) return {};
    for (const auto& [tuple, largest] : limits_) {
      const std::optional<double> widest = widest_of(view, tuple);
      if (!widest) continue;
      const Millis duration = duration_of({tuple, 0});
      const auto now = algorithms::position_of(view.now.wall, duration);
      // By the clock of a node it may be over.
      if (now.width - now.offset <= view.guarantees.max_clock_skew) continue;
      const CellId cell{tuple, now.sequence};
      const MonoTime last = last_accept(view, cell);
      if (view.now.mono - last <= Nanos(kBoundReceivedWithin) || is_forgotten(view, cell)) continue;
      const MonoTime from = last - 2 * (view.delays.total() + kInFlight);
      auto found = check(view, cell, from, largest, *widest, "all nodes export at most");
      if (found) return found;
    }
    return {};
  }

  Violation after_local_answer(const GlobalView& view, int region,
                               const RequestRecord& record) override {
    History& history = histories_[record.tuple];
    history.burst = std::max(history.burst, record.burst > 0 ? record.burst : record.limit);
    history.limit = std::max(history.limit, record.limit);
    const Nanos clock = view.now.wall.time_since_epoch() - view.now.mono.time_since_epoch();
    const Nanos step = clock - std::exchange(history.clock, clock);
    // A wrong clock drains too much, or forgets.
    if (view.jumped_lately || step > Millis(1) || step < Millis(-1)) history.accepts.clear();
    const bool by_origin = record.verdict.basis != Basis::kDegraded || !at(view, region).has_origin;
    if (!record.charged || !by_origin || record.relaxed) return {};
    history.accepts.push_back(
        {.earliest = view.now.mono - (record.answered_at.mono - record.requested_at.mono),
         .cost = record.cost,
         .region = region,
         .process = record.contributor.process});
    const bool excused =
        view.failed_over || view.no_room || view.guarantees.evicts || !view.rejected.empty();
    return excused ? Violation{} : check_state(view, region, record, history);
  }

 private:
  struct Admitted {
    MonoTime earliest{};  // possible time of the decision
    Count cost = 0;
    int region = 0;
    int process = 0;
  };
  struct History {
    std::vector<Admitted> accepts;
    Nanos clock{};  // the wall clock, less the time that has passed
    Count burst = 0;
    Count limit = 0;
  };

  static const RegionState& at(const GlobalView& view, int region) {
    return view.regions[static_cast<size_t>(region)];
  }

  static MonoTime last_accept(const GlobalView& view, const CellId& cell) {
    MonoTime last{};
    for (const RegionState& region : view.regions) {
      for (const auto* accepts : {&region.oracle.accepts(cell), &region.oracle.sketched(cell)}) {
        if (!accepts->empty()) last = std::max(last, accepts->back().when);
      }
    }
    return last;
  }

  // Accepts from that time on are recent.
  static Violation check(const GlobalView& view, const CellId& cell, MonoTime from, Count largest,
                         double exported, const std::string& who) {
    if (view.rejected.count(cell.tuple) > 0) return {};
    Count accepted = 0, recent = 0, alone = 0;
    for (const RegionState& other : view.regions) {
      Count there = 0;
      for (const auto* accepts : {&other.oracle.accepts(cell), &other.oracle.sketched(cell)}) {
        for (const Accept& accept : *accepts) {
          there += accept.cost;
          if (accept.when >= from) recent += accept.cost;
        }
      }
      accepted += there;
      alone += lost(view, other, cell);
      if (there > largest) alone += there - largest;
    }
    const double most =
        exported * static_cast<double>(largest) + static_cast<double>(recent + alone);
    // Each part of the bound may be rounded down to whole units.
    const auto units = static_cast<double>(view.regions.size());
    if (static_cast<double>(accepted) <= most + units) return {};
    return "all regions have accepted " + std::to_string(accepted) + " of " +
           std::to_string(largest) + " in window " + std::to_string(cell.sequence) + ", " +
           std::to_string(recent) + " of them recently, and " + who + " a bound of " +
           std::to_string(exported);
  }

  static Violation check_state(const GlobalView& view, int region, const RequestRecord& record,
                               const History& history) {
    const NodeView& node = at(view, region).nodes[static_cast<size_t>(record.node)];
    const double exported = bound_of(node, record.tuple, record.algorithm);
    if (!node.sync.ready || exported <= 0) return {};
    const bool drains =
        record.algorithm == Algorithm::kGcra || record.algorithm == Algorithm::kTokenBucket;
    const auto duration = static_cast<uint64_t>(record.duration.count());
    const Millis horizon(static_cast<int64_t>(
        drains ? base::mul_div(history.burst, duration, history.limit) : duration));
    const auto drained_in = [&](Nanos time) {
      const auto ms = static_cast<uint64_t>(std::chrono::ceil<Millis>(time).count());
      return drains ? base::mul_div(history.limit, ms, duration) + 1 : Count{0};
    };
    const Nanos delay = view.delays.total() + Nanos(view.guarantees.acked_within) +
                        2 * view.delays.notice + Nanos(view.guarantees.max_clock_skew);
    const Millis width = memory::usage_width(horizon);
    // Too short to be shared.
    if (Nanos(width) <= 2 * delay) return {};
    const Nanos recent_for = 2 * delay + Nanos(kBoundReceivedWithin);
    const ExactHistory* const exact = at(view, region).origin.exact_history(record.tuple);
    Count sum = 0, recent = 0;
    for (auto it = history.accepts.rbegin(); it != history.accepts.rend(); ++it) {
      const RegionState& there = at(view, it->region);
      const Nanos span = view.now.mono - it->earliest;
      if (span >= Nanos(horizon) || there.origin.exact_lost_at() >= it->earliest) break;
      if (there.oracle.process(it->process).ended) continue;
      sum += it->cost;
      if (span <= recent_for) recent += it->cost;
      // A region that hears of others for the first time does not know what has drained there.
      int64_t first = at(view, region).has_origin ? 0 : 1;
      if (exact != nullptr) {
        first = std::ranges::count_if(exact->first_foreign,
                                      [&](MonoTime when) { return when >= it->earliest; });
      }
      const double most = exported * static_cast<double>(history.burst) +
                          static_cast<double>(recent + drained_in(span) +
                                              static_cast<Count>(first) * drained_in(width) + 2);
      if (static_cast<double>(sum) <= most) continue;
      return "all regions have admitted " + std::to_string(sum) + " of " +
             std::string(weir::to_string(record.algorithm)) + " with a burst of " +
             std::to_string(history.burst) + " in " +
             std::to_string(std::chrono::ceil<Millis>(span).count()) + " ms, " +
             std::to_string(recent) + " of them recently, and node " + std::to_string(record.node) +
             " exports a bound of " + std::to_string(exported);
    }
    return {};
  }

  // The largest bound of all processes; none: one has not exported any yet.
  static std::optional<double> widest_of(const GlobalView& view, const std::string& tuple) {
    double widest = 0;
    for (const RegionState& region : view.regions) {
      for (const NodeView& node : region.nodes) {
        if (!node.runs()) continue;
        if (!node.sync.ready) return std::nullopt;
        widest = std::max(widest, bound_of(node, tuple));
      }
    }
    return widest > 0 ? std::optional(widest) : std::nullopt;
  }

  // Whether a process that has counted in the cell has ended, or may have forgotten what it knew.
  static bool is_forgotten(const GlobalView& view, const CellId& cell) {
    return std::ranges::any_of(view.regions, [&](const RegionState& region) {
      const auto& contributors = region.oracle.contributors(cell);
      return any_had_wrong_clock(region.oracle, cell) ||
             std::ranges::any_of(contributors, [&](const auto& each) {
               return region.oracle.process(each.first.process).ended.has_value();
             });
    });
  }

  static double bound_of(const NodeView& node, const std::string& tuple,
                         Algorithm algorithm = Algorithm::kFixedWindow) {
    const global::Tenant tenant = global::tenant_of(tuple);
    return node.sync.bound_of(tenant.workspace, tenant.ns, algorithm);
  }

  static Count lost(const GlobalView& view, const RegionState& region, const CellId& cell) {
    if (!region.origin.bridge().lost_at()) return 0;
    Count ended = 0;
    for (const Accept& accept : region.oracle.accepts(cell)) {
      if (region.oracle.process(accept.contributor.process).ended) ended += accept.cost;
    }
    return base::saturating_sub(ended, view.ledger.max_committed({cell, region.name}));
  }

  std::map<std::string, Count> limits_;  // the largest of all requests on windows
  std::map<std::string, History> histories_;
};

}  // namespace

std::unique_ptr<GlobalChecker> make_exported_bound() {
  return std::make_unique<ExportedBound>();
}

}  // namespace weir::sim
