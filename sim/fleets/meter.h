// Measures a running fleet: the events of each second, and the figures of the whole run.

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
  // Measures from now on; `spotlights` are keys to record by the second.
  Meter(Fleet& fleet, const std::vector<size_t>& spotlights);

  void observe(const FleetAnswer& answer);
  // To be called every millisecond.
  void tick();

  // Rates cover the time until now; series continue.
  void end_measuring();

  // The largest bound that a node has exported.
  [[nodiscard]] double bound() const { return bound_; }
  // After end_measuring().
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
  std::vector<Sums> at_second_;  // the sums at its end
  std::vector<Spotlight> spotlights_;
  std::unordered_map<size_t, size_t> spotlight_of_;
  double bound_ = 0;
};

}  // namespace weir::sim
