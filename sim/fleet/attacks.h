// A fleet under those who know how it shares: what they get beyond a limit, and what it costs.

#pragma once

#include <cstdint>
#include <vector>

#include "sim/fleet/fleet.h"

namespace weir::sim {

struct AttackOptions {
  FleetOptions fleet{};
  Count limit = 1000;  // per minute
};

struct AttackReport {
  double worst = 0;      // the most admitted in one window, in limits
  double mean = 0;       // per window, in limits
  double recent = 0;     // of the worst, what the bound excuses as too recent to be known
  double unexcused = 0;  // the most that was admitted without that excuse
  double rows_per_window = 0;
};

// All regions but one take as much as they may keep to themselves, and stop. When all is quiet
// the last one runs to its limit within twenty seconds.
enum class Hiding : uint8_t {
  kUnseen,   // each stays below what makes it say that it is here
  kPresent,  // each is known to be here, and holds back what it may
};
[[nodiscard]] AttackReport hide_then_run(const AttackOptions& options, Hiding hiding);

// Each region is asked for `times` limits in every window, evenly; measured from the third on.
[[nodiscard]] AttackReport ask_evenly(const AttackOptions& options, double times, int windows);

struct FloodOptions {
  FleetOptions fleet{.regions = 3, .processes = 6, .capacity = size_t{1} << 20};
  uint32_t fresh_per_second = 16'667;  // addresses never seen before, in the first region
  Millis before{20'000};
  Millis lasts{60'000};
  Millis after{60'000};
};

struct FloodSecond {
  uint64_t fresh = 0;
  uint64_t rows = 0;      // written by the flooded region
  double bound = 0;       // as another region sees it
  uint64_t waiting = 0;   // rows, in the flooded region
  uint64_t left_out = 0;  // so far
};

// Fifty keys of another namespace are used in all regions meanwhile, at 1.5 limits a window.
struct FloodReport {
  std::vector<FloodSecond> seconds;
  FleetDelays calm;   // of those fifty, before
  FleetDelays flood;  // and meanwhile
  double worst = 0;   // of them, in limits
  double unexcused = 0;
};
[[nodiscard]] FloodReport run_flood(const FloodOptions& options);

}  // namespace weir::sim
