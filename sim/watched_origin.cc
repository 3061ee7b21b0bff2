#include "sim/watched_origin.h"

#include <algorithm>

#include "base/wide.h"

namespace weir::sim {

class WatchedOrigin::Door final : public RegionalOrigin {
 public:
  Door(WatchedOrigin& watched, int node) : watched_(watched), node_(node) {}

  void read(std::vector<CellRead> cells, OriginReply reply) override {
    watched_.origin_.read(std::move(cells), std::move(reply));
  }
  void replay(std::vector<CellReplay> cells, OriginReply reply) override {
    for (const CellReplay& cell : cells) watched_.witness_(node_, cell);
    watched_.origin_.replay(cells, std::move(reply));
    for (const CellReplay& cell : cells) watched_.note(cell.cell);
  }

 private:
  WatchedOrigin& watched_;
  int node_;
};

std::shared_ptr<RegionalOrigin> WatchedOrigin::door_of(int node) {
  return std::make_shared<Door>(*this, node);
}

void WatchedOrigin::note(const CellId& cell) {
  history_[cell].push_back({.when = clock_.now().mono, .components = origin_.components(cell)});
}

void WatchedOrigin::forget_all() {
  origin_.forget_all();
  for (auto& [cell, moments] : history_)
    moments.push_back({.when = clock_.now().mono, .components = {}});
}

Count WatchedOrigin::least_others_since(const CellId& cell, const Component& without,
                                        MonoTime since) const {
  const auto found = history_.find(cell);
  if (found == history_.end()) return 0;
  Count least = 0;
  for (const Moment& moment : found->second) {
    Count sum = 0;
    for (const auto& [component, count] : moment.components) {
      if (component != without) sum = base::saturating_add(sum, count);
    }
    least = moment.when <= since ? sum : std::min(least, sum);
  }
  return least;
}

}  // namespace weir::sim
