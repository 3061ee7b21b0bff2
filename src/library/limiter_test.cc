// The public class: its factory, and the four ways to ask for a decision.

#include "weir/limiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <coroutine>
#include <optional>
#include <thread>
#include <vector>

#include "tests/doubles/scripted_origin.h"
#include "weir/testing.h"
#include "weir/weir.h"

namespace weir {
namespace {

using test::ManualClock;
using test::ManualExecutor;

static_assert(sizeof(Request) == 104);

Request window_request(std::string_view identifier, Count limit = 10, Count cost = 1) {
  return {.ns = "api",
          .identifier = identifier,
          .limit = limit,
          .duration = kMaxDuration,  // no test sees its end
          .cost = cost,
          .algorithm = Algorithm::kFixedWindow};
}

// Answers each read with the same counts of other processes, on a thread of its own.
class RemoteOrigin final : public RegionalOrigin {
 public:
  explicit RemoteOrigin(Count siblings) : siblings_(siblings), thread_(system_clock()) {
    thread_.start();
  }
  void read(std::vector<CellRead> cells, OriginReply reply) override {
    thread_.post([this, count = cells.size(), reply = std::move(reply)] {
      reply(std::vector<CellTotals>(count, CellTotals{.siblings = siblings_}));
    });
  }
  void replay(std::vector<CellReplay> cells, OriginReply reply) override {
    thread_.post([cells = std::move(cells), reply = std::move(reply)] {
      std::vector<CellTotals> totals;
      for (const CellReplay& cell : cells) totals.push_back({.mine = cell.total});
      reply(std::move(totals));
    });
  }

 private:
  const Count siblings_;
  ThreadExecutor thread_;
};

Limiter limiter_with(std::shared_ptr<RegionalOrigin> origin, Millis deadline = Millis(5000)) {
  return Limiter::create(
             system_clock(),
             {.origin = std::move(origin), .read_deadline = deadline, .capacity = 1024, .seed = 1})
      .value();
}

std::string error_of(const Options& options) {
  const ManualClock clock;
  const auto limiter = Limiter::create(clock, options);
  if (limiter) return "";
  return limiter.error().field + "|" + limiter.error().detail + "|" + limiter.error().fix;
}

TEST(CreateLimiter, NamesTheOptionItsValueAndItsRange) {
  EXPECT_EQ(error_of({}), "");
  EXPECT_EQ(error_of({.read_deadline = Millis(10'001)}),
            "read_deadline|read_deadline is 10001 ms|choose a read_deadline from 1 to 10000 ms");
  EXPECT_EQ(error_of({.on_origin_loss = static_cast<OnOriginLoss>(7)}),
            "on_origin_loss|on_origin_loss is 7|choose a on_origin_loss from 0 to 2");
  EXPECT_EQ(error_of({.remote_tuples = (size_t{1} << 28) + 1}),
            "remote_tuples|remote_tuples is 268435457|choose a remote_tuples from 0 to 268435456");
  EXPECT_EQ(error_of({.capacity = 63}),
            "capacity|capacity is 63|choose a capacity from 64 to 268435456");
  EXPECT_EQ(error_of({.ledger = make_null_ledger(), .region = ""}),
            "region|region has 0 bytes|give it 1 to 64 bytes");
  EXPECT_EQ(
      error_of({.ledger = make_null_ledger(), .sync = {.rows_per_second = 0}}),
      "sync.rows_per_second|sync.rows_per_second is 0|choose a sync.rows_per_second from 1 to "
      "4294967295");
  EXPECT_EQ(
      error_of({.ledger = make_null_ledger(), .sync = {.policy = static_cast<PublishPolicy>(9)}}),
      "sync.policy|sync.policy is 9|choose a sync.policy from 0 to 1");
}

TEST(CreateLimiter, ReturnsAnErrorIfMemoryIsTooSmallForTheCapacity) {
  const ManualClock clock;
  const auto limiter = Limiter::create(clock, {.capacity = 1 << 20, .memory = 1 << 20});
  ASSERT_FALSE(limiter.ok());
  EXPECT_EQ(limiter.error().field, "memory");
}

TEST(CreateLimiter, ReportsTheCapacityThatTheOptionsImply) {
  const ManualClock clock;
  EXPECT_EQ(Limiter::create(clock)->capacity(), size_t{1} << 17);
  EXPECT_EQ(Limiter::create(clock, {.capacity = 1000})->capacity(), 1000u);
}

TEST(CreateLimiter, MovesALimiterWithItsCounts) {
  const ManualClock clock;
  Limiter first = Limiter::create(clock, {.capacity = 64}).value();
  EXPECT_EQ(first.check(window_request("alice", 10, 4))->remaining, 6u);
  Limiter second = std::move(first);
  EXPECT_EQ(second.check(window_request("alice", 10, 0))->remaining, 6u);
}

TEST(BlockingCheck, WaitsForTheOrigin) {
  Limiter limiter = limiter_with(std::make_shared<RemoteOrigin>(9));
  const auto first = limiter.check(window_request("alice"));
  EXPECT_TRUE(first->admitted());
  EXPECT_EQ(first->basis, Basis::kRefreshed);
  EXPECT_EQ(first->evidence.siblings, 9u);
  EXPECT_FALSE(limiter.check(window_request("alice"))->admitted());
}

TEST(BlockingCheck, DecidesOnMemoryWhenTheDeadlinePasses) {
  const auto silent = std::make_shared<doubles::ScriptedOrigin>();
  Limiter limiter = limiter_with(silent, Millis(20));
  const MonoTime began = system_clock().now().mono;
  const auto verdict = limiter.check(window_request("alice"));
  EXPECT_GE(system_clock().now().mono - began, Millis(20));
  EXPECT_TRUE(verdict->admitted());
  EXPECT_EQ(verdict->basis, Basis::kDegraded);
  EXPECT_EQ(limiter.stats().admitted, 1u);
}

TEST(BlockingCheck, EndsAtItsDeadlineIfAnotherExecutorOwnsTheReadAndIsStuck) {
  const auto silent = std::make_shared<doubles::ScriptedOrigin>();
  Limiter limiter = limiter_with(silent, Millis(20));
  ManualClock unused;
  ManualExecutor stuck(unused);
  bool called = false;
  const Completion completion = limiter.check_async(system_clock().now(), window_request("alice"),
                                                    stuck, [&](Result<Verdict>) { called = true; });
  EXPECT_EQ(completion, Completion::kPending);
  // Joins the read that `stuck` would end.
  EXPECT_EQ(limiter.check(window_request("alice"))->basis, Basis::kDegraded);
  const Request both[] = {window_request("alice"), window_request("bob")};
  std::vector<Result<Verdict>> verdicts(2);
  limiter.check_each(system_clock().now(), both, verdicts);
  EXPECT_TRUE(verdicts[0]->admitted());
  EXPECT_TRUE(verdicts[1]->admitted());
  EXPECT_EQ(limiter.check_all(both)->items[0].basis, Basis::kDegraded);
  EXPECT_EQ(limiter.stats().admitted, 5u);
  EXPECT_FALSE(called);
  silent->answer_read({});
  stuck.run();
  EXPECT_TRUE(called);
}

TEST(BlockingCheck, DecidesEachRequestOfAGroup) {
  Limiter limiter = limiter_with(std::make_shared<RemoteOrigin>(9));
  const Request requests[] = {window_request("alice"), window_request("bob", 0),
                              window_request("carol"), window_request("alice")};
  std::vector<Result<Verdict>> verdicts(4);
  limiter.check_each(system_clock().now(), requests, verdicts);
  EXPECT_TRUE(verdicts[0]->admitted());
  EXPECT_EQ(verdicts[1].error().field, "limit");
  EXPECT_TRUE(verdicts[2]->admitted());
  EXPECT_FALSE(verdicts[3]->admitted());
}

TEST(BlockingCheck, AdmitsABatchAsAWholeOrNotAtAll) {
  Limiter limiter = limiter_with(std::make_shared<RemoteOrigin>(9));
  const Request first[] = {window_request("alice"), window_request("bob", 9)};
  EXPECT_FALSE(limiter.check_all(first)->admitted());
  const Request second[] = {window_request("alice"), window_request("bob")};
  const auto verdict = limiter.check_all(second);
  EXPECT_TRUE(verdict->admitted());
  EXPECT_EQ(verdict->items[0].evidence.siblings, 9u);
}

TEST(BlockingCheck, IsSafeFromManyThreads) {
  Limiter limiter = limiter_with(std::make_shared<RemoteOrigin>(60));
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) {
        admitted += limiter.check(window_request("alice", 100))->admitted() ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admitted, 40);
}

TEST(LocalCheck, NeverReadsTheOrigin) {
  const auto origin = std::make_shared<doubles::ScriptedOrigin>();
  Limiter limiter = limiter_with(origin);
  const auto verdict = limiter.check_local(window_request("alice"));
  EXPECT_TRUE(verdict->admitted());
  EXPECT_EQ(verdict->basis, Basis::kDegraded);
  const Request requests[] = {window_request("alice")};
  std::vector<Result<Verdict>> verdicts(1);
  limiter.check_each_local(system_clock().now(), requests, verdicts);
  EXPECT_EQ(verdicts[0]->basis, Basis::kDegraded);
  EXPECT_EQ(limiter.check_all_local(requests)->items[0].basis, Basis::kDegraded);
  EXPECT_TRUE(origin->reads.empty());
  EXPECT_EQ(limiter.stats().admitted, 3u);
}

TEST(EveryCheckEach, ReportsAnErrorIfTheSizesDiffer) {
  const ManualClock clock;
  ManualExecutor home(clock);
  const Request requests[] = {window_request("alice"), window_request("bob")};
  for (const bool with_origin : {false, true}) {
    Limiter limiter =
        Limiter::create(clock, {.origin = with_origin ? make_in_process_origin(clock) : nullptr,
                                .capacity = 64})
            .value();
    for (const size_t size : {size_t{1}, size_t{3}}) {
      std::vector<Result<Verdict>> verdicts(size);
      const auto expect_errors = [&] {
        for (Result<Verdict>& verdict : verdicts) {
          ASSERT_FALSE(verdict.ok());
          EXPECT_EQ(verdict.error().field, "verdicts");
          verdict = Verdict{};
        }
      };
      limiter.check_each(clock.now(), requests, verdicts);
      expect_errors();
      limiter.check_each_local(clock.now(), requests, verdicts);
      expect_errors();
      bool called = false;
      EXPECT_EQ(
          limiter.check_each_async(clock.now(), requests, verdicts, home, [&] { called = true; }),
          Completion::kImmediate);
      EXPECT_TRUE(called);
      expect_errors();
    }
    EXPECT_EQ(limiter.stats().admitted, 0u);
  }
}

class AsyncCheck : public ::testing::Test {
 public:
  ManualClock clock_;
  ManualExecutor home_{clock_};
  std::shared_ptr<doubles::ScriptedOrigin> origin_ = std::make_shared<doubles::ScriptedOrigin>();
  Limiter limiter_ =
      Limiter::create(clock_, {.origin = origin_, .capacity = 1024, .seed = 1}).value();
};

TEST_F(AsyncCheck, CallsAMoveOnlyHandlerOnceOnTheExecutor) {
  int calls = 0;
  Basis basis{};
  const Completion completion =
      limiter_.check_async(clock_.now(), window_request("alice"), home_,
                           [&, owned = std::make_unique<int>(1)](Result<Verdict> verdict) {
                             calls += *owned;
                             basis = verdict->basis;
                           });
  EXPECT_EQ(completion, Completion::kPending);
  EXPECT_EQ(calls, 0);
  origin_->answer_read({});
  EXPECT_EQ(calls, 0);
  home_.run();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(basis, Basis::kRefreshed);
}

TEST_F(AsyncCheck, CallsTheHandlerBeforeItReturnsIfNothingMustBeRead) {
  Request request = window_request("alice");
  request.algorithm = Algorithm::kGcra;
  int calls = 0;
  EXPECT_EQ(limiter_.check_async(clock_.now(), request, home_, [&](auto) { ++calls; }),
            Completion::kImmediate);
  std::vector<Result<Verdict>> verdicts(1);
  EXPECT_EQ(limiter_.check_each_async(clock_.now(), std::span(&request, 1), verdicts, home_,
                                      [&] { ++calls; }),
            Completion::kImmediate);
  EXPECT_EQ(
      limiter_.check_all_async(clock_.now(), std::span(&request, 1), home_, [&](auto) { ++calls; }),
      Completion::kImmediate);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(
      limiter_.check_async(clock_.now(), window_request("", 1), home_, [&](auto) { ++calls; }),
      Completion::kImmediate);
  EXPECT_EQ(calls, 4);
}

// The smallest coroutine type: starts at once, and destroys itself at its end.
struct Coroutine {
  struct promise_type {
    Coroutine get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
};

TEST_F(AsyncCheck, ResumesACoroutineOnTheExecutor) {
  std::optional<Result<Verdict>> got;
  [](AsyncCheck& test, auto& result) -> Coroutine {
    result =
        co_await test.limiter_.co_check(test.clock_.now(), window_request("alice"), test.home_);
  }(*this, got);
  EXPECT_FALSE(got.has_value());
  origin_->answer_read({.siblings = 9});
  home_.run();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ((*got)->evidence.siblings, 9u);
}

TEST_F(AsyncCheck, AwaitsManyDecisionsWithoutGrowingTheStack) {
  int admitted = 0;
  [](AsyncCheck& test, int& count) -> Coroutine {
    Request request = window_request("alice", 100'000);
    request.algorithm = Algorithm::kGcra;
    for (int i = 0; i < 100'000; ++i) {
      const auto verdict = co_await test.limiter_.co_check(test.clock_.now(), request, test.home_);
      count += verdict->admitted() ? 1 : 0;
    }
  }(*this, admitted);
  EXPECT_EQ(admitted, 100'000);
}

TEST_F(AsyncCheck, AwaitsGroupsAndBatches) {
  int admitted = 0;
  bool all = false;
  [](AsyncCheck& test, int& count, bool& batch) -> Coroutine {
    const Request requests[] = {window_request("alice"), window_request("bob")};
    std::vector<Result<Verdict>> verdicts(2);
    for (const auto& verdict :
         co_await test.limiter_.co_check_each(test.clock_.now(), requests, verdicts, test.home_)) {
      count += verdict->admitted() ? 1 : 0;
    }
    const auto verdict =
        co_await test.limiter_.co_check_all(test.clock_.now(), requests, test.home_);
    batch = verdict->admitted();
  }(*this, admitted, all);
  while (!origin_->reads.empty()) {
    origin_->answer_read({});
    home_.run();
  }
  EXPECT_EQ(admitted, 2);
  EXPECT_TRUE(all);
}

TEST(Coroutines, ResumeOnTheThreadOfTheExecutor) {
  Limiter limiter = limiter_with(std::make_shared<RemoteOrigin>(0));
  ThreadExecutor home(system_clock());
  home.start();
  std::atomic<int> done{0};
  for (int i = 0; i < 200; ++i) {
    [](Limiter& asked, Executor& where, int number, std::atomic<int>& count) -> Coroutine {
      const std::string name = std::to_string(number);
      const auto verdict =
          co_await asked.co_check(system_clock().now(), window_request(name), where);
      count += verdict->admitted() ? 1 : 0;
    }(limiter, home, i, done);
  }
  while (done < 200) std::this_thread::yield();
  home.stop();
}

TEST(SystemTime, ConvertsToAndFromTheStandardLibrary) {
  using std::chrono::system_clock;
  const WallTime time(Millis(1'700'000'000'123));
  EXPECT_EQ(to_system_time(time).time_since_epoch(), Millis(1'700'000'000'123));
  EXPECT_EQ(from_system_time(to_system_time(time)), time);
  const system_clock::time_point finer(
      std::chrono::duration_cast<system_clock::duration>(Nanos(1'700'000'000'123'999'999)));
  EXPECT_EQ(from_system_time(finer), time);
  const system_clock::time_point before_epoch(std::chrono::microseconds(-1));
  EXPECT_EQ(from_system_time(before_epoch), WallTime(Millis(-1)));
}

TEST(Version, IsTextAndNumbers) {
  const std::string text = std::to_string(WEIR_VERSION_MAJOR) + "." +
                           std::to_string(WEIR_VERSION_MINOR) + "." +
                           std::to_string(WEIR_VERSION_PATCH);
  EXPECT_EQ(text, WEIR_VERSION);
  EXPECT_EQ(WEIR_VERSION_NUMBER,
            WEIR_VERSION_MAJOR * 10000 + WEIR_VERSION_MINOR * 100 + WEIR_VERSION_PATCH);
}

TEST(Limiter, AdmitsExactlyTheLimitOnManyThreadsInEveryAlgorithm) {
  constexpr int kThreads = 4;
  constexpr int kRequests = 20;  // of each thread on each limiter
  constexpr Count kLimit = 50;
  const auto origin = make_in_process_origin(system_clock());
  std::vector<Limiter> limiters;
  for (const uint64_t seed : {1, 2}) {
    limiters.push_back(Limiter::create(system_clock(), {.origin = origin,
                                                        .consistency = Consistency::kExact,
                                                        .read_deadline = Millis(10'000),
                                                        .capacity = 1024,
                                                        .seed = seed})
                           .value());
  }
  for (int algorithm = 0; algorithm < kAlgorithmCount; ++algorithm) {
    Request request = window_request("threads", kLimit);
    request.algorithm = static_cast<Algorithm>(algorithm);
    request.ns = to_string(request.algorithm);
    std::atomic<Count> admitted{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int each = 0; each < kRequests; ++each) {
          for (Limiter& limiter : limiters) {
            const auto verdict = limiter.check(request);
            if (verdict->admitted()) admitted.fetch_add(1);
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(admitted, kLimit) << request.ns;
  }
}

}  // namespace
}  // namespace weir
