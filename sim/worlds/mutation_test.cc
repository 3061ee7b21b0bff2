// Bugs planted in the engine itself, one at a time. The checkers must find each of them, and must
// find nothing without one.

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
#include "global/due_backlog.h"
#include "global/endpoint_test.h"
#include "global/shared_tuples.h"
#include "ledgers/memory_ledger.h"
#include "memory/tuple_key.h"
#include "memory/usage_key.h"
#include "origins/in_process_origin.h"
#include "sim/timeline.h"
#include "sim/worlds/burst_bugs_test.h"
#include "sim/worlds/find_violation_test.h"
#include "sim/worlds/region_bugs_test.h"
#include "sim/worlds/world.h"
#include "tests/doubles/faulty_ledger.h"
#include "tests/doubles/forwarding_origin.h"
#include "tests/doubles/manual_clock.h"
#include "tests/schedule/thread_mutations.h"

namespace weir::sim {
namespace {

using base::Mutation;

constexpr uint64_t kSeeds = 150;  // at most; most bugs are found in the first few

struct Planted {
  explicit Planted(Mutation mutation) { base::planted = mutation; }
  ~Planted() { base::planted = Mutation::kNone; }
};

// A bug, the worlds that show it and the checkers that must find it.
struct Mutant {
  Mutation mutation = Mutation::kNone;
  std::string_view name = {};
  std::vector<std::string_view> found_by = {};
  int regions = 1;
  FaultMode faults = FaultMode::kRandom;
  TableSize table = TableSize::kLarge;
  std::string only_checker = {};  // the only checker that runs
  bool limits_differ = false;
  Millis max_region_skew{0};
  bool small_row_budget = false;
  bool tenants = false;
  bool all_algorithms = false;
  bool bursts = false;
  int without_origin = 0;  // regions
  bool relaxed = false;
};
void PrintTo(const Mutant& mutant, std::ostream* out) {
  *out << mutant.name;
}

Mutant across_regions(Mutation mutation, std::string_view name, std::string_view found_by) {
  return {mutation, name, {found_by}, 3, FaultMode::kNone};
}
// A bug of the publish rule: by the data at the origin, or by the oracle.
Mutant of_the_rule(Mutation mutation, std::string_view name) {
  return {mutation, name, {"publish rule", "published in time"}, 3, FaultMode::kNone};
}
// A bug of a tuple whose state the origin keeps.
Mutant of_exact_state(Mutation mutation, std::string_view name, std::string_view found_by,
                      int regions) {
  return {.mutation = mutation,
          .name = name,
          .found_by = {found_by},
          .regions = regions,
          .faults = FaultMode::kNone,
          .all_algorithms = true};
}
// A bug of relaxed requests.
Mutant of_relaxed(Mutation mutation, std::string_view name,
                  std::vector<std::string_view> found_by) {
  return {.mutation = mutation,
          .name = name,
          .found_by = std::move(found_by),
          .all_algorithms = true,
          .relaxed = true};
}
// The same bug in regions without an origin.
Mutant in_memory(Mutant mutant) {
  mutant.without_origin = mutant.regions;
  return mutant;
}
// The same bug, with only one checker running.
Mutant alone(std::string_view checker, Mutant mutant, std::string_view name) {
  mutant.name = name;
  mutant.found_by = {checker};
  mutant.only_checker = checker;
  return mutant;
}

const std::vector<Mutant>& mutants() {
  static const std::vector<Mutant> kMutants = {
      {Mutation::kAddInsteadOfMax, "AddInsteadOfMax", {"no invented counts"}},
      {Mutation::kImportTakenForAll,
       "ImportTakenForAll",
       {"imports are used", "agreement across regions"},
       3,
       FaultMode::kNone},
      {Mutation::kLateIntoNext, "LateIntoNext", {"no invented counts"}},
      across_regions(Mutation::kForeignPublished, "ForeignPublished", "no invented foreign counts"),
      across_regions(Mutation::kOwnRowAsForeign, "OwnRowAsForeign", "no invented foreign counts"),
      across_regions(Mutation::kVerdictPublished, "VerdictPublished", "no invented foreign counts"),
      across_regions(Mutation::kPublishedBeforeCommit, "PublishedBeforeCommit", "durability order"),
      {Mutation::kLossNotRepaired, "LossNotRepaired", {"acked in time"}},
      {.mutation = Mutation::kGenerationKept,
       .name = "GenerationKept",
       .found_by = {"counts never decrease", "consistent verdicts", "no invented counts"},
       .table = TableSize::kSmall},
      {Mutation::kFreshByFailedRead, "FreshByFailedRead", {"fresh enough", "the regional bound"}},
      {Mutation::kFreshByAcknowledgement,
       "FreshByAcknowledgement",
       {"fresh enough", "the regional bound"}},
      {.mutation = Mutation::kRuleOnRequestsOnly,
       .name = "RuleOnRequestsOnly",
       .found_by = {"publish rule", "published in time"},
       .regions = 2,
       .faults = FaultMode::kNone,
       .limits_differ = true},
      of_the_rule(Mutation::kRegionsUnderestimated, "RegionsUnderestimated"),
      of_the_rule(Mutation::kLargerLimitInRule, "LargerLimitInRule"),
      of_the_rule(Mutation::kLastLimitIgnored, "LastLimitIgnored"),
      of_the_rule(Mutation::kRollOverRemoved, "RollOverRemoved"),
      across_regions(Mutation::kLeaseWithinCell, "LeaseWithinCell", "no invented foreign counts"),
      {.mutation = Mutation::kOwnRowFresh,
       .name = "OwnRowFresh",
       .found_by = {"fresh enough", "the regional bound"},
       .regions = 2},
      {.mutation = Mutation::kNextWindowDropped,
       .name = "NextWindowDropped",
       .found_by = {"imports are used", "agreement across regions"},
       .regions = 3,
       .faults = FaultMode::kNone,
       .max_region_skew = Millis(1500)},
      {Mutation::kFoldLost,
       "FoldLost",
       {"conservation", "the regional bound", "idempotent replay"}},
      {Mutation::kRejectedConsumes, "RejectedConsumes", {"no invented counts"}},
      {Mutation::kFailedBatchConsumes, "FailedBatchConsumes", {"no invented counts"}},
      {Mutation::kOneTooMany, "OneTooMany", {"consistent verdicts"}},
      of_exact_state(Mutation::kToldChargedAgain, "ToldChargedAgain", "local algorithms", 1),
      of_exact_state(Mutation::kForeignChargedAgain, "ForeignChargedAgain",
                     "the global burst bound", 3),
      of_exact_state(Mutation::kForeignNotCharged, "ForeignNotCharged", "the global burst bound",
                     3),
      in_memory(of_exact_state(Mutation::kForeignNotCharged, "ForeignNotChargedInMemory",
                               "the global burst bound", 3)),
      in_memory(of_exact_state(Mutation::kForeignChargedAgain, "ForeignChargedAgainInMemory",
                               "the global burst bound", 3)),
      {.mutation = Mutation::kDeadlinePerAnswer,
       .name = "DeadlinePerAnswer",
       .found_by = {"answered in time"},
       .all_algorithms = true},
      of_relaxed(Mutation::kRelaxedUnread, "RelaxedUnread", {"fresh enough", "the regional bound"}),
      of_relaxed(Mutation::kRelaxedTold, "RelaxedTold", {"local algorithms"}),
      of_relaxed(Mutation::kConsistencyOfFirst, "ConsistencyOfFirst",
                 {"idempotent replay", "no invented counts", "local algorithms"}),
      {.mutation = Mutation::kRelaxedShared,
       .name = "RelaxedShared",
       .found_by = {"local algorithms", "the global burst bound"},
       .regions = 3,
       .faults = FaultMode::kNone,
       .all_algorithms = true,
       .without_origin = 2,
       .relaxed = true},
      // The effects of the bugs on the bounds.
      alone("the regional bound", {.mutation = Mutation::kFreshByFailedRead},
            "FreshByFailedReadByTheBoundAlone"),
      alone("the regional bound", {.mutation = Mutation::kFreshByAcknowledgement},
            "FreshByAcknowledgementByTheBoundAlone"),
      alone("the regional bound",
            {.mutation = Mutation::kGenerationKept, .table = TableSize::kSmall},
            "GenerationKeptByTheBoundAlone"),
      alone("the regional bound", {.mutation = Mutation::kOneTooMany}, "OneTooManyByTheBoundAlone"),
      alone("the regional bound", {.mutation = Mutation::kRelaxedUnread, .relaxed = true},
            "RelaxedUnreadByTheBoundAlone"),
      alone("the regional bound", {.mutation = Mutation::kConsistencyOfFirst, .relaxed = true},
            "ConsistencyOfFirstByTheBoundAlone"),
      alone("local algorithms", of_relaxed(Mutation::kConsistencyOfFirst, "ConsistencyOfFirst", {}),
            "ConsistencyOfFirstByLocalAlgorithmsAlone"),
      alone("conservation", {.mutation = Mutation::kFoldLost}, "FoldLostByConservationAlone"),
      alone("imports are used",
            {.mutation = Mutation::kNextWindowDropped,
             .regions = 3,
             .faults = FaultMode::kNone,
             .max_region_skew = Millis(1500)},
            "NextWindowDroppedByImportsAlone"),
      alone("published in time",
            {.mutation = Mutation::kRollOverRemoved, .regions = 3, .faults = FaultMode::kNone},
            "RollOverRemovedByTheOracleAlone"),
      alone("conservation", {.mutation = Mutation::kLossNotRepaired},
            "LossNotRepairedByConservationAlone"),
      alone("the global bound",
            {.mutation = Mutation::kImportTakenForAll, .regions = 3, .faults = FaultMode::kNone},
            "ImportTakenForAllByTheBoundAlone"),
      alone("the global bound",
            {.mutation = Mutation::kLargerLimitInRule,
             .regions = 2,
             .faults = FaultMode::kNone,
             .limits_differ = true},
            "LargerLimitInRuleByTheBoundAlone"),
  };
  return kMutants;
}

class MutantEngine : public ::testing::TestWithParam<Mutant> {};

TEST_P(MutantEngine, IsFound) {
  const Planted planted(GetParam().mutation);
  expect_found({.regions = GetParam().regions,
                .faults = GetParam().faults,
                .limits_differ = GetParam().limits_differ,
                .max_region_skew = GetParam().max_region_skew,
                .table = GetParam().table,
                .small_row_budget = GetParam().small_row_budget,
                .tenants = GetParam().tenants,
                .bursts = GetParam().bursts,
                .without_origin = GetParam().without_origin,
                .all_algorithms = GetParam().all_algorithms,
                .relaxed = GetParam().relaxed,
                .only_checker = GetParam().only_checker},
               kSeeds, GetParam().found_by);
}

INSTANTIATE_TEST_SUITE_P(World, MutantEngine, ::testing::ValuesIn(mutants()),
                         [](const auto& each) { return std::string(each.param.name); });

// Bugs that worlds show too seldom, or cannot show, because their processes have one thread each, a
// batch completes before the next event, rows wait only as long as the ledger is out of reach, and
// a full read is over before anything is published. Each function returns whether the bug had an
// effect.

// Two threads request one burst at once. Returns whether more than the burst is admitted.
bool two_threads_exceed_a_burst() {
  constexpr Count kBurst = 100'000;
  const doubles::ManualClock clock;
  for (int round = 0; round < 20; ++round) {
    const auto engine = decide::Engine::make(clock, {.capacity = 16, .seed = 1});
    const Request request{.ns = "mutation",
                          .identifier = "both",
                          .limit = kBurst,
                          .duration = kMaxDuration,
                          .algorithm = Algorithm::kGcra};
    std::barrier both(2);
    std::atomic<Count> admitted = 0;
    const auto request_all = [&] {
      both.arrive_and_wait();
      while (engine->check(clock.now(), request)->admitted()) ++admitted;
    };
    std::thread other(request_all);
    request_all();
    other.join();
    if (admitted > kBurst) return true;
  }
  return false;
}

// A clock that runs a task when it is read, but not within that task.
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

// Runs a replay in the middle of a batch that fails. Returns whether the origin received the cost
// of the batch. The interruption happens where the batch finds a tuple ahead of its time and reads
// the clock.
bool origin_receives_a_failed_batch() {
  Timeline timeline(1);
  const InterruptedClock clock(timeline);
  const auto origin = std::make_shared<origins::InProcessOrigin>(timeline);
  constexpr uint64_t kSeed = 1;
  const auto engine =
      decide::Engine::make(clock, {.origin = origin, .capacity = 16, .seed = kSeed});
  Request first{.ns = "mutation", .identifier = "a", .limit = 5, .duration = Millis(1000)};
  // Batches lock their tuples in the order of their keys.
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

// An older row of our region arrives after a newer one, as from a full read. Returns whether the
// process forgets that the newer count is published.
bool an_older_own_row_lowers_the_count() {
  global::SharedWindow window;
  window.raise_published(5);
  window.raise_published(3);
  return window.published != 5;
}

// A tuple becomes due again while it is published. Returns whether that is forgotten.
bool a_tuple_that_is_due_again_is_forgotten() {
  const doubles::ManualClock clock;
  origins::InProcessOrigin origin(clock);
  BridgeStore& store = *origin.bridge_store();
  const WallTime now = clock.now().wall;
  const auto read = [&] {
    std::vector<DueTuple> due;
    store.read_due({}, now, 10,
                   [&](const Result<std::vector<DueTuple>>& entries) { due = entries.value(); });
    return due;
  };
  const DueTuple due{.tuple = "a", .kind = Due::kRule, .at = now};
  store.add_due({due});
  const std::vector<DueTuple> publishes = read();
  store.add_due({due});
  store.remove_due(publishes);
  return read().empty();
}

// A namespace has many denied tuples, another one a tuple that the rule wants published. Returns
// whether that waits for all the others.
bool denials_delay_another_namespace() {
  const MonoTime now{Millis(1'000'000)};
  const base::KeyedHash hash(1);
  const auto due = [&](std::string_view ns, std::string_view identifier, Due kind) {
    const Request request{.ns = ns, .identifier = identifier, .limit = 9, .duration = Millis(1000)};
    return DueTuple{.tuple = memory::TupleKey(request, hash).encoded(), .kind = kind, .at = {}};
  };
  global::DueBacklog backlog;
  constexpr int kDenied = 100;
  for (int i = 0; i < kDenied; ++i) {
    backlog.add(due("greedy", std::to_string(i), Due::kNow), now);
  }
  const DueTuple other = due("modest", "a", Due::kRule);
  backlog.add(other, now);
  for (int i = 0; i < 2; ++i) {
    if (backlog.take(now)->due.tuple == other.tuple) return false;
  }
  return true;
}

// Two regions on one ledger, with time moved by hand.
class TwoRegions {
 public:
  std::shared_ptr<decide::Engine> make(const char* region, uint64_t seed,
                                       std::shared_ptr<RegionalOrigin> origin = nullptr) {
    return decide::Engine::make(clock, {.origin = std::move(origin),
                                        .ledger = store->another_client(),
                                        .region = region,
                                        .capacity = 16,
                                        .seed = seed});
  }
  void pass(Millis time, std::initializer_list<decide::Engine*> engines) {
    for (Millis passed{0}; passed < time; passed += Millis(10)) {
      clock.advance(Millis(10));
      for (decide::Engine* const each : engines) {
        each->run_replay(clock.now(), executor, Flush::kDue);
        each->run_sync(clock.now());
      }
      executor.run();
    }
  }
  static Request request(std::string_view identifier, Count cost) {
    return {.ns = "mutation",
            .identifier = identifier,
            .limit = 100,
            .duration = kMaxDuration,
            .cost = cost};
  }
  void admit(decide::Engine& engine, std::string_view identifier, Count cost) {
    bool admitted = false;
    engine.check_async(clock.now(), request(identifier, cost), executor,
                       [&](const Result<Verdict>& verdict) { admitted = verdict->admitted(); });
    executor.run();
    EXPECT_TRUE(admitted);
  }
  [[nodiscard]] Count row(std::string_view region, std::string_view identifier) const {
    for (const LedgerRow& row : store->contents()) {
      if (row.region == region && row.key.identifier == identifier) return row.count;
    }
    return 0;
  }

  doubles::ManualClock clock;
  doubles::ManualExecutor executor{clock};
  const std::shared_ptr<ledgers::MemoryLedger> store =
      std::make_shared<ledgers::MemoryLedger>(clock);
};

// A client of the ledger locks a row, so a count waits for seconds while heartbeats succeed.
// Returns whether the other region exports the bound of the rule all the same.
bool another_region_ignores_a_row_that_waits() {
  TwoRegions regions;
  const auto faulty = std::make_shared<doubles::FaultyLedger>(regions.store->another_client(), 1);
  const auto east = decide::Engine::make(
      regions.clock, {.ledger = faulty, .region = "east", .capacity = 16, .seed = 1});
  const auto west = regions.make("west", 2);
  regions.pass(Millis(25'000), {east.get(), west.get()});
  const double usual = west->sync_stats().bound;
  faulty->lock_rows_of("a");
  regions.admit(*east, "a", 60);
  regions.pass(Millis(8000), {east.get(), west.get()});
  return west->sync_stats().widest_bound() <= usual;
}

// One of two batches is missing when the other region reads the feed. Returns whether that region
// misses the count.
bool a_missing_batch_is_not_noticed() {
  TwoRegions regions;
  const auto east = regions.make("east", 1);
  const auto west = regions.make("west", 2);
  regions.pass(Millis(5000), {east.get(), west.get()});
  regions.admit(*west, "a", 1);
  FeedPosition first{};
  for (const char* const identifier : {"first", "a", "last"}) {
    regions.admit(*east, identifier, 60);
    regions.pass(Millis(500), {east.get()});
    if (first != FeedPosition{}) continue;
    regions.store->read_feeds({}, [&](const Result<FeedChanges>& feeds) {
      for (const RegionFeed& head : feeds->heads) {
        if (head.region == "east") first = head.at;
      }
    });
  }
  EXPECT_EQ(regions.row("east", "a"), 60U);
  const FeedPosition second{.epoch = first.epoch, .number = first.number + 1};
  regions.store->drop_batches("east", second, second);
  regions.pass(Millis(3000), {east.get(), west.get()});
  return west->check(regions.clock.now(), TwoRegions::request("a", 0))->evidence.foreign != 60;
}

// The origin refuses rows of another region for a while. Returns whether they are missing there
// afterwards.
bool rows_that_the_origin_refused_are_missing() {
  TwoRegions regions;
  const auto origin =
      std::make_shared<global::Endpoint>(std::make_shared<origins::InProcessOrigin>(regions.clock));
  const auto east = regions.make("east", 1, origin);
  const auto west = regions.make("west", 2);
  regions.pass(Millis(5000), {east.get(), west.get()});
  origin->accepts_updates = false;
  regions.admit(*west, "a", 60);
  regions.pass(Millis(1000), {east.get(), west.get()});
  origin->accepts_updates = true;
  regions.pass(Millis(3000), {east.get(), west.get()});
  Count foreign = 0;
  east->check_async(regions.clock.now(), TwoRegions::request("a", 0), regions.executor,
                    [&](const Result<Verdict>& verdict) { foreign = verdict->evidence.foreign; });
  regions.executor.run();
  return foreign != 60;
}

// A process ends after it has replayed a count that need not be published. Then the other region
// uses most of the limit. Returns whether nobody publishes the count.
bool a_count_that_nobody_holds_is_not_published() {
  TwoRegions regions;
  const auto origin = std::make_shared<origins::InProcessOrigin>(regions.clock);
  const auto bridge = regions.make("east", 1, origin);
  const auto west = regions.make("west", 2);
  {
    const auto ends = regions.make("east", 3, origin);
    regions.pass(Millis(5000), {bridge.get(), west.get(), ends.get()});
    regions.admit(*ends, "a", 9);
    regions.pass(Millis(1000), {bridge.get(), west.get(), ends.get()});
  }
  EXPECT_EQ(regions.row("east", "a"), 0U);
  regions.admit(*west, "a", 95);
  regions.pass(Millis(3000), {bridge.get(), west.get()});
  return regions.row("east", "a") != 9;
}

// The bridge ends and the origin loses the entry of a denied tuple before it was published. Returns
// whether the process that denied does not ask again.
bool a_denial_that_was_not_published_is_forgotten() {
  TwoRegions regions;
  const auto origin = std::make_shared<origins::InProcessOrigin>(regions.clock);
  const auto ledger = std::make_shared<doubles::FaultyLedger>(regions.store->another_client(), 1);
  auto bridge = decide::Engine::make(
      regions.clock,
      {.origin = origin, .ledger = ledger, .region = "east", .capacity = 16, .seed = 1});
  regions.pass(Millis(1000), {bridge.get()});
  const auto east = regions.make("east", 2, origin);
  const auto west = regions.make("west", 3);
  regions.pass(Millis(5000), {bridge.get(), east.get(), west.get()});
  // Present and alone, it need not publish more, until a request is denied.
  for (const Count cost : {26, 74}) {
    regions.admit(*east, "a", cost);
    regions.pass(Millis(1000), {bridge.get(), east.get(), west.get()});
  }
  EXPECT_EQ(regions.row("east", "a"), 26U);
  ledger->lock_rows_of("a");
  EXPECT_FALSE(east->check(regions.clock.now(), TwoRegions::request("a", 1))->admitted());
  regions.pass(Millis(300), {bridge.get(), east.get(), west.get()});
  bridge.reset();
  BridgeStore& store = *origin->bridge_store();
  store.read_due(WallTime{}, WallTime::max(), 10, [&](const Result<std::vector<DueTuple>>& due) {
    EXPECT_EQ(due->size(), 1U);
    store.remove_due(*due);
  });
  regions.pass(Millis(5000), {east.get(), west.get()});
  return regions.row("east", "a") != 100;
}

// The only process of a region, which knows that: it has allowances.
class LoneMember final : public doubles::ForwardingOrigin {
 public:
  explicit LoneMember(const Clock& clock)
      : ForwardingOrigin(std::make_shared<origins::InProcessOrigin>(clock)), clock_(clock) {}
  [[nodiscard]] std::optional<Membership> membership() const override {
    return Membership{.since = since_, .heard_at = clock_.now().mono};
  }

 private:
  const Clock& clock_;
  const MonoTime since_ = clock_.now().mono;
};

// Two regions with an origin each, and a tuple whose state the origins keep.
class TwoStates : public TwoRegions {
 public:
  static constexpr Millis kDrains{600'000};

  explicit TwoStates(Algorithm algorithm = Algorithm::kGcra, Count limit = 100)
      : algorithm_(algorithm), limit_(limit) {
    pass(Millis(8000));
  }
  void pass(Millis time) { TwoRegions::pass(time, {east.get(), west.get()}); }
  Verdict ask(decide::Engine& engine, Count cost) {
    Verdict verdict;
    engine.check_async(clock.now(),
                       {.ns = "mutation",
                        .identifier = "state",
                        .limit = limit_,
                        .duration = kDrains,
                        .cost = cost,
                        .algorithm = algorithm_},
                       executor, [&](const Result<Verdict>& received) { verdict = *received; });
    executor.run();
    return verdict;
  }
  [[nodiscard]] Count left(decide::Engine& engine) { return ask(engine, 0).remaining; }
  // The row that counts the state for the other regions.
  [[nodiscard]] std::optional<LedgerRow> usage_row(std::string_view region) const {
    for (const LedgerRow& row : store->contents()) {
      if (row.region == region && row.key.identifier.starts_with("state\x1f")) return row;
    }
    return std::nullopt;
  }

  const std::shared_ptr<decide::Engine> east = make("east", 1, std::make_shared<LoneMember>(clock));
  const std::shared_ptr<decide::Engine> west = make("west", 2, std::make_shared<LoneMember>(clock));

 private:
  const Algorithm algorithm_;
  const Count limit_;
};

// A process admits by its allowance more than a region may keep for itself. Returns whether the
// other region hears nothing of it.
bool admissions_by_allowance_are_not_published() {
  TwoStates regions(Algorithm::kGcra, 1000);
  EXPECT_TRUE(regions.ask(*regions.east, 1).admitted());
  Count alone = 0;
  for (int i = 0; i < 60; ++i) {
    for (int k = 0; k < 5; ++k) {
      alone += regions.ask(*regions.east, 1).basis == Basis::kLocal ? 1 : 0;
    }
    regions.pass(Millis(50));
  }
  EXPECT_GT(alone, 280U);
  regions.pass(Millis(2000));
  return !regions.usage_row("east");
}

// A region admits most of a burst, and the other begins when half of it has drained. Returns
// whether it has a whole burst.
bool usage_is_forgotten_while_it_counts() {
  TwoStates regions;
  EXPECT_TRUE(regions.ask(*regions.east, 90).admitted());
  regions.pass(TwoStates::kDrains / 3);
  (void)regions.ask(*regions.west, 1);
  regions.pass(Millis(1000));
  return regions.left(*regions.west) > 70;
}

// Returns whether the lease in the row of a usage tuple ends within a window.
bool a_lease_on_usage_ends_within_a_window() {
  TwoStates regions;
  EXPECT_TRUE(regions.ask(*regions.east, 60).admitted());
  regions.pass(Millis(2000));
  const auto row = regions.usage_row("east");
  EXPECT_TRUE(row);
  return row && row->leased_until.time_since_epoch() % row->key.duration != Millis(0);
}

// What a process told late does not fit any more. Returns whether it is not charged.
bool what_is_told_late_is_lost() {
  for (const Algorithm algorithm : {Algorithm::kGcra, Algorithm::kTokenBucket,
                                    Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog}) {
    const doubles::ManualClock clock;
    origins::InProcessOrigin origin(clock);
    uint64_t number = 0;
    const auto left = [&](uint64_t writer, Count own, Count capacity) {
      ExactCall call{.tuple = "tuple",
                     .algorithm = algorithm,
                     .limit = 10,
                     .duration = Millis(60'000),
                     .writer = {.incarnation = writer},
                     .number = ++number,
                     .own = own,
                     .asks = {{.cost = 0, .capacity = capacity}}};
      Count remaining = 0;
      origin.decide({call}, [&](const auto& answers) {
        remaining = answers->at(0).decisions.at(0).remaining;
      });
      return remaining;
    };
    for (const uint64_t writer : {1, 2, 3}) (void)left(writer, 6, 10);
    (void)left(1, 9, 10);
    if (left(4, 0, 100) != 100 - (6 + 6 + 6 + 3)) return true;
  }
  return false;
}

// Three regions admit a burst before they know of each other, again and again. Returns whether they
// admit more than drains.
bool bursts_of_all_regions_are_forgotten() {
  TwoStates regions;
  const auto north = regions.make("north", 3, std::make_shared<LoneMember>(regions.clock));
  const auto pass = [&](Millis time) {
    regions.TwoRegions::pass(time, {regions.east.get(), regions.west.get(), north.get()});
  };
  pass(Millis(10'000));
  Count admitted = 0;
  constexpr int kBursts = 5;
  for (int i = 0; i < kBursts; ++i) {
    for (decide::Engine* const each : {regions.east.get(), regions.west.get(), north.get()}) {
      if (regions.ask(*each, 100).admitted()) admitted += 100;
    }
    pass(Millis(3000));
    regions.clock.advance(2 * TwoStates::kDrains);
    pass(Millis(1000));
  }
  // The first burst of each region, what drains, and one that nobody could know.
  return admitted > 300 + 2 * (kBursts - 1) * 100 + 200;
}

// A region admits most of a limit at the end of a window of the usage tuple, and the other begins
// in the next. Returns whether it has more than the rest.
bool a_new_state_ignores_the_last_usage_window() {
  for (const Algorithm algorithm : {Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog}) {
    TwoStates regions(algorithm);
    const Millis width = memory::usage_width(TwoStates::kDrains);
    const Millis into = regions.clock.now().wall.time_since_epoch() % width;
    regions.clock.advance(width - into - Millis(30'000));
    regions.pass(Millis(5000));
    EXPECT_TRUE(regions.ask(*regions.east, 90).admitted());
    regions.pass(Millis(2000));
    EXPECT_TRUE(regions.usage_row("east"));
    regions.clock.advance(Millis(30'000));
    regions.pass(Millis(1000));
    (void)regions.ask(*regions.west, 1);
    regions.pass(Millis(1000));
    if (regions.left(*regions.west) > 10) return true;
  }
  return false;
}

// A process whose clock is ahead admits most of a limit when the window has not begun for the
// bridge. Returns whether the lease in its row is shorter than any other.
bool a_lease_on_the_next_window_is_short() {
  TwoRegions regions;
  constexpr Millis kLease = SyncRules{}.lease;
  doubles::ManualClock ahead;
  ahead.step_wall(Millis(2000));
  const auto origin = std::make_shared<origins::InProcessOrigin>(regions.clock);
  const auto bridge = regions.make("east", 1, origin);
  const auto west = regions.make("west", 2);
  regions.pass(Millis(5000), {bridge.get(), west.get()});
  regions.clock.advance(kLease - Millis(12'000));
  regions.pass(Millis(6000), {bridge.get(), west.get()});
  ahead.advance(kLease - Millis(1000));
  const auto east = decide::Engine::make(ahead, {.origin = origin->another_endpoint(),
                                                 .ledger = regions.store->another_client(),
                                                 .region = "east",
                                                 .capacity = 16,
                                                 .seed = 3});
  Request request = TwoRegions::request("a", 60);
  request.duration = kLease;
  east->check_async(ahead.now(), request, regions.executor,
                    [](const Result<Verdict>& verdict) { EXPECT_TRUE(verdict->admitted()); });
  regions.executor.run();
  regions.pass(Millis(600), {bridge.get()});
  const int64_t next = ahead.now().wall.time_since_epoch() / kLease;
  for (const LedgerRow& row : regions.store->contents()) {
    if (row.region != "east" || row.key.identifier != "a" || row.sequence != next) continue;
    return row.leased_until <= WallTime(next * kLease) + kLease;
  }
  ADD_FAILURE() << "the bridge has published nothing";
  return false;
}

// A duration is changed, and what counts by the former one is taken over, twice. Returns whether it
// is charged twice.
bool a_repeated_takeover_charges_again() {
  doubles::ManualClock clock;
  const auto engine = decide::Engine::make(clock, {.capacity = 16, .seed = 1});
  Request request{.ns = "mutation",
                  .identifier = "a",
                  .limit = 16,
                  .duration = Millis(16'000),
                  .cost = 6,
                  .algorithm = Algorithm::kFixedWindow};
  EXPECT_TRUE(engine->check(clock.now(), request)->admitted());
  const PastDurations past{
      .changed = clock.now().wall, .count = 1, .durations = {request.duration}};
  request.duration = Millis(160'000);
  request.cost = 1;
  request.past = &past;
  EXPECT_EQ(engine->check(clock.now(), request)->remaining, 9U);
  clock.advance(Millis(2500));
  return engine->check(clock.now(), request)->remaining != 8;
}

struct Interleaving {
  Mutation mutation = Mutation::kNone;
  std::string_view name = {};
  bool (*breaks)() = nullptr;
};
void PrintTo(const Interleaving& interleaving, std::ostream* out) {
  *out << interleaving.name;
}

const std::vector<Interleaving>& interleavings() {
  static const std::vector<Interleaving> kInterleavings = {
      {Mutation::kTatMergedByMax, "TatMergedByMax", two_threads_exceed_a_burst},
      {Mutation::kTentativeAcked, "TentativeAcked", origin_receives_a_failed_batch},
      {Mutation::kOwnRowReplaces, "OwnRowReplaces", an_older_own_row_lowers_the_count},
      {Mutation::kDueRemovedAlways, "DueRemovedAlways", a_tuple_that_is_due_again_is_forgotten},
      {Mutation::kBridgeCursorEarly, "BridgeCursorEarly", rows_that_the_origin_refused_are_missing},
      {Mutation::kFeedGapSkipped, "FeedGapSkipped", a_missing_batch_is_not_noticed},
      {Mutation::kUnheldNotEvaluated, "UnheldNotEvaluated",
       a_count_that_nobody_holds_is_not_published},
      {Mutation::kFailedRefusalForgotten, "FailedRefusalForgotten",
       a_denial_that_was_not_published_is_forgotten},
      {Mutation::kLateChargeClipped, "LateChargeClipped", what_is_told_late_is_lost},
      {Mutation::kUsageOfStepsOnly, "UsageOfStepsOnly", admissions_by_allowance_are_not_published},
      {Mutation::kUsageWindowShort, "UsageWindowShort", usage_is_forgotten_while_it_counts},
      {Mutation::kForeignCutToABurst, "ForeignCutToABurst", bursts_of_all_regions_are_forgotten},
      {Mutation::kLeaseWithinCell, "LeaseOnUsageWithinCell", a_lease_on_usage_ends_within_a_window},
      {Mutation::kContendedFirst, "ContendedFirst", denials_delay_another_namespace},
      {Mutation::kWaitingNotExported, "WaitingNotExported",
       another_region_ignores_a_row_that_waits},
      {Mutation::kConvertedFromOpen, "ConvertedFromOpen", a_conversion_tells_its_own_usage},
      {Mutation::kConvertedWithoutUnreported, "ConvertedWithoutUnreported",
       a_conversion_forgets_the_allowance},
      {Mutation::kTakenOverAgain, "TakenOverAgain", a_repeated_takeover_charges_again},
      {Mutation::kAnswerOfAnotherGeneration, "AnswerOfAnotherGeneration",
       an_answer_reaches_a_tuple_created_since},
      {Mutation::kStepForgetsSiblingsLast, "StepForgetsSiblingsLast",
       a_step_ignores_what_others_used_last},
      {Mutation::kUncertainIgnored, "UncertainIgnored", an_own_grant_counts_as_that_of_siblings},
      {Mutation::kReplayLowersGrant, "ReplayLowersGrant", a_replay_takes_back_a_grant},
      {Mutation::kLateForgetsOwnLast, "LateForgetsOwnLast",
       a_late_answer_forgets_the_own_last_window},
      {Mutation::kFirstChargeWithoutLast, "FirstChargeWithoutLast",
       a_new_state_ignores_the_last_usage_window},
      {Mutation::kLeaseOfNextFromNow, "LeaseOfNextFromNow", a_lease_on_the_next_window_is_short}};
  return kInterleavings;
}

class MutantInterleaving : public ::testing::TestWithParam<Interleaving> {};

TEST_P(MutantInterleaving, BreaksOnlyWithTheMutant) {
  EXPECT_FALSE(GetParam().breaks());
  const Planted planted(GetParam().mutation);
  EXPECT_TRUE(GetParam().breaks());
}

INSTANTIATE_TEST_SUITE_P(Engine, MutantInterleaving, ::testing::ValuesIn(interleavings()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(MutableEngine, EveryMutationHasATest) {
  std::set<Mutation> tested;
  for (const Mutant& mutant : mutants()) tested.insert(mutant.mutation);
  for (const Interleaving& interleaving : interleavings()) tested.insert(interleaving.mutation);
  for (const Mutation mutation : schedule::kThreadMutations) tested.insert(mutation);
  for (const Mutation mutation : kBurstMutations) tested.insert(mutation);
  EXPECT_EQ(tested.count(Mutation::kNone), 0u);
  EXPECT_EQ(tested.size() + 1, static_cast<size_t>(Mutation::kCount));
}

TEST(MutableEngine, BreaksNothingWithoutAPlantedBug) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    for (const FaultMode faults : {FaultMode::kRandom, FaultMode::kNone}) {
      for (const WorldOptions& options :
           {WorldOptions{.seed = seed, .regions = 1, .faults = faults},
            WorldOptions{.seed = seed, .regions = 1, .faults = faults, .table = TableSize::kSmall},
            WorldOptions{.seed = seed, .regions = 3, .faults = faults}}) {
        const RunReport report = World(options).run();
        ASSERT_FALSE(report.broken) << describe(seed, report);
      }
    }
  }
}

}  // namespace
}  // namespace weir::sim
