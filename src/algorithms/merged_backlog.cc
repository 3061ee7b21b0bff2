#include "algorithms/merged_backlog.h"

namespace weir::algorithms {

uint64_t MergedBacklog::pulses_of(Count cost) const {
  const base::Wide pulses = base::Wide{cost} * pace_.num;
  return pulses > kMaxPulses ? kMaxPulses : static_cast<uint64_t>(pulses);
}

uint64_t MergedBacklog::drained(uint64_t waiting, WallTime from, WallTime to) const {
  if (to <= from) return waiting;
  const base::Wide pulses = base::Wide{static_cast<uint64_t>((to - from).count())} * pace_.den;
  return pulses >= waiting ? 0 : waiting - static_cast<uint64_t>(pulses);
}

void MergedBacklog::merge(Writer writer, const CostHistory& history) {
  Component& component = components_[writer];
  component.history = CostHistory::merged(component.history, history);
}

std::vector<MergedBacklog::Cost> MergedBacklog::unfolded(WallTime now, Cells cells) const {
  std::vector<Cost> costs;
  for (const auto& [writer, component] : components_) {
    Count counted = component.folded;
    for (const CostHistory::Mark& mark : component.history.marks()) {
      const WallTime end = component.history.end_of(mark);
      if (mark.total <= counted || (cells == Cells::kEnded && end > now)) continue;
      costs.push_back({.at = std::max(std::min(end, now), checkpoint_),
                       .pulses = pulses_of(mark.total - counted)});
      counted = mark.total;
    }
  }
  std::sort(costs.begin(), costs.end(), [](const Cost& a, const Cost& b) { return a.at < b.at; });
  return costs;
}

uint64_t MergedBacklog::fold(WallTime now, Cells cells) const {
  uint64_t waiting = at_checkpoint_;
  WallTime at = checkpoint_;
  for (const Cost& cost : unfolded(now, cells)) {
    waiting = std::min(drained(waiting, at, cost.at) + cost.pulses, kMaxPulses);
    at = cost.at;
  }
  return drained(waiting, at, now);
}

void MergedBacklog::set_checkpoint(WallTime at) {
  if (at <= checkpoint_) return;
  at_checkpoint_ = fold(at, Cells::kEnded);
  checkpoint_ = at;
  for (auto& [writer, component] : components_) {
    component.folded = std::max(component.folded, component.history.total_by(at));
  }
}

}  // namespace weir::algorithms
