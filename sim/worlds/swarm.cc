#include "sim/worlds/swarm.h"

#include <array>

#include "sim/random.h"

namespace weir::sim {
namespace {

// Draws options that lead to rare states, independently of each other, so that any two can meet.
void draw_pressure(Random& random, WorldOptions& options) {
  const bool has_faults = options.faults == FaultMode::kRandom;
  if (random.one_in(3)) options.table = TableSize::kSmall;
  if (random.one_in(4)) options.remote_tuples = static_cast<int>(random.between(1, 6));
  options.all_algorithms = random.one_in(3);
  options.tenants = random.one_in(3);
  if (random.one_in(6)) options.without_origin = static_cast<int>(random.between(1, 2));
  if (!has_faults) return;
  options.small_row_budget = random.one_in(4);
  options.kills_after_ack = random.one_in(4);
  options.kills_bridges = random.one_in(3);
  options.feed_gaps = random.one_in(6);
  // Without an origin nothing is evicted: tuples of a wrong future would fill a small table.
  const bool fills = options.without_origin > 0 && options.table == TableSize::kSmall;
  if (random.one_in(4) && !fills) options.clock = ClockFault::kHours;
  if (random.one_in(8)) options.clock = ClockFault::kJumps;
}

// What makes each mechanism act in one world of ten. Earlier seeds do not draw it: they stay the
// same worlds.
void draw_more(Random& random, WorldOptions& options) {
  options.changes_settings = options.table == TableSize::kLarge && random.one_in(3);
  if (random.one_in(3)) options.all_algorithms = true;
  if (options.faults == FaultMode::kNone) {
    options.max_region_skew = Millis(1500);
    return;
  }
  options.steps_back = random.one_in(2);
  options.ledger_trouble = random.one_in(3);
  const bool fills = options.without_origin > 0 && options.table == TableSize::kSmall;
  if (random.one_in(5) && !fills) options.clock = ClockFault::kHours;
  if (random.one_in(12)) options.clock = ClockFault::kJumps;
  options.pauses_bridges = random.one_in(3);
}

// The same for the mechanisms that still were the rarest.
void draw_most(Random& random, WorldOptions& options) {
  if (options.table == TableSize::kSmall) options.all_algorithms = true;
  if (options.faults == FaultMode::kNone) return;
  if (random.one_in(4)) options.ledger_trouble = true;
  options.fails_over_often = random.one_in(3);
}

}  // namespace

WorldOptions world_of(uint64_t seed) {
  WorldOptions options{.seed = seed};
  const bool wide = seed >= kFirstWideSeed;
  const uint64_t fair = wide ? seed / 2 : seed;  // of wide worlds one in four has no faults
  if (seed % 2 == 0 && fair % 2 == 0) {
    options.faults = FaultMode::kNone;
    options.regions = fair % 4 == 0 ? 2 : 3;
  }
  if (!wide && seed % 16 == 6) options.max_region_skew = Millis(1500);
  if (seed % 8 == 3) {
    options.regions = 2;
    options.visitors = 10;
  }
  constexpr std::array kDeadlines{Millis(300), Millis(50), Millis(300), Millis(1500)};
  constexpr std::array kLosses{OnOriginLoss::kLocal, OnOriginLoss::kLocal, OnOriginLoss::kDeny,
                               OnOriginLoss::kShare};
  options.read_deadline = kDeadlines[seed / 8 % kDeadlines.size()];
  options.on_origin_loss = kLosses[seed / 32 % kLosses.size()];
  Random random(~seed);
  draw_pressure(random, options);
  options.bursts = random.one_in(3);
  if (wide) draw_more(random, options);
  if (seed >= kFirstWidestSeed) draw_most(random, options);
  if (seed >= kFirstRelaxedSeed) options.relaxed = random.one_in(3);
  return options;
}

}  // namespace weir::sim
