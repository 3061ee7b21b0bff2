// What must be told is told.
//
// By the process' own state: where a rule holds for a cell, the cell waits to be written or is on
// its way, at the latest two rounds later; and where nothing goes wrong and the budget lasts,
// nothing waits for longer than its turn may take.
//
// By the truth, where nothing goes wrong and those who accepted still live: a region that has
// accepted as much as it may hide is known to be there, in every window and for as long as that
// lasts; and once something was refused, what the process knew to be used then is written before
// the window is over, or more than half of it: that is as good where a sibling wrote it just
// before.

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "limiter/publish_rule.h"
#include "sim/checkers/makers.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

class PublishDiscipline final : public FleetChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "publish discipline"; }

  Fault after_answer(const FleetView& all, int region, const Answered& answered) override {
    Count& limit = limits_[{region, answered.tuple}];
    limit = limit == 0 ? answered.limit : std::min(limit, answered.limit);
    if (answered.cost > 0 && answered.verdict.outcome == Outcome::kDenied) {
      note_refusal(all, region, answered);
    }
    return {};
  }

  Fault at_audit(const FleetView& all) override {
    for (size_t i = 0; i < all.regions.size(); ++i) {
      const int region = static_cast<int>(i);
      for (const NodeView& node : all.regions[i].nodes) {
        if (auto fault = check_rule(all, region, node)) return fault;
        if (auto fault = check_lag(all, node)) return fault;
      }
      if (all.troubled_since || all.scarce || all.failed_over) continue;
      if (auto fault = check_presence(all, region)) return fault;
    }
    return check_refusals(all);
  }

 private:
  using Place = std::tuple<int, int, CellId>;  // region, life
  struct Refusal {
    Count used = 0;
    MonoTime by{};
  };

  Fault check_rule(const FleetView& all, int region, const NodeView& node) {
    // Before all was read it is not known who is there; then everything is looked at.
    if (!node.runs() || !node.sharing.ready) return {};
    const Nanos patience = 2 * (all.ledger.rules().publish_every * 6 / 5 + Millis(10));
    for (const limiter::SharedCell& cell : node.shared) {
      const Place place{region, node.life, {cell.tuple, cell.sequence}};
      if (cell.rule == limiter::Publish::kNothing || cell.waits) {
        unheeded_.erase(place);
        continue;
      }
      const auto [found, is_new] = unheeded_.emplace(place, all.now.mono);
      if (all.now.mono - found->second <= patience) continue;
      return "rule " + std::to_string(static_cast<int>(cell.rule)) + " holds on node " +
             std::to_string(node.node) + " of region " + std::to_string(region) + " for window " +
             std::to_string(cell.sequence) + ", but it does not wait: counted " +
             std::to_string(cell.holding.counted) + ", published " +
             std::to_string(cell.holding.published);
    }
    return {};
  }

  static Fault check_lag(const FleetView& all, const NodeView& node) {
    if (all.troubled_since || all.scarce || !node.runs()) return {};
    // A presence that a sibling wrote waits until it is heard of.
    if (node.sharing.publish_lag <= 2 * all.delays.all()) return {};
    return "a row has been waiting on node " + std::to_string(node.node) + " for " +
           std::to_string(node.sharing.publish_lag / Millis(1)) + " ms";
  }

  Fault check_presence(const FleetView& all, int index) {
    const RegionView& region = all.regions[static_cast<size_t>(index)];
    for (const auto& [cell, accepted] : region.truth.cells()) {
      // Of a window that is over nobody says that he counts in it.
      if (all.blamed.count(cell.tuple) > 0 || !is_current(all, cell)) continue;
      Count told = 0;
      bool all_live = true;
      for (const Accept& accept : region.truth.accepts(cell)) {
        // Where a sibling left word of another row, that it said so is waited for.
        if (all.now.mono - accept.when > 2 * all.delays.all()) told += accept.cost;
        all_live = all_live && !region.truth.life(accept.account.life).ended;
      }
      const Count limit = limits_[{index, cell.tuple}];
      const auto regions = static_cast<uint32_t>(all.regions.size());
      const Count hidden = limiter::hidden_of(limit, all.ledger.rules(), regions);
      if (!all_live || told < hidden) continue;
      if (all.ledger.present_until(cell.tuple, region.name) > all.now.wall) continue;
      return region.name + " accepted " + std::to_string(told) + " of " + std::to_string(limit) +
             " in window " + std::to_string(cell.sequence) +
             ", and others do not know that it is there";
    }
    return {};
  }

  static bool is_current(const FleetView& all, const CellId& cell) {
    const Millis duration = duration_of(cell);
    const Millis apart = all.promises.clocks_apart;
    const auto of = [&](WallTime at) { return at.time_since_epoch() / duration; };
    return of(all.now.wall) == cell.sequence && of(all.now.wall + apart) == cell.sequence;
  }

  // Only the first of a window: later ones are worth telling only if much has changed. Of the
  // items of a batch that is refused, one has refused it and the others were not tried.
  void note_refusal(const FleetView& all, int region, const Answered& answered) {
    const CellId cell = answered.cell();
    const Place place{region, answered.account.life, cell};
    if (!refused_.insert(place).second || answered.in_batch) return;
    const WallTime over((cell.sequence + 1) * answered.duration);
    if (over - all.now.wall < all.delays.publish + all.promises.clocks_apart) return;
    const Evidence& evidence = answered.verdict.evidence;
    const Count used = evidence.own + evidence.siblings;
    // Less than half a limit is not worth telling where nobody else is known to count.
    if (2 * used < answered.limit) return;
    refusals_[place] = {.used = used, .by = all.now.mono + all.delays.publish};
  }

  Fault check_refusals(const FleetView& all) {
    for (auto it = refusals_.begin(); it != refusals_.end();) {
      const auto& [index, life, cell] = it->first;
      const RegionView& region = all.regions[static_cast<size_t>(index)];
      const Refusal& refusal = it->second;
      const bool excused = all.troubled_since || all.scarce || all.failed_over ||
                           all.blamed.count(cell.tuple) > 0 ||
                           region.truth.life(life).ended.has_value();
      const bool written = 2 * all.ledger.ever({cell, region.name}) > refusal.used;
      if (excused || written) {
        it = refusals_.erase(it);
        continue;
      }
      if (all.now.mono > refusal.by) {
        return region.name + " refused at " + std::to_string(refusal.used) + " in window " +
               std::to_string(cell.sequence) + ", and the ledger has " +
               std::to_string(all.ledger.ever({cell, region.name}));
      }
      ++it;
    }
    return {};
  }

  std::map<std::pair<int, std::string>, Count> limits_;  // the smallest asked in a region
  std::map<Place, MonoTime> unheeded_;                   // since when
  std::set<Place> refused_;
  std::map<Place, Refusal> refusals_;
};

}  // namespace

std::unique_ptr<FleetChecker> make_publish_discipline() {
  return std::make_unique<PublishDiscipline>();
}

}  // namespace weir::sim
