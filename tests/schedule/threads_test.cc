// The workloads under many schedules: their invariants hold for every order of operations.
// docs/testing.md says what is explored and what is not.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic.h"
#include "base/mutation.h"
#include "tests/schedule/scheduler.h"
#include "tests/schedule/thread_mutations.h"
#include "tests/schedule/workloads.h"

namespace weir::schedule {
namespace {

struct Named {
  std::string_view name;
  Workload workload;
  uint64_t schedules = 0;
};
void PrintTo(const Named& named, std::ostream* out) {
  *out << named.name;
}

const std::vector<Named>& workloads() {
  constexpr uint64_t kMany = 20'000;
  constexpr uint64_t kSome = 5'000;
  using enum Algorithm;
  static const std::vector<Named> kWorkloads = {
      {"BothSidesOfABoundaryOnANewTuple", both_sides_of_a_boundary(Before::kNothing), kMany},
      {"BothSidesOfABoundaryAfterAnOlderWindow", both_sides_of_a_boundary(Before::kOlderWindow),
       kMany},
      {"BothSidesOfABoundaryAfterAChargeOfTheOldWindow",
       both_sides_of_a_boundary(Before::kOldWindow), kMany},
      {"LateRequestBesideTheNextWindow", late_request_beside_the_next_window(), kMany},
      {"OneSlidingWindowChargedByMany", one_tuple_charged_by_many(kSlidingWindow), kMany},
      {"OneFixedWindowChargedByMany", one_tuple_charged_by_many(kFixedWindow), kSome},
      {"OneStrictWindowChargedByMany", one_tuple_charged_by_many(kSlidingWindowStrict), kSome},
      {"OneLogChargedByMany", one_tuple_charged_by_many(kSlidingLog), kSome},
      {"OneBacklogChargedByMany", one_tuple_charged_by_many(kGcra), kSome},
      {"WindowChargedBesideASweep", charge_beside_a_sweep(kSlidingWindow), kSome},
      {"StrictWindowChargedBesideASweep", charge_beside_a_sweep(kSlidingWindowStrict), kSome},
      {"LogChargedBesideASweep", charge_beside_a_sweep(kSlidingLog), kSome},
      {"BacklogChargedBesideASweep", charge_beside_a_sweep(kGcra), kSome},
      {"LogChargedBesideARebuild", charge_beside_a_rebuild(kSlidingLog), kSome},
      {"BacklogChargedBesideARebuild", charge_beside_a_rebuild(kGcra), kSome},
      {"WindowChargedBesideAReset", charge_beside_a_reset(kSlidingWindow), kSome},
      {"StrictWindowChargedBesideAReset", charge_beside_a_reset(kSlidingWindowStrict), kSome},
      {"LogChargedBesideAReset", charge_beside_a_reset(kSlidingLog), kSome},
      {"BacklogChargedBesideAReset", charge_beside_a_reset(kGcra), kMany},
      {"RefusedBatchOfStrictWindowsBesideAReset",
       refused_batch_beside_a_reset(kSlidingWindowStrict), kSome},
      {"RefusedBatchOfLogsBesideAReset", refused_batch_beside_a_reset(kSlidingLog), kSome},
      {"RefusedBatchOfBacklogsBesideAReset", refused_batch_beside_a_reset(kTokenBucket), kSome},
      {"BatchesOfWindows", batches_beside_each_other(kSlidingWindow), kSome},
      {"BatchesOfStrictWindows", batches_beside_each_other(kSlidingWindowStrict), kSome},
      {"BatchesOfLogs", batches_beside_each_other(kSlidingLog), kSome},
      {"BatchesOfBacklogs", batches_beside_each_other(kTokenBucket), kSome},
      {"CountsOfSiblingsAndOfOtherRegions", imports_of_both_kinds(), kMany},
      {"RefusedBatchBesideAReplayInThisWindow",
       refused_batch_beside_a_replay(Accepted::kInThisWindow), kSome},
      {"RefusedBatchBesideAReplayOfTheLastWindow",
       refused_batch_beside_a_replay(Accepted::kInTheLastWindow), kSome},
      {"ChargesBesideReplaysBySlowPath", charges_beside_replays(Path::kSlow), kSome},
      {"ChargesBesideReplaysByFastPath", charges_beside_replays(Path::kFast), kSome},
      {"ReplaysOnTwoThreads", replays_on_two_threads(), kSome},
      {"WaitersOfOneRead", waiters_of_one_read(), kSome},
      {"ChargesBesideSync", charges_beside_sync(), kSome},
      {"CreationBesideAnImport", creation_beside_an_import(), kSome},
      {"CreationOfATupleWithImportedCounts", creation_of_a_tuple_with_imported_counts(), kSome},
      {"ReplaysThatAreAnsweredLate", replays_that_are_answered_late(), kSome},
      {"SketchBesideAFreedSlot", sketch_beside_a_freed_slot(), kSome},
      {"ReadsBesideAFlood", reads_beside_a_flood(), kSome},
      {"FloodBesideAReplay", flood_beside_a_replay(), kSome},
      {"FirstChargeOfAWindowBesideAReplay", first_charge_of_a_window_beside_a_replay(), kSome},
      {"FloodBesideAReader", flood_beside_a_reader(), kSome},
      {"CreationOfOneTuple", creation_of_one_tuple(), kMany},
  };
  return kWorkloads;
}

class Threads : public ::testing::TestWithParam<Named> {};

TEST_P(Threads, KeepTheirInvariantsUnderEverySchedule) {
  expect_holds(GetParam().workload, GetParam().schedules);
}

INSTANTIATE_TEST_SUITE_P(Workload, Threads, ::testing::ValuesIn(workloads()),
                         [](const auto& each) { return std::string(each.param.name); });

// Generated workloads: each recipe gives another one.
TEST(AnyWorkload, KeepsTheLimitUnderEverySchedule) {
  expect_all_hold(any_counting, {.recipes = 200, .schedules = 300});
}

TEST(AnyWorkload, ReplaysAllAcceptedCountsUnderEverySchedule) {
  expect_all_hold(any_replaying, {.recipes = 200, .schedules = 300});
}

// --- The scheduler must find planted bugs ---

struct Planted {
  explicit Planted(base::Mutation mutation) { base::planted = mutation; }
  ~Planted() { base::planted = base::Mutation::kNone; }
};

struct Bug {
  base::Mutation mutation = base::Mutation::kNone;
  std::string_view name;
  Workload workload;
};
void PrintTo(const Bug& bug, std::ostream* out) {
  *out << bug.name;
}

const std::vector<Bug>& bugs() {
  using base::Mutation;
  static const std::vector<Bug> kBugs = {
      {Mutation::kCreatedTwice, "CreatedTwice", creation_of_one_tuple()},
      {Mutation::kMarkedCleanLast, "MarkedCleanLast", charges_beside_replays(Path::kFast)},
      {Mutation::kTatMergedByMax, "TatMergedByMax", one_tuple_charged_by_many(Algorithm::kGcra)},
      {Mutation::kTentativeAcked, "TentativeAcked",
       refused_batch_beside_a_replay(Accepted::kInThisWindow)},
  };
  return kBugs;
}

class PlantedInThreads : public ::testing::TestWithParam<Bug> {};

TEST_P(PlantedInThreads, IsFoundWithin10000Schedules) {
  const Planted planted(GetParam().mutation);
  EXPECT_TRUE(find_violation(GetParam().workload, 1, 10'000));
}

INSTANTIATE_TEST_SUITE_P(Bug, PlantedInThreads, ::testing::ValuesIn(bugs()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(PlantedInThreads, IncludeAllMutationsThatOnlyThreadsShow) {
  std::set<base::Mutation> looked_for;
  for (const Bug& bug : bugs()) looked_for.insert(bug.mutation);
  for (const base::Mutation mutation : kThreadMutations) EXPECT_TRUE(looked_for.contains(mutation));
}

// Two threads that each read a number and write it plus one: an update may be lost.
Workload lost_update() {
  return [] {
    const auto number = std::make_shared<base::Atomic<int>>(0);
    const auto add = [=] { number->store(number->load() + 1); };
    return Instance{.threads = {add, add}, .violation = [=]() -> std::string {
                      return number->load() == 2 ? "" : "an update was lost";
                    }};
  };
}

TEST(Scheduler, FindsALostUpdate) {
  EXPECT_TRUE(find_violation(lost_update(), 1, 100));
}

TEST(Scheduler, ReportsAThreadThatDoesNotEnd) {
  const Workload workload = [] {
    const auto number = std::make_shared<base::Atomic<int>>(0);
    return Instance{.threads = {[=] {
                                  while (number->load() == 0) {
                                  }
                                },
                                [=] { (void)number->load(); }},
                    .violation = []() -> std::string { return {}; }};
  };
  const auto found = find_violation(workload, 1, 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->what, "a thread does not end");
}

TEST(Scheduler, IsDeterministicPerSeed) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const uint64_t once = fingerprint_of(flood_beside_a_replay(), seed);
    EXPECT_EQ(fingerprint_of(flood_beside_a_replay(), seed), once) << "seed " << seed;
    seen.insert(once);
  }
  EXPECT_GE(seen.size(), 40U);
}

TEST(Scheduler, LetsAThreadWaitForAMutexThatAnotherHolds) {
  struct Guarded {
    base::Mutex mutex;
    base::Atomic<int> inside{0};
    bool met = false;
  };
  const Workload workload = [] {
    const auto world = std::make_shared<Guarded>();
    const auto enter = [=] {
      const std::lock_guard lock(world->mutex);
      world->met = world->met || world->inside.fetch_add(1) != 0;
      world->inside.fetch_sub(1);
    };
    return Instance{.threads = {enter, enter, enter}, .violation = [=]() -> std::string {
                      return world->met ? "two threads met inside" : "";
                    }};
  };
  EXPECT_FALSE(find_violation(workload, 1, 1000));
}

}  // namespace
}  // namespace weir::schedule
