// Cells that must be published are queued.
//
// If a rule of publish_spec.h holds for a cell by the data that a process has, the cell is queued
// or in flight two rounds later at the latest. This holds under any fault: a queued cell may wait
// for long, but must not be dropped.
//
// The data of a process: its requests, the counts that it read of siblings and other regions (other
// checkers test those), and rows and presences as they came from the ledger. It cannot know more of
// its region's published counts than was ever committed.

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"
#include "sim/checkers/publish_spec.h"
#include "sim/checkers/requested_limits.h"

namespace weir::sim {
namespace {

// A process must treat its lease as over two delays and the clock skew before others do. No process
// does so earlier than this.
constexpr Millis kLongestMargin{4500};

// By then a process whose clock was set has done a full read, unless the ledger fails.
constexpr Millis kReadsAll{15'000};

class PublishRule final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "publish rule"; }

  Violation after_answer(const GlobalView&, int region, const RequestRecord& record) override {
    record_requested(requested_, region, record);
    return {};
  }

  Violation at_audit(const GlobalView& view) override {
    for (size_t i = 0; i < view.regions.size(); ++i) {
      for (const NodeView& node : view.regions[i].nodes) {
        // Before the first full read a process does not know which regions are present; then it
        // evaluates every cell.
        if (!node.runs() || !node.sync.ready || node.sync.no_room > 0) continue;
        if (auto violation = check(view, static_cast<int>(i), node)) return violation;
      }
    }
    return {};
  }

 private:
  using ProcessCell = std::tuple<int, int, CellId>;  // region, process
  struct Parts {
    Count region = 0;  // own and siblings
    Count foreign = 0;
  };
  using Windows = std::map<int64_t, Parts>;

  Violation check(const GlobalView& view, int region, const NodeView& node) {
    std::map<std::string, Windows> tuples;
    for (const decide::CellView& cell : node.cells) {
      tuples[cell.tuple][cell.sequence] = {.region = cell.own + cell.siblings,
                                           .foreign = cell.foreign};
    }
    // An evicted tuple is queued again when it returns.
    std::erase_if(not_queued_, [&](const auto& each) {
      const auto& [index, process, cell] = each.first;
      return index == region && process == node.process && tuples.count(cell.tuple) == 0;
    });
    for (const auto& [tuple, windows] : tuples) {
      const auto requested = requested_.find({region, tuple});
      // The ledger rejected it as invalid: it counts as published.
      if (requested == requested_.end() || view.rejected.count(tuple) > 0) continue;
      const int64_t now = node.now.wall.time_since_epoch() / requested->second.duration;
      const int64_t current = std::max(now, windows.rbegin()->first);
      const CellId cell{tuple, current};
      const CellId last{tuple, current - 1};
      const ProcessInfo& process =
          view.regions[static_cast<size_t>(region)].oracle.process(node.process);
      // A full read reports again which regions are present.
      if (had_wrong_clock(process, last)) continue;
      if (process.wrong_clock_until != WallTime{} &&
          (view.disrupted_since || node.now.wall < process.wrong_clock_until + kReadsAll)) {
        continue;
      }
      const spec::Cell known = known_of(view, region, node, cell, windows, current);
      const SyncRules& rules = view.ledger.rules();
      std::string rule;
      if (is_unleased(view, region, node, tuple) && !view.budget_limited && !view.jumped_lately &&
          spec::presence_due(known, rules, view.regions.size())) {
        rule = "presence";
      } else if (spec::contended(known, rules)) {
        rule = "contended";
      }
      if (auto violation = check_queued(view, region, node, cell, known, rule)) return violation;
      const spec::Cell before = known_of(view, region, node, last, windows, current);
      rule = spec::rolled_over(before, rules) ? "roll-over" : "";
      if (auto violation = check_queued(view, region, node, last, before, rule)) return violation;
    }
    return {};
  }

  // A cell as this process knows it, in the current window.
  spec::Cell known_of(const GlobalView& view, int region, const NodeView& node, const CellId& cell,
                      const Windows& windows, int64_t present_window) const {
    const RequestedLimit& requested = requested_.at({region, cell.tuple});
    const auto parts_of = [&](int64_t sequence) {
      const auto found = windows.find(sequence);
      return found == windows.end() ? Parts{} : found->second;
    };
    const Parts here = parts_of(cell.sequence);
    const Parts before = parts_of(cell.sequence - 1);
    spec::Cell known{
        .x = here.region,
        .p = view.ledger.max_committed({cell, view.regions[static_cast<size_t>(region)].name}),
        .L = requested.smallest};
    known.e = usage_at(node.now.wall, requested, cell.sequence, here.region + here.foreign,
                       before.region + before.foreign);
    for (size_t i = 0; i < view.regions.size(); ++i) {
      if (static_cast<int>(i) == region) continue;
      const std::string& other = view.regions[i].name;
      const bool present = node.received->present_until(cell.tuple, other) > node.now.wall;
      if (present || node.received->row({cell, other}).count > 0) ++known.k;
      for (const int64_t sequence : {present_window, present_window - 1}) {
        const Count limit = node.received->row({{cell.tuple, sequence}, other}).limit;
        if (limit > 0) known.L = std::min(known.L, limit);
      }
    }
    return known;
  }

  // Whether other regions do not know that this region is present, or soon will not.
  static bool is_unleased(const GlobalView& view, int region, const NodeView& node,
                          const std::string& tuple) {
    const WallTime until = view.history.presence_until(
        tuple, view.regions[static_cast<size_t>(region)].name, view.now.mono);
    const Nanos margin = 2 * view.delays.total() + view.guarantees.max_clock_skew;
    return node.now.wall >= until - std::min<Nanos>(margin, kLongestMargin) / Millis(1) * Millis(1);
  }

  // Empty: no rule holds.
  Violation check_queued(const GlobalView& view, int region, const NodeView& node,
                         const CellId& cell, const spec::Cell& known, const std::string& rule) {
    const Nanos patience = 2 * (view.ledger.rules().publish_every * 6 / 5 + Millis(10));
    const ProcessCell key{region, node.process, cell};
    const bool queued =
        std::any_of(node.shared.begin(), node.shared.end(), [&](const global::SharedCell& each) {
          return each.waits && each.sequence == cell.sequence && each.tuple == cell.tuple;
        });
    if (rule.empty() || queued) {
      not_queued_.erase(key);
      return {};
    }
    const auto [found, is_new] = not_queued_.emplace(key, view.now.mono);
    if (view.now.mono - found->second <= patience) return {};
    return rule + " holds on node " + std::to_string(node.node) + " of region " +
           std::to_string(region) + " for window " + std::to_string(cell.sequence) +
           ", but the cell is not queued: counted " + std::to_string(known.x) + " of " +
           std::to_string(known.L) + ", published " + std::to_string(known.p) + ", used " +
           std::to_string(known.e) + " in " + std::to_string(known.k) + " regions";
  }

  RequestedLimits requested_;
  std::map<ProcessCell, MonoTime> not_queued_;  // since when
};

}  // namespace

std::unique_ptr<GlobalChecker> make_publish_rule() {
  return std::make_unique<PublishRule>();
}

}  // namespace weir::sim
