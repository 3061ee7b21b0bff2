#include "sim/swarm.h"

#include <array>

namespace weir::sim {

WorldOptions world_of(uint64_t seed) {
  WorldOptions options{.seed = seed};
  if (seed % 2 == 0) {
    options.weather = Weather::kFair;
    options.regions = seed % 4 == 0 ? 2 : 3;
  } else if (seed % 8 == 1) {
    options.room = Room::kScarce;
    options.regions = 1;
  }
  if (seed % 16 == 6) options.regions_apart = Millis(1500);
  if (seed % 8 == 3) {
    options.regions = 2;
    options.visitors = 10;
  }
  constexpr std::array kDeadlines{Millis(300), Millis(50), Millis(300), Millis(1500)};
  constexpr std::array kLosses{OnOriginLoss::kLocal, OnOriginLoss::kLocal, OnOriginLoss::kDeny,
                               OnOriginLoss::kShare};
  options.read_deadline = kDeadlines[seed / 8 % kDeadlines.size()];
  options.on_origin_loss = kLosses[seed / 32 % kLosses.size()];
  return options;
}

}  // namespace weir::sim
