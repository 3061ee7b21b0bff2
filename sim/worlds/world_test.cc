// Random small worlds, checked after every event. Each is reproducible from its seed.

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
  return seeds_or(kSeeds);
}

TEST(World, KeepsEveryInvariantAndReachesEveryCoverageState) {
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
    // Losses are accounted for, and small.
    EXPECT_GT(all.died_unacked, 0u);
    EXPECT_GT(all.lost_with_origin, 0u);
    EXPECT_LT(all.died_unacked, all.accepted / 20);
  }
  RecordProperty("accepted", std::to_string(all.accepted));
  RecordProperty("died_unacked", std::to_string(all.died_unacked));
  RecordProperty("lost_with_origin", std::to_string(all.lost_with_origin));
}

TEST(World, GivesTheSameFingerprintForTheSameSeedAndAnotherForAnother) {
  for (uint64_t seed = 1; seed <= generated_cases(5); ++seed) {
    const RunReport one = World({.seed = seed}).run();
    const RunReport two = World({.seed = seed}).run();
    EXPECT_EQ(one.fingerprint, two.fingerprint);
    EXPECT_EQ(one.events, two.events);
    EXPECT_NE(one.fingerprint, World({.seed = seed + 100}).run().fingerprint);
  }
}

// Without faults imports are quick, so the bounds on delays are tight.
TEST(World, KeepsTheGlobalBoundTightlyWithoutFaults) {
  const uint64_t seeds = std::min<uint64_t>(30, kSanitized ? seeds_to_run() / 4 : seeds_to_run());
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    for (const int regions : {2, 3}) {
      const RunReport report =
          World({.seed = seed, .regions = regions, .faults = FaultMode::kNone}).run();
      ASSERT_FALSE(report.broken) << describe(seed, report);
      EXPECT_LE(report.delay, Millis(2500));
      EXPECT_GT(report.rows, 0u);
    }
  }
}

// Rows of a window arrive in regions where it has not begun yet.
TEST(World, KeepsInvariantsWithLargeClockSkewBetweenRegions) {
  for (uint64_t seed = 1; seed <= seeds_to_run() / 10; ++seed) {
    const RunReport report = World({.seed = seed,
                                    .regions = 3,
                                    .faults = FaultMode::kNone,
                                    .max_region_skew = Millis(1500)})
                                 .run();
    ASSERT_FALSE(report.broken) << describe(seed, report);
  }
}

// A denial gets its counts published, although the ledger failed and no request follows.
TEST(World, KeepsInvariantsForVisitorsThatStayAwayAfterADenial) {
  for (uint64_t seed = 1; seed <= seeds_to_run() / 10; ++seed) {
    const RunReport report = World({.seed = seed, .regions = 2, .visitors = 10}).run();
    ASSERT_FALSE(report.broken) << describe(seed, report);
  }
}

// A process that has no origin is its own bridge, in memory.
TEST(World, KeepsInvariantsInRegionsWithoutAnOrigin) {
  for (uint64_t seed = 1; seed <= seeds_to_run() / 5; ++seed) {
    for (const FaultMode faults : {FaultMode::kRandom, FaultMode::kNone}) {
      const RunReport report = World({.seed = seed,
                                      .regions = 3,
                                      .faults = faults,
                                      .without_origin = static_cast<int>(1 + seed % 3)})
                                   .run();
      ASSERT_FALSE(report.broken) << describe(seed, report);
    }
  }
}

// Another process continues where the bridge died, at any step of its work.
TEST(World, KeepsInvariantsWhenBridgesAreKilledAtAnyStep) {
  uint64_t killed = 0;
  for (uint64_t seed = 1; seed <= seeds_to_run() / 5; ++seed) {
    const RunReport report = World({.seed = seed, .regions = 3, .kills_bridges = true}).run();
    ASSERT_FALSE(report.broken) << describe(seed, report);
    const auto found = report.coverage.find(Coverage::kBridgeKilled);
    if (found != report.coverage.end()) killed += found->second;
  }
  EXPECT_GT(killed, 0u);
}

TEST(World, KeepsInvariantsWithMoreNodes) {
  for (uint64_t seed = 1000; seed < 1000 + generated_cases(10); ++seed) {
    const RunReport report = World({.seed = seed, .nodes = 5}).run();
    ASSERT_FALSE(report.broken) << describe(seed, report);
  }
}

TEST(World, KeepsInvariantsForEachOriginLossPolicyAndReadDeadline) {
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

// An evicted tuple returns with another generation and still knows what it had accepted.
TEST(World, KeepsInvariantsWhenTablesEvictTuples) {
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

// All options at once, as swarms draw them.
TEST(World, KeepsInvariantsUnderAllSwarmOptions) {
  std::map<Coverage, uint64_t> coverage;
  for (uint64_t seed = 1; seed <= 2 * seeds_to_run(); ++seed) {
    const RunReport report = World(world_of(seed)).run();
    ASSERT_FALSE(report.broken) << describe(seed, report);
    for (const auto& [state, times] : report.coverage) coverage[state] += times;
  }
  if (seeds_to_run() < kSeeds) return;
  for (const Coverage state :
       {Coverage::kKilledAfterAck, Coverage::kBurst, Coverage::kEvictedWithRegions,
        Coverage::kBridgeKilled, Coverage::kBridgePaused, Coverage::kRegionCountsEvicted,
        Coverage::kFeedGap, Coverage::kFeedBeganAgain, Coverage::kRegionWithoutOrigin,
        Coverage::kClockHoursOff, Coverage::kClockJump, Coverage::kLocalAlgorithm,
        Coverage::kExactByAllowance, Coverage::kExactKnownDenial, Coverage::kExactDegradedTold,
        Coverage::kExactForeignCharged, Coverage::kRowsWaited}) {
    EXPECT_GT(coverage[state], 0u) << "never reached: " << to_string(state);
  }
}

// Relaxed requests on some tuples, and beside others on the same tuple and in the same batch.
TEST(World, KeepsInvariantsForRelaxedRequests) {
  std::map<Coverage, uint64_t> coverage;
  for (uint64_t i = 0; i < seeds_to_run() / 4; ++i) {
    WorldOptions options = world_of(kFirstRelaxedSeed + i);
    options.relaxed = true;
    const RunReport report = World(options).run();
    ASSERT_FALSE(report.broken) << describe(options.seed, report);
    for (const auto& [state, times] : report.coverage) coverage[state] += times;
  }
  if (seeds_to_run() < kSeeds) return;
  for (const Coverage state : {Coverage::kRelaxedWindow, Coverage::kRelaxedRead,
                               Coverage::kRelaxedState, Coverage::kMixedBatch}) {
    EXPECT_GT(coverage[state], 0u) << "never reached: " << to_string(state);
  }
}

// The draws of relaxed requests follow all others.
TEST(World, OfAnEarlierSeedHasNoRelaxedRequests) {
  for (const uint64_t seed : {uint64_t{1}, kFirstWideSeed, kFirstRelaxedSeed - 1}) {
    EXPECT_FALSE(world_of(seed).relaxed) << seed;
  }
}

// Violations that swarms found, and that are fixed.
TEST(World, KeepsInvariantsInWorldsThatOnceBroke) {
  const std::vector<WorldOptions> worlds = {
      // A peek in a batch used no counts and reported itself refreshed, when another item had
      // evicted its tuple after the read.
      {.seed = 3156338953, .regions = 1, .table = TableSize::kSmall},
      // A tuple that was denied after a failed read never noticed that the origin lost its
      // component.
      {.seed = 547},
      // An import missed a row between two overlapping reads, when one of them was lost and a
      // replica lagged.
      {.seed = 2519},
      // A peek that waited longer than its windows last reported that nothing was used.
      {.seed = 93, .read_deadline = Millis(1500), .on_origin_loss = OnOriginLoss::kDeny},
      // An item of a batch was evicted while another one was read, and created again without a
      // read; its counts were reported as known all the same.
      {.seed = 537, .regions = 1, .table = TableSize::kSmall, .read_deadline = Millis(1500)},
      // A checker took a batch for decided late because of a late peek in it (a false alarm).
      {.seed = 424639, .read_deadline = Millis(1500)},
      {.seed = 7001245, .read_deadline = Millis(1500)},
      {.seed = 31338905, .regions = 1, .table = TableSize::kSmall, .read_deadline = Millis(1500)},
      // The same, where the sketch counted an item in a later window.
      {.seed = 20569,
       .regions = 1,
       .table = TableSize::kSmall,
       .read_deadline = Millis(1500),
       .on_origin_loss = OnOriginLoss::kDeny},
      // A checker required that a row written at the very end is known at once (a false alarm).
      {.seed = 425056,
       .regions = 2,
       .faults = FaultMode::kNone,
       .on_origin_loss = OnOriginLoss::kShare},
      // The same for a row of a window that had just begun (a false alarm).
      {.seed = 501606,
       .regions = 3,
       .faults = FaultMode::kNone,
       .max_region_skew = Millis(1500),
       .on_origin_loss = OnOriginLoss::kShare},
      // Rows were evicted in favour of cells that a wrong clock had created in the future.
      world_of(321),
      // A tuple created for a request of an old window did not know the rows of the current one.
      world_of(2137),
      // A batch that could not create its tuple again was denied with a reset in 1970.
      world_of(2057),
      // A process that had no answer of the origin yet told it of other regions, of which it then
      // charged only 1.
      {.seed = 245,
       .regions = 3,
       .fault_time = Millis(40'000),
       .faults = FaultMode::kNone,
       .bursts = true,
       .all_algorithms = true,
       .tuples = 2},
      // A tuple was evicted between the decision and the answer. A checker took what its process
      // had admitted before for unknown, and what it admitted then for overdue (false alarms).
      world_of(70219),
      world_of(80333),
      // A full read whose pages came from a lagging replica was taken for complete up to the head
      // of the primary: rows between the two were missed until the check once an hour.
      {.seed = 114},
      world_of(7700817),
      // A bridge whose clock was hours ahead for seconds wrote a row of a window in the future. Its
      // region relied on the lease of that row, which the other regions had dropped with it.
      world_of(7701817),
      // Two items of a batch were charged before and after the eviction of their tuple. The oracle
      // took the first for a charge of the tuple that was created again (a false alarm).
      world_of(283),
      // A call arrived once more after all clocks had leapt, and was decided again. The history of
      // the origin did not count what it charged (a false alarm).
      world_of(115607),
      // An origin was emptied. A call that told nothing arrived before an earlier one, which was
      // charged again. The history of the origin took it for told (a false alarm).
      world_of(10000782),
      // A state of a bridge came back with an old snapshot, after it had been discarded: rows that
      // were read since were taken for read.
      world_of(20000338),
      // A batch was answered after its tuple had been evicted and created again, and what the
      // origin had granted to another batch seemed to be its charge (a false alarm).
      world_of(22000346),
      // The same, where the charge was of the tuple created again (a false alarm).
      world_of(22000501),
      // The ledger lost rows, and the bridge that had noticed it died. The next one read the rows
      // of its region, in the new epoch of the feed, before the records of what had been published.
      world_of(21000179),
      // The same, but it read the records first. Then the full read for the restoration of its
      // origin took the new epoch for known.
      {.seed = 21000179,
       .regions = 2,
       .visitors = 10,
       .kills_after_ack = true,
       .steps_back = true,
       .pauses_bridges = true,
       .all_algorithms = true,
       .changes_settings = true,
       .on_origin_loss = OnOriginLoss::kShare,
       .disabled_faults = {WorldFault::kKills, WorldFault::kDrains}},
      // The ledger lost what a process had published without its origin. The bridge repeated the
      // records before it got those of that process, which took its rows and leases for published.
      world_of(23004162),
      // A tuple was replaced while a peek at it waited for its counts (a false alarm).
      world_of(20002075),
      // Requests of one instant were answered in another order than decided (false alarms).
      world_of(117139),
      world_of(7701755),
      // A window that was over returned to an origin with an older count (false alarms).
      world_of(126859),
      world_of(7703467),
      // A clock was set back while a batch waited, which was then decided in the window before (a
      // false alarm).
      world_of(8001045),
      // The bridge read a count that a late write had lowered and took it for not due. The repaired
      // count did not make it due again.
      world_of(7701946),
      // The message that made a count due was lost, the next one brought the count, and its process
      // was killed: nobody published it.
      world_of(8001459),
      world_of(8001779),
      // A process that decided by a part of a limit took the part for the limit of the usage, and
      // asked in vain for its row every second.
      world_of(8001710),
      // A process that became the bridge after faults had ended took the time since its last row,
      // when it had been the bridge before, for a ledger that accepts no writes.
      world_of(8000443),
      // The bridge read a tuple a little later than the process that made it due, when the rule did
      // not hold for a moment. A checker did not wait until the process asked again (a false
      // alarm).
      world_of(8003040),
      // An origin refused calls and came back while its nodes had nothing to do. A checker did not
      // see that, and took the replay after it for too late (a false alarm).
      world_of(9000799),
      // An origin lost its data soon after two processes had started, so a bridge restored what
      // they replayed, too. Another region charged both (a false alarm).
      world_of(9000445),
      // A row of another region arrived just before the end of a world, when its window was over. A
      // checker took it for a count that its reader had not replayed (a false alarm).
      world_of(244),
      // The origin denied a request of a process that was behind the other regions. A checker took
      // it for a denial of the process, which does not count what the origin granted (a false
      // alarm).
      world_of(10000803),
      // All clocks leapt while a batch waited, and its tuple was swept. A step without a tuple told
      // the origin of an item; a checker expected the tuple that a peek of the batch had created
      // again to replay it (a false alarm).
      world_of(21000574),
      // With several regions a window did not take over what the last count had taken over of
      // another duration. A checker knew that of another algorithm only (a false alarm).
      world_of(21000032),
      // A tuple was evicted and created again while one of two requests waited that were answered
      // together. A checker took the charge of the older tuple for the younger one's (a false
      // alarm).
      world_of(23000474),
      // A clock was set hours back. A tuple began again after a request with the time before, while
      // a batch waited. A checker took the charge of the batch for the younger tuple's (a false
      // alarm).
      world_of(40000346),
      // Another region read a batch, its writer got no reply, and the ledger lost it. The next
      // batch had the same number, and the other region took it for read.
      world_of(40010450),
      // A bridge slept while another one published, until the lease was free again. It did not know
      // the last batch, which the ledger had lost, and nobody repeated it.
      world_of(40020830),
      // A process that became the bridge soon after a report of its own, which processes that are
      // not the bridge make less often, seemed to have a ledger that refuses writes.
      world_of(89),
      // A process counted an item of a batch twice that the origin had admitted beside a relaxed
      // one on the same log, and denied a later relaxed request that fit.
      world_of(50000448),
      // The tuple of a relaxed item was removed while its batch waited, and charged at the time of
      // the batch.
      world_of(50000794),
      // The origin lost a state, and a checker counted what it had granted before and answered
      // after that (a false alarm).
      world_of(50300153),
      // The origin lost what it had admitted without a tuple, and a checker took it for counts of
      // the process (a false alarm).
      {.seed = 54, .regions = 1, .table = TableSize::kSmall},
      // A bridge was killed after it had written a batch, another region read it, and the ledger
      // lost it. The next bridge did not know its number and gave it to other rows.
      world_of(51000129),
      // Rows waited behind batches without rows under all numbers that a bridge had reserved.
      world_of(51002522),
      // The ledger rejected the rows of a tuple, and a checker took what other regions could not
      // know for included in the exported bound (a false alarm).
      world_of(51002658),
      // The clock of a process was hours behind, so that the origin counted nothing of what it
      // admitted without a tuple. A checker took that for remembered (a false alarm).
      world_of(52001291),
      // A denied batch took back the cost of an item that the origin had been asked about only.
      world_of(53300070),
      // A call that arrived twice took the lease of the bridge again at an origin that had been
      // emptied within a round, which then saved positions of lost rows.
      world_of(55000449),
  };
  for (const WorldOptions& options : worlds) {
    const RunReport report = World(options).run();
    EXPECT_FALSE(report.broken) << describe(options.seed, report);
  }
}

}  // namespace
}  // namespace weir::sim
