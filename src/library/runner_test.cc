#include "weir/runner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "weir/testing.h"

namespace weir {
namespace {

Request request(Count cost) {
  return {.ns = "api",
          .identifier = "alice",
          .limit = 100,
          .duration = kMaxDuration,  // no test sees its end
          .cost = cost,
          .algorithm = Algorithm::kFixedWindow};
}

// Waits at most so long that a slow machine passes.
void wait_for(const std::function<bool()>& condition) {
  const MonoTime deadline = system_clock().now().mono + std::chrono::seconds(20);
  while (!condition()) {
    ASSERT_LT(system_clock().now().mono, deadline);
    std::this_thread::sleep_for(Millis(1));
  }
}

TEST(Runner, SharesCountsBetweenTheProcessesOfARegion) {
  const Clock& clock = system_clock();
  const auto origin = make_in_process_origin(clock);
  const Options options{.origin = origin, .max_freshness = Millis(10), .capacity = 1024};
  Limiter first = Limiter::create(clock, options).value();
  Limiter second = Limiter::create(clock, options).value();
  Runner runner(clock, first);
  runner.start();
  EXPECT_TRUE(first.check(request(30))->admitted());
  wait_for([&] { return second.check(request(0))->evidence.siblings == 30; });
}

TEST(Runner, SharesCountsBetweenRegions) {
  const Clock& clock = system_clock();
  const test::MemoryLedgerStore store(clock);
  const auto limiter = [&](const std::string& region) {
    return Limiter::create(clock,
                           {.ledger = store.connect(),
                            .region = region,
                            .sync = {.publish_every = Millis(10), .import_every = Millis(10)},
                            .capacity = 1024})
        .value();
  };
  Limiter east = limiter("east");
  Limiter west = limiter("west");
  Runner runs_east(clock, east);
  Runner runs_west(clock, west);
  runs_east.start();
  runs_west.start();
  wait_for([&] { return east.sync_stats().ready && west.sync_stats().ready; });
  wait_for([&] { return east.sync_stats().regions == 2; });
  EXPECT_TRUE(west.check(request(1))->admitted());
  EXPECT_TRUE(east.check(request(90))->admitted());
  wait_for([&] { return west.check(request(0))->evidence.foreign == 90; });
}

TEST(Runner, SweepsExpiredTuples) {
  const Clock& clock = system_clock();
  Limiter limiter = Limiter::create(clock, {.capacity = 64}).value();
  Runner runner(clock, limiter, {.sweep_every = Millis(1), .sweep_round = Millis(5)});
  runner.start();
  Request short_lived = request(1);
  short_lived.duration = kMinDuration;
  EXPECT_TRUE(limiter.check(short_lived)->admitted());
  wait_for([&] { return limiter.stats().expired == 1; });
}

TEST(Runner, CallsTheHooksAfterEachIteration) {
  const Clock& clock = system_clock();
  std::atomic<int> replays{0};
  std::atomic<int> syncs{0};
  Limiter limiter = Limiter::create(clock, {.origin = make_in_process_origin(clock),
                                            .ledger = make_null_ledger(),
                                            .capacity = 64})
                        .value();
  Runner runner(clock, limiter,
                {.replay_every = Millis(0),
                 .sync_every = Millis(1),
                 .after_replay = [&](Instant) { ++replays; },
                 .after_sync = [&](Instant) { ++syncs; }});
  runner.start();
  wait_for([&] { return replays >= 3 && syncs >= 3; });
}

TEST(Drain, FlushesAllCounts) {
  const Clock& clock = system_clock();
  const auto origin = make_in_process_origin(clock);
  Limiter limiter =
      Limiter::create(clock, {.origin = origin, .replay_within = Millis(10'000), .capacity = 64})
          .value();
  Runner runner(clock, limiter);
  runner.start();
  EXPECT_TRUE(limiter.check(request(5))->admitted());
  const DrainReport report = runner.drain();
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(limiter.stats().unacked, 0u);
  Limiter other = Limiter::create(clock, {.origin = origin, .capacity = 64}).value();
  EXPECT_EQ(other.check(request(0))->evidence.siblings, 5u);
}

TEST(Drain, ReportsTheCountsThatItCouldNotFlush) {
  const Clock& clock = system_clock();
  const auto origin = std::make_shared<test::FaultyOrigin>(make_in_process_origin(clock), 1);
  Limiter limiter = Limiter::create(clock, {.origin = origin, .capacity = 64}).value();
  origin->plan.disconnect();
  EXPECT_TRUE(limiter.check(request(5))->admitted());
  Runner runner(clock, limiter);
  runner.start();
  const DrainReport report = runner.drain({.replay = Millis(50)});
  EXPECT_FALSE(report.complete());
  EXPECT_EQ(report.not_replayed, 1u);
  EXPECT_EQ(report.not_retired, 0u);
}

TEST(Drain, BeforeStartFlushesAsAfterIt) {
  const Clock& clock = system_clock();
  const auto origin = make_in_process_origin(clock);
  Limiter first = Limiter::create(clock, {.origin = origin, .capacity = 1024}).value();
  Limiter second = Limiter::create(clock, {.origin = origin, .capacity = 1024}).value();
  EXPECT_TRUE(first.check(request(30))->admitted());
  Runner runner(clock, first);
  EXPECT_TRUE(runner.drain().complete());
  EXPECT_EQ(second.check(request(0))->evidence.siblings, 30u);
}

TEST(Drain, AfterStopReturnsTheLastReport) {
  const Clock& clock = system_clock();
  Limiter limiter =
      Limiter::create(clock, {.origin = make_in_process_origin(clock), .capacity = 1024}).value();
  Runner runner(clock, limiter);
  runner.start();
  EXPECT_TRUE(runner.drain().complete());
  runner.stop();
  EXPECT_TRUE(runner.drain().complete());
}

TEST(Drain, IsCompleteWithoutStores) {
  const test::ManualClock clock;
  Limiter limiter = Limiter::create(clock, {.capacity = 64}).value();
  Runner runner(clock, limiter);
  EXPECT_TRUE(runner.drain().complete());
  runner.start();
  EXPECT_TRUE(runner.drain().complete());
  runner.stop();
  runner.stop();
}

}  // namespace
}  // namespace weir
