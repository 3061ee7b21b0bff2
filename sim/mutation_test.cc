// Bugs planted in the engine itself, one at a time: the checkers of the simulated world must find
// each, and find nothing where none is planted.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutation.h"
#include "decide/engine.h"
#include "memory/tuple_key.h"
#include "origins/in_process_origin.h"
#include "sim/found_test.h"
#include "sim/timeline.h"
#include "sim/world.h"
#include "tests/doubles/hand_clock.h"
#include "tests/schedule/thread_mutations.h"

namespace weir::sim {
namespace {

using base::Mutation;

constexpr uint64_t kSeeds = 150;  // at most; most bugs are found in the first few

struct Planted {
  explicit Planted(Mutation mutation) { base::planted = mutation; }
  ~Planted() { base::planted = Mutation::kNone; }
};

// Where a bug shows, and who is there to find it.
struct Mutant {
  Mutation mutation = Mutation::kNone;
  std::string_view name = {};
  std::vector<std::string_view> found_by = {};
  int regions = 1;
  Weather weather = Weather::kStormy;
  Room room = Room::kEnough;
  std::string only = {};  // the one checker that looks
  bool limits_differ = false;
  Millis regions_apart{0};
  int visitors = 0;
};
void PrintTo(const Mutant& mutant, std::ostream* out) {
  *out << mutant.name;
}

Mutant abroad(Mutation mutation, std::string_view name, std::string_view found_by) {
  return {mutation, name, {found_by}, 3, Weather::kFair};
}
// The same bug, if one checker alone looks.
Mutant alone(std::string_view checker, Mutant mutant, std::string_view name) {
  mutant.name = name;
  mutant.found_by = {checker};
  mutant.only = checker;
  return mutant;
}

const std::vector<Mutant>& mutants() {
  static const std::vector<Mutant> kMutants = {
      {Mutation::kAddInsteadOfMax, "AddInsteadOfMax", {"nobody invents consumption"}},
      {Mutation::kImportTakenForAll,
       "ImportTakenForAll",
       {"heard is used", "agreement abroad"},
       3,
       Weather::kFair},
      {Mutation::kLateIntoNext, "LateIntoNext", {"nobody invents consumption"}},
      abroad(Mutation::kForeignPublished, "ForeignPublished", "nobody invents abroad"),
      abroad(Mutation::kOwnRowAsForeign, "OwnRowAsForeign", "nobody invents abroad"),
      abroad(Mutation::kVerdictPublished, "VerdictPublished", "nobody invents abroad"),
      abroad(Mutation::kPublishedBeforeCommit, "PublishedBeforeCommit", "durability order"),
      {Mutation::kLossNotRepaired, "LossNotRepaired", {"told in time"}},
      {.mutation = Mutation::kGenerationKept,
       .name = "GenerationKept",
       .found_by = {"parts never fall", "honest verdicts", "nobody invents consumption"},
       .room = Room::kScarce},
      {Mutation::kFreshByFailedRead, "FreshByFailedRead", {"fresh enough", "the regional bound"}},
      {Mutation::kFreshByAcknowledgement,
       "FreshByAcknowledgement",
       {"fresh enough", "the regional bound"}},
      abroad(Mutation::kRuleOnRequestsOnly, "RuleOnRequestsOnly", "publish discipline"),
      abroad(Mutation::kLeaseEndNotWatched, "LeaseEndNotWatched", "publish discipline"),
      abroad(Mutation::kRegionsUnderestimated, "RegionsUnderestimated", "publish discipline"),
      abroad(Mutation::kLargerLimitInRule, "LargerLimitInRule", "publish discipline"),
      abroad(Mutation::kLastLimitIgnored, "LastLimitIgnored", "publish discipline"),
      abroad(Mutation::kRollOverRemoved, "RollOverRemoved", "publish discipline"),
      abroad(Mutation::kOwnRowReplaces, "OwnRowReplaces", "published never falls"),
      {.mutation = Mutation::kNextWindowDropped,
       .name = "NextWindowDropped",
       .found_by = {"heard is used", "agreement abroad"},
       .regions = 3,
       .weather = Weather::kFair,
       .regions_apart = Millis(1500)},
      {.mutation = Mutation::kFailedRefusalForgotten,
       .name = "FailedRefusalForgotten",
       .found_by = {"published in time"},
       .regions = 2,
       .visitors = 10},
      {Mutation::kFoldLost, "FoldLost", {"conservation", "the regional bound", "retrying is free"}},
      {Mutation::kRejectedConsumes, "RejectedConsumes", {"nobody invents consumption"}},
      {Mutation::kFailedBatchConsumes, "FailedBatchConsumes", {"nobody invents consumption"}},
      {Mutation::kOneTooMany, "OneTooMany", {"honest verdicts"}},
      // What the bugs come to.
      alone("the regional bound", {.mutation = Mutation::kFreshByFailedRead},
            "FreshByFailedReadByTheBoundAlone"),
      alone("the regional bound", {.mutation = Mutation::kFreshByAcknowledgement},
            "FreshByAcknowledgementByTheBoundAlone"),
      alone("the regional bound", {.mutation = Mutation::kGenerationKept, .room = Room::kScarce},
            "GenerationKeptByTheBoundAlone"),
      alone("the regional bound", {.mutation = Mutation::kOneTooMany}, "OneTooManyByTheBoundAlone"),
      alone("conservation", {.mutation = Mutation::kFoldLost}, "FoldLostByConservationAlone"),
      alone("heard is used",
            {.mutation = Mutation::kNextWindowDropped,
             .regions = 3,
             .weather = Weather::kFair,
             .regions_apart = Millis(1500)},
            "NextWindowDroppedByWhatWasHeardAlone"),
      alone("published in time",
            {.mutation = Mutation::kRollOverRemoved, .regions = 3, .weather = Weather::kFair},
            "RollOverRemovedByTheTruthAlone"),
      alone("conservation", {.mutation = Mutation::kLossNotRepaired},
            "LossNotRepairedByConservationAlone"),
      alone("the global bound",
            {.mutation = Mutation::kImportTakenForAll, .regions = 3, .weather = Weather::kFair},
            "ImportTakenForAllByTheBoundAlone"),
      alone("the global bound",
            {.mutation = Mutation::kRuleOnRequestsOnly, .regions = 2, .weather = Weather::kFair},
            "RuleOnRequestsOnlyByTheBoundAlone"),
      alone("the global bound",
            {.mutation = Mutation::kLargerLimitInRule,
             .regions = 2,
             .weather = Weather::kFair,
             .limits_differ = true},
            "LargerLimitInRuleByTheBoundAlone"),
  };
  return kMutants;
}

class MutantEngine : public ::testing::TestWithParam<Mutant> {};

TEST_P(MutantEngine, IsFound) {
  const Planted planted(GetParam().mutation);
  expect_found({.regions = GetParam().regions,
                .weather = GetParam().weather,
                .limits_differ = GetParam().limits_differ,
                .regions_apart = GetParam().regions_apart,
                .visitors = GetParam().visitors,
                .room = GetParam().room,
                .only = GetParam().only},
               kSeeds, GetParam().found_by);
}

INSTANTIATE_TEST_SUITE_P(World, MutantEngine, ::testing::ValuesIn(mutants()),
                         [](const auto& each) { return std::string(each.param.name); });

// What a world does not show: its processes have one thread each, and a batch in it is over before
// anything else begins. Each of these says whether something broke.

// One burst, asked for by two threads at once: is more of it admitted than there is?
bool two_threads_exceed_a_burst() {
  constexpr int64_t kBurst = 100'000;
  const doubles::HandClock clock;
  for (int round = 0; round < 20; ++round) {
    const auto engine = decide::Engine::make(clock, {.capacity = 16, .seed = 1});
    const Request request{.ns = "mutation",
                          .identifier = "both",
                          .limit = kBurst,
                          .duration = kMaxDuration,
                          .algorithm = Algorithm::kGcra};
    std::barrier both(2);
    std::atomic<int64_t> admitted = 0;
    const auto ask = [&] {
      both.arrive_and_wait();
      while (engine->check(clock.now(), request)->admitted()) ++admitted;
    };
    std::thread other(ask);
    ask();
    other.join();
    if (admitted > kBurst) return true;
  }
  return false;
}

// A clock that lets something else happen when it is looked at, but not while that happens.
class InterruptedClock final : public Clock {
 public:
  explicit InterruptedClock(const Clock& clock) : clock_(clock) {}
  [[nodiscard]] Instant now() const override {
    if (Task task = std::exchange(interrupt, {})) {
      task();
      interrupt = std::move(task);
    }
    return clock_.now();
  }
  mutable Task interrupt;

 private:
  const Clock& clock_;
};

CellId cell_at(Instant now, const Request& request) {
  return {memory::TupleKey(request, base::KeyedHash(0)).encoded(),
          now.wall.time_since_epoch() / request.duration};
}

// A replay in the midst of a batch that fails: does the origin hear of its cost? The batch is
// interrupted where it finds a tuple that is ahead of its time, and looks at the clock.
bool origin_hears_of_a_batch_that_fails() {
  Timeline timeline(1);
  const InterruptedClock clock(timeline);
  const auto origin = std::make_shared<origins::InProcessOrigin>(timeline);
  constexpr uint64_t kSeed = 1;
  const auto engine =
      decide::Engine::make(clock, {.origin = origin, .capacity = 16, .seed = kSeed});
  Request first{.ns = "mutation", .identifier = "a", .limit = 5, .duration = Millis(1000)};
  // Batches take their tuples in the order of their keys.
  Request second = first;
  second.algorithm = Algorithm::kSlidingLog;
  const base::KeyedHash hash(kSeed);
  for (const std::string_view name : {"b", "c", "d", "e", "f", "g", "h", "i"}) {
    if (memory::TupleKey(first, hash) < memory::TupleKey(second, hash)) break;
    first.identifier = name;
  }
  EXPECT_TRUE(memory::TupleKey(first, hash) < memory::TupleKey(second, hash));

  const Instant now = timeline.now();
  first.cost = 1;
  EXPECT_TRUE(engine->check(now, first)->admitted());
  EXPECT_TRUE(engine->check({now.wall + Millis(10'000), now.mono}, second)->admitted());
  clock.interrupt = [&] { engine->run_replay(now, timeline, Flush::kAll); };
  first.cost = 2;
  second.cost = 6;
  EXPECT_FALSE(engine->check_all(now, std::vector{first, second})->admitted());
  const auto components = origin->components(cell_at(now, first));
  return components.size() != 1 || components.begin()->second != 1;
}

struct Scene {
  Mutation mutation = Mutation::kNone;
  std::string_view name = {};
  bool (*breaks)() = nullptr;
};
void PrintTo(const Scene& scene, std::ostream* out) {
  *out << scene.name;
}

const std::vector<Scene>& scenes() {
  static const std::vector<Scene> kScenes = {
      {Mutation::kTatMergedByMax, "TatMergedByMax", two_threads_exceed_a_burst},
      {Mutation::kTentativeAcked, "TentativeTold", origin_hears_of_a_batch_that_fails}};
  return kScenes;
}

class MutantScene : public ::testing::TestWithParam<Scene> {};

TEST_P(MutantScene, BreaksOnlyWithTheMutant) {
  EXPECT_FALSE(GetParam().breaks());
  const Planted planted(GetParam().mutation);
  EXPECT_TRUE(GetParam().breaks());
}

INSTANTIATE_TEST_SUITE_P(Apart, MutantScene, ::testing::ValuesIn(scenes()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(MutableEngine, HasNoMutationThatIsNotLookedFor) {
  std::set<Mutation> looked_for;
  for (const Mutant& mutant : mutants()) looked_for.insert(mutant.mutation);
  for (const Scene& scene : scenes()) looked_for.insert(scene.mutation);
  for (const Mutation mutation : schedule::kThreadMutations) looked_for.insert(mutation);
  EXPECT_EQ(looked_for.count(Mutation::kNone), 0u);
  EXPECT_EQ(looked_for.size() + 1, static_cast<size_t>(Mutation::kCount));
}

TEST(MutableEngine, IsAsGoodAsTheOtherWhereNothingIsPlanted) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    for (const Weather weather : {Weather::kStormy, Weather::kFair}) {
      for (const WorldOptions& options :
           {WorldOptions{.seed = seed, .regions = 1, .weather = weather},
            WorldOptions{.seed = seed, .regions = 1, .weather = weather, .room = Room::kScarce},
            WorldOptions{.seed = seed, .regions = 3, .weather = weather}}) {
        const RunReport report = World(options).run();
        ASSERT_FALSE(report.broken) << story(seed, report);
      }
    }
  }
}

}  // namespace
}  // namespace weir::sim
