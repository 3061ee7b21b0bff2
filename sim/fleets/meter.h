// Measures a fleet while it lives: what happened in each second, and what it came to.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/fleets/fleet.h"
#include "sim/scenario/results.h"

namespace weir::sim {

// One thread at a time.
class Meter {
 public:
  // From now on; `spotlights` are keys to be looked at closely.
  Meter(Fleet& fleet, const std::vector<size_t>& spotlights);

  void observe(const FleetAnswer& answer);
  // To be called in each millisecond.
  void tick();

  // Rates are of what happened until now; series go on.
  void end_measuring();

  // The largest bound that a node has claimed.
  [[nodiscard]] double bound() const { return bound_; }
  // Once measuring has ended.
  void fill(Results& results) const;

 private:
  struct Sums {
    std::vector<RegionLoad> regions = {};
    LedgerLoad ledger = {};
  };
  [[nodiscard]] Sums sums() const;
  void sample();
  void add_figures(Results& results) const;

  Fleet& fleet_;
  const Millis began_;
  const Sums before_;
  Sums after_;
  Millis measured_{0};
  std::vector<Sums> at_second_;  // what had happened by its end
  std::vector<Spotlight> spotlights_;
  std::unordered_map<size_t, size_t> spotlight_of_;
  double bound_ = 0;
};

}  // namespace weir::sim
