// The traffic of a fleet as the RFC on sharing describes it: 33 processes in 10 regions, 24,000
// tuples in use at a time, most of them far below their limits, one in twenty used in several
// regions, and 2 to 4 % of requests refused, 25 % in a burst.

#pragma once

#include <cstdint>
#include <vector>

#include "sim/fleet/fleet.h"

namespace weir::sim {

enum class Mood : uint8_t {
  kNormal,  // hot keys ask for 0.5 to 1.2 limits a window, steadily
  kBurst,   // some of them for up to four limits, within a quarter of a window
};

struct TrafficOptions {
  FleetOptions fleet{.processes = 33};
  Mood mood = Mood::kNormal;
  size_t keys = 24'000;           // limits from 10 to 1,000 per minute, as many in each octave
  uint32_t shared_permille = 50;  // used in two or three regions
  uint32_t hot_permille = 60;     // the others make a few requests a window
  // Keys come in one by one meanwhile, so that their leases do not all end together afterwards.
  Millis warm_up{600'000};
  int windows = 3;  // measured after that
};

struct TrafficReport {
  double seconds = 0;  // measured
  LedgerLoad load;
  uint64_t repeated = 0;  // of the rows written, those that told nothing new
  SharingStats kinds;     // rows by rule, of all processes
  double live_rows = 0;   // in the ledger, on average
  uint64_t admitted = 0;
  uint64_t refused = 0;
  size_t full_cells = 0;       // of keys used in several regions, those that reached their limit
  double overshoot = 0;        // mean over those of what was admitted beyond the limit, in limits
  FleetCell worst;             // of all cells of such keys
  double worst_unexcused = 0;  // in limits: what the bound is about
  FleetDelays delays;
  Millis longest_delay{0};
  double sharing_share = 0;  // of one core, what sharing takes in one process
  double bound = 0;          // the largest that a process claims

  [[nodiscard]] double denied_share() const {
    return static_cast<double>(refused) / static_cast<double>(admitted + refused);
  }
};

[[nodiscard]] TrafficReport run_traffic(const TrafficOptions& options);

// What the share `part` of the values is below.
[[nodiscard]] float quantile(std::vector<float> values, double part);

}  // namespace weir::sim
