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

#include "sim/checkers/asked.h"
#include "sim/checkers/makers.h"
#include "sim/checkers/publish_spec.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

// A process must take its lease for over two delays and the difference of clocks before others do.
// Nobody takes it for over sooner than this.
constexpr Millis kLongestMargin{4500};

// A process whose clock was set has read everything again, if the ledger lets it.
constexpr Millis kReadsAll{15'000};

class PublishDiscipline final : public FleetChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "publish discipline"; }

  Fault after_answer(const FleetView&, int region, const Answered& answered) override {
    note_asked(asked_, region, answered);
    return {};
  }

  Fault at_audit(const FleetView& all) override {
    for (size_t i = 0; i < all.regions.size(); ++i) {
      for (const NodeView& node : all.regions[i].nodes) {
        // Before all was read it is not known who is there; then everything is looked at.
        if (!node.runs() || !node.sync.ready || node.sync.no_room > 0) continue;
        if (auto fault = check(all, static_cast<int>(i), node)) return fault;
      }
    }
    return {};
  }

 private:
  using Place = std::tuple<int, int, CellId>;  // region, life
  struct Parts {
    Count region = 0;  // own and siblings
    Count foreign = 0;
  };
  using Windows = std::map<int64_t, Parts>;

  Fault check(const FleetView& all, int region, const NodeView& node) {
    std::map<std::string, Windows> tuples;
    for (const decide::CellView& cell : node.cells) {
      tuples[cell.tuple][cell.sequence] = {.region = cell.own + cell.siblings,
                                           .foreign = cell.foreign};
    }
    // One that made room for others waits anew when it is back.
    std::erase_if(unheeded_, [&](const auto& each) {
      const auto& [index, life, cell] = each.first;
      return index == region && life == node.life && tuples.count(cell.tuple) == 0;
    });
    for (const auto& [tuple, windows] : tuples) {
      const auto asked = asked_.find({region, tuple});
      // Refused by the ledger for what it is: it counts as written.
      if (asked == asked_.end() || all.blamed.count(tuple) > 0) continue;
      const int64_t now = node.now.wall.time_since_epoch() / asked->second.duration;
      const int64_t current = std::max(now, windows.rbegin()->first);
      const CellId cell{tuple, current};
      const CellId last{tuple, current - 1};
      const Life& life = all.regions[static_cast<size_t>(region)].truth.life(node.life);
      // Who there is it hears again with all that there is.
      if (went_astray(life, last)) continue;
      if (life.astray_until != WallTime{} &&
          (all.troubled_since || node.now.wall < life.astray_until + kReadsAll)) {
        continue;
      }
      const spec::Cell known = known_of(all, region, node, cell, windows, current);
      const SyncRules& rules = all.ledger.rules();
      std::string rule;
      if (is_unleased(all, region, node, tuple) && !all.scarce && !all.leapt_lately &&
          spec::presence_due(known, rules, all.regions.size())) {
        rule = "presence";
      } else if (spec::contended(known, rules)) {
        rule = "contended";
      }
      if (auto fault = heeded(all, region, node, cell, known, rule)) return fault;
      const spec::Cell before = known_of(all, region, node, last, windows, current);
      rule = spec::rolled_over(before, rules) ? "roll-over" : "";
      if (auto fault = heeded(all, region, node, last, before, rule)) return fault;
    }
    return {};
  }

  // A cell as this process knows it, in the window that is the present one.
  spec::Cell known_of(const FleetView& all, int region, const NodeView& node, const CellId& cell,
                      const Windows& windows, int64_t present_window) const {
    const Asked& asked = asked_.at({region, cell.tuple});
    const auto parts_of = [&](int64_t sequence) {
      const auto found = windows.find(sequence);
      return found == windows.end() ? Parts{} : found->second;
    };
    const Parts here = parts_of(cell.sequence);
    const Parts before = parts_of(cell.sequence - 1);
    spec::Cell known{.x = here.region,
                     .p = all.ledger.ever({cell, all.regions[static_cast<size_t>(region)].name}),
                     .L = asked.smallest};
    known.e = usage_at(node.now.wall, asked, cell.sequence, here.region + here.foreign,
                       before.region + before.foreign);
    for (size_t i = 0; i < all.regions.size(); ++i) {
      if (static_cast<int>(i) == region) continue;
      const std::string& other = all.regions[i].name;
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
  static bool is_unleased(const FleetView& all, int region, const NodeView& node,
                          const std::string& tuple) {
    const WallTime until =
        all.history.said_until(tuple, all.regions[static_cast<size_t>(region)].name, all.now.mono);
    const Nanos margin = 2 * all.delays.all() + all.promises.clocks_apart;
    return node.now.wall >= until - std::min<Nanos>(margin, kLongestMargin) / Millis(1) * Millis(1);
  }

  // Empty: no rule holds.
  Fault heeded(const FleetView& all, int region, const NodeView& node, const CellId& cell,
               const spec::Cell& known, const std::string& rule) {
    const Nanos patience = 2 * (all.ledger.rules().publish_every * 6 / 5 + Millis(10));
    const Place place{region, node.life, cell};
    const bool waits =
        std::any_of(node.shared.begin(), node.shared.end(), [&](const global::SharedCell& each) {
          return each.waits && each.sequence == cell.sequence && each.tuple == cell.tuple;
        });
    if (rule.empty() || waits) {
      unheeded_.erase(place);
      return {};
    }
    const auto [found, is_new] = unheeded_.emplace(place, all.now.mono);
    if (all.now.mono - found->second <= patience) return {};
    return rule + " holds on node " + std::to_string(node.node) + " of region " +
           std::to_string(region) + " for window " + std::to_string(cell.sequence) +
           ", but it does not wait: counted " + std::to_string(known.x) + " of " +
           std::to_string(known.L) + ", published " + std::to_string(known.p) + ", used " +
           std::to_string(known.e) + " in " + std::to_string(known.k) + " regions";
  }

  AskedTuples asked_;
  std::map<Place, MonoTime> unheeded_;  // since when
};

}  // namespace

std::unique_ptr<FleetChecker> make_publish_discipline() {
  return std::make_unique<PublishDiscipline>();
}

}  // namespace weir::sim
