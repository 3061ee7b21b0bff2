// What must be told waits to be told.
//
// Where a rule of publish_spec.h holds for a cell by what has reached a process, the cell waits to
// be written or is on its way, at the latest two rounds later. That is so in any weather: what
// waits may wait for long, but must not be forgotten.
//
// What has reached a process: requests, what it read of its siblings' counts and of other regions'
// (other checkers see that these are true), and rows and presences as they came from the ledger.
// Of what its region has published it cannot know more than was ever committed.

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"
#include "sim/checkers/publish_spec.h"
#include "sim/checkers/requested_limits.h"

namespace weir::sim {
namespace {

// A process must take its lease for over two delays and the difference of clocks before others do.
// Nobody takes it for over sooner than this.
constexpr Millis kLongestMargin{4500};

// A process whose clock was set has read everything again, if the ledger lets it.
constexpr Millis kReadsAll{15'000};

class PublishRule final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "publish discipline"; }

  Violation after_answer(const GlobalView&, int region, const RequestRecord& record) override {
    record_requested(requested_, region, record);
    return {};
  }

  Violation at_audit(const GlobalView& view) override {
    for (size_t i = 0; i < view.regions.size(); ++i) {
      for (const NodeView& node : view.regions[i].nodes) {
        // Before all was read it is not known who is there; then everything is looked at.
        if (!node.runs() || !node.sync.ready || node.sync.no_room > 0) continue;
        if (auto violation = check(view, static_cast<int>(i), node)) return violation;
      }
    }
    return {};
  }

 private:
  using ProcessCell = std::tuple<int, int, CellId>;  // region, life
  struct Parts {
    Count region = 0;  // own and siblings
    Count foreign = 0;
  };
  using Windows = std::map<int64_t, Parts>;

  Violation check(const GlobalView& view, int region, const NodeView& node) {
    std::map<std::string, Windows> tuples;
    for (const limiter::CellView& cell : node.cells) {
      tuples[cell.tuple][cell.sequence] = {.region = cell.own + cell.siblings,
                                           .foreign = cell.foreign};
    }
    // One that made room for others waits anew when it is back.
    std::erase_if(unheeded_, [&](const auto& each) {
      const auto& [index, process, cell] = each.first;
      return index == region && process == node.process && tuples.count(cell.tuple) == 0;
    });
    for (const auto& [tuple, windows] : tuples) {
      const auto requested = requested_.find({region, tuple});
      // Refused by the ledger for what it is: it counts as written.
      if (requested == requested_.end() || view.rejected.count(tuple) > 0) continue;
      const int64_t now = node.now.wall.time_since_epoch() / requested->second.duration;
      const int64_t current = std::max(now, windows.rbegin()->first);
      const CellId cell{tuple, current};
      const CellId last{tuple, current - 1};
      const ProcessInfo& process =
          view.regions[static_cast<size_t>(region)].oracle.process(node.process);
      // Who there is it hears again with all that there is.
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
      if (auto violation = heeded(view, region, node, cell, known, rule)) return violation;
      const spec::Cell before = known_of(view, region, node, last, windows, current);
      rule = spec::rolled_over(before, rules) ? "roll-over" : "";
      if (auto violation = heeded(view, region, node, last, before, rule)) return violation;
    }
    return {};
  }

  // A cell as this process knows it, in the window that is the present one.
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

  // Whether the others do not know that this region is here, or will soon not.
  static bool is_unleased(const GlobalView& view, int region, const NodeView& node,
                          const std::string& tuple) {
    const WallTime until = view.history.presence_until(
        tuple, view.regions[static_cast<size_t>(region)].name, view.now.mono);
    const Nanos margin = 2 * view.delays.total() + view.guarantees.max_clock_skew;
    return node.now.wall >= until - std::min<Nanos>(margin, kLongestMargin) / Millis(1) * Millis(1);
  }

  // Empty: no rule holds.
  Violation heeded(const GlobalView& view, int region, const NodeView& node, const CellId& cell,
                   const spec::Cell& known, const std::string& rule) {
    const Nanos patience = 2 * (view.ledger.rules().publish_every * 6 / 5 + Millis(10));
    const ProcessCell key{region, node.process, cell};
    const bool waits =
        std::any_of(node.shared.begin(), node.shared.end(), [&](const limiter::SharedCell& each) {
          return each.waits && each.sequence == cell.sequence && each.tuple == cell.tuple;
        });
    if (rule.empty() || waits) {
      unheeded_.erase(key);
      return {};
    }
    const auto [found, is_new] = unheeded_.emplace(key, view.now.mono);
    if (view.now.mono - found->second <= patience) return {};
    return rule + " holds on node " + std::to_string(node.node) + " of region " +
           std::to_string(region) + " for window " + std::to_string(cell.sequence) +
           ", but it does not wait: counted " + std::to_string(known.x) + " of " +
           std::to_string(known.L) + ", published " + std::to_string(known.p) + ", used " +
           std::to_string(known.e) + " in " + std::to_string(known.k) + " regions";
  }

  RequestedLimits requested_;
  std::map<ProcessCell, MonoTime> unheeded_;  // since when
};

}  // namespace

std::unique_ptr<GlobalChecker> make_publish_rule() {
  return std::make_unique<PublishRule>();
}

}  // namespace weir::sim
