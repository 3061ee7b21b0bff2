// Random small worlds, checked after every event, each reproducible from its seed.

#include "sim/worlds/world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "sim/worlds/find_violation_test.h"
#include "sim/worlds/swarm.h"
#include "tests/effort.h"

namespace weir::sim {
namespace {

constexpr uint64_t kSeeds = 100;
constexpr uint64_t kSeedsRunTwice = 40;

uint64_t seeds_to_run() {
  const char* wanted = std::getenv("WEIR_SIM_SEEDS");
  return wanted != nullptr && *wanted != '\0' ? std::strtoull(wanted, nullptr, 10) : kSeeds;
}

TEST(World, KeepsEveryInvariantAndReachesEveryInterestingState) {
  std::map<Coverage, uint64_t> coverage;
  RunReport all;
  for (uint64_t seed = 1; seed <= seeds_to_run(); ++seed) {
    const RunReport report = World({.seed = seed}).run();
    ASSERT_FALSE(report.broken) << describe(seed, report);
    if (seed <= generated_cases(kSeedsRunTwice)) {
      ASSERT_EQ(World({.seed = seed}).run().fingerprint, report.fingerprint) << "seed " << seed;
    }
    for (const auto& [state, times] : report.coverage) coverage[state] += times;
    all.admitted += report.admitted;
    all.denied += report.denied;
    all.accepted += report.accepted;
    all.died_unacked += report.died_unacked;
    all.lost_with_origin += report.lost_with_origin;
  }
  if (seeds_to_run() >= kSeeds) {
    for (int i = 0; i < static_cast<int>(Coverage::kKilledAfterAck); ++i) {
      EXPECT_GT(coverage[static_cast<Coverage>(i)], 0u)
          << "never reached: " << to_string(static_cast<Coverage>(i));
    }
    EXPECT_GT(all.admitted, 1000u);
    EXPECT_GT(all.denied, 1000u);
    // What is missing is known, and little.
    EXPECT_GT(all.died_unacked, 0u);
    EXPECT_GT(all.lost_with_origin, 0u);
    EXPECT_LT(all.died_unacked, all.accepted / 20);
  }
  RecordProperty("accepted", std::to_string(all.accepted));
  RecordProperty("died_untold", std::to_string(all.died_unacked));
  RecordProperty("lost_with_origin", std::to_string(all.lost_with_origin));
}

TEST(World, TellsTheSameStoryTwiceFromTheSameSeedAndAnotherFromAnother) {
  for (uint64_t seed = 1; seed <= generated_cases(5); ++seed) {
    const RunReport one = World({.seed = seed}).run();
    const RunReport two = World({.seed = seed}).run();
    EXPECT_EQ(one.fingerprint, two.fingerprint);
    EXPECT_EQ(one.events, two.events);
    EXPECT_NE(one.fingerprint, World({.seed = seed + 100}).run().fingerprint);
  }
}

// Where nothing goes wrong news is quick, so the bounds that speak of delays are tight.
TEST(World, KeepsTheGlobalBoundTightlyInFairWeather) {
  const uint64_t seeds = std::min<uint64_t>(30, kSanitized ? seeds_to_run() / 4 : seeds_to_run());
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    for (const int regions : {2, 3}) {
      const RunReport report =
          World({.seed = seed, .regions = regions, .faults = FaultMode::kNone}).run();
      ASSERT_FALSE(report.broken) << describe(seed, report);
      EXPECT_LE(report.delay, Millis(1500));
      EXPECT_GT(report.rows, 0u);
    }
  }
}

// Rows of a window come from where it has begun to where it has not.
TEST(World, HoldsWhereTheClocksOfRegionsAreFarApart) {
  for (uint64_t seed = 1; seed <= seeds_to_run() / 10; ++seed) {
    const RunReport report = World({.seed = seed,
                                    .regions = 3,
                                    .faults = FaultMode::kNone,
                                    .max_region_skew = Millis(1500)})
                                 .run();
    ASSERT_FALSE(report.broken) << describe(seed, report);
  }
}

// What a refusal left to be told is told, though the ledger failed and nobody asks again.
TEST(World, HoldsForVisitorsWhoStayAwayOnceTheyWereRefused) {
  for (uint64_t seed = 1; seed <= seeds_to_run() / 10; ++seed) {
    const RunReport report = World({.seed = seed, .regions = 2, .visitors = 10}).run();
    ASSERT_FALSE(report.broken) << describe(seed, report);
  }
}

TEST(World, HoldsWithMoreNodesToo) {
  for (uint64_t seed = 1000; seed < 1000 + generated_cases(10); ++seed) {
    const RunReport report = World({.seed = seed, .nodes = 5}).run();
    ASSERT_FALSE(report.broken) << describe(seed, report);
  }
}

TEST(World, HoldsWhateverIsToHoldWithoutTheOriginAndHoweverLongItIsWaitedFor) {
  for (const OnOriginLoss loss : {OnOriginLoss::kDeny, OnOriginLoss::kShare}) {
    for (const Millis deadline : {Millis(50), Millis(300), Millis(1500)}) {
      for (uint64_t seed = 1; seed <= seeds_to_run() / 8; ++seed) {
        const WorldOptions options{.seed = seed, .read_deadline = deadline, .on_origin_loss = loss};
        const RunReport report = World(options).run();
        ASSERT_FALSE(report.broken) << describe(seed, report);
      }
    }
  }
}

// A tuple that made room for others comes back under another name, and knows what it had accepted.
TEST(World, HoldsWhereTuplesAreForgottenForWantOfRoom) {
  uint64_t records = 0;
  uint64_t evicted = 0;
  uint64_t sketched = 0;
  for (uint64_t seed = 1; seed <= seeds_to_run() / 5; ++seed) {
    for (const FaultMode faults : {FaultMode::kRandom, FaultMode::kNone}) {
      const RunReport report =
          World({.seed = seed, .regions = 1, .faults = faults, .table = TableSize::kSmall}).run();
      ASSERT_FALSE(report.broken) << describe(seed, report);
      records += report.admitted + report.denied;
      evicted += report.evicted;
      sketched += report.sketched;
    }
  }
  if (seeds_to_run() < kSeeds) return;
  EXPECT_GT(evicted, 500u);
  EXPECT_LT(sketched, records / 10);
}

// Everything at once, as swarms draw it.
TEST(World, HoldsUnderPressureOfAllKinds) {
  std::map<Coverage, uint64_t> coverage;
  for (uint64_t seed = 1; seed <= 2 * seeds_to_run(); ++seed) {
    const RunReport report = World(world_of(seed)).run();
    ASSERT_FALSE(report.broken) << describe(seed, report);
    for (const auto& [state, times] : report.coverage) coverage[state] += times;
  }
  if (seeds_to_run() < kSeeds) return;
  for (const Coverage state :
       {Coverage::kKilledAfterAck, Coverage::kEvictedWithRegions, Coverage::kRemoteRowsDropped,
        Coverage::kClockHoursOff, Coverage::kClockJump, Coverage::kLocalAlgorithm,
        Coverage::kRowsWaited}) {
    EXPECT_GT(coverage[state], 0u) << "never reached: " << to_string(state);
  }
}

// Found by swarms, and mended.
TEST(World, DoesNotBreakAgainWhereItOnceBroke) {
  const std::vector<WorldOptions> worlds = {
      // A peek in a batch went by nothing and called that refreshed, when another item had taken
      // the place of its tuple after it was read.
      {.seed = 3156338953, .regions = 1, .table = TableSize::kSmall},
      // A tuple that was refused after a failed read never noticed that the origin forgot its part.
      {.seed = 547},
      // A row slipped between two long looks back, when one of them was lost and a replica lagged.
      {.seed = 2519},
      // A peek that had waited for longer than its windows last said that nothing was used.
      {.seed = 93, .read_deadline = Millis(1500), .on_origin_loss = OnOriginLoss::kDeny},
      // An item of a batch was forgotten for want of room while another was read, and made anew by
      // one who could not read it; it was called known all the same.
      {.seed = 537, .regions = 1, .table = TableSize::kSmall, .read_deadline = Millis(1500)},
      // A batch was taken for decided late because a peek in it was (a false alarm).
      {.seed = 424639, .read_deadline = Millis(1500)},
      {.seed = 7001245, .read_deadline = Millis(1500)},
      {.seed = 31338905, .regions = 1, .table = TableSize::kSmall, .read_deadline = Millis(1500)},
      // The same, where the sketch counted an item in a later window.
      {.seed = 20569,
       .regions = 1,
       .table = TableSize::kSmall,
       .read_deadline = Millis(1500),
       .on_origin_loss = OnOriginLoss::kDeny},
      // A row that was written when the world ended was to be known at once (a false alarm).
      {.seed = 425056,
       .regions = 2,
       .faults = FaultMode::kNone,
       .on_origin_loss = OnOriginLoss::kShare},
      // One of a window that had just begun was, too (a false alarm).
      {.seed = 501606,
       .regions = 3,
       .faults = FaultMode::kNone,
       .max_region_skew = Millis(1500),
       .on_origin_loss = OnOriginLoss::kShare},
      // Rows were forgotten for the cells of a future that was no more.
      world_of(321),
      // A tuple that was made for a request of an old window did not know the rows of the present.
      world_of(2137),
      // A batch that could not make its tuple anew was refused until the year 1970.
      world_of(2057),
  };
  for (const WorldOptions& options : worlds) {
    const RunReport report = World(options).run();
    EXPECT_FALSE(report.broken) << describe(options.seed, report);
  }
}

}  // namespace
}  // namespace weir::sim
