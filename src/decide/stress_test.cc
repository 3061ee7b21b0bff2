// Many threads on a table that is far too small: tuples are created, expired, evicted, moved and
// counted in the sketch at the same time, and the limits hold.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "decide/all_algorithms_test.h"
#include "decide/engine.h"
#include "ledgers/memory_ledger.h"
#include "origins/in_process_origin.h"
#include "sim/random.h"
#include "tests/doubles/manual_clock.h"
#include "tests/doubles/ticking_clock.h"

namespace weir::decide {
namespace {

constexpr int kStressThreads = 4;
constexpr int kStressRequests = 8000;

template <typename Body>
void on_threads(const Body& body) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kStressThreads; ++t) threads.emplace_back([&body, t] { body(t); });
  for (auto& thread : threads) thread.join();
}

// Each round begins when the tuple has expired and another thread sweeps without pause; the sweep
// must not lose the admissions of the round.
TEST(Stress, DoesNotLoseAdmissionsDuringASweep) {
  constexpr int kRounds = 20'000;
  constexpr Millis kDuration{1000};
  for (const Algorithm algorithm : kAllAlgorithms) {
    const doubles::ManualClock clock;
    const auto engine = Engine::make(clock, {.capacity = 1, .seed = 1});
    const Request request{.ns = "api",
                          .identifier = "alice",
                          .limit = 1,
                          .duration = kDuration,
                          .algorithm = algorithm};
    const auto at_round = [&](int round) {
      Instant now = clock.now();
      now.wall += 2 * round * kDuration;
      now.mono += 2 * round * kDuration;
      return now;
    };
    std::atomic<int> round{0};
    std::thread sweeper([&] {
      for (int now = 0; now < kRounds; now = round.load(std::memory_order_relaxed)) {
        engine->run_sweep(at_round(now), 32);
      }
    });
    int admitted = 0;
    for (int i = 1; i <= kRounds; ++i) {
      round.store(i, std::memory_order_relaxed);
      for (int twice = 0; twice < 2; ++twice) {
        admitted += engine->check(at_round(i), request)->admitted();
      }
    }
    sweeper.join();
    EXPECT_EQ(admitted, kRounds) << to_string(algorithm);
  }
}

TEST(Stress, HoldsLimitsWhileTuplesAreCreatedExpiredAndRebuilt) {
  const doubles::TickingClock clock;
  const auto engine = Engine::make(clock, {.capacity = 64, .seed = 1});
  // The admissions of each hot tuple; its window is longer than the whole test.
  constexpr int64_t kLimit = 500;
  std::array<std::atomic<int64_t>, 6> admitted{};
  const auto hot = [&](size_t i) {
    const Request request{.ns = "hot",
                          .identifier = to_string(kAllAlgorithms[i]),
                          .limit = kLimit,
                          .duration = kMaxDuration,
                          .algorithm = kAllAlgorithms[i]};
    return engine->check(clock.now(), request)->admitted();
  };
  for (size_t i = 0; i < 6; ++i) admitted[i] += hot(i);  // created first, so that they have slots
  on_threads([&](int t) {
    sim::Random random(static_cast<uint64_t>(t));
    for (int n = 0; n < kStressRequests; ++n) {
      const auto i = static_cast<size_t>(random.between(0, 5));
      if (random.one_in(2)) {
        admitted[i] += hot(i);
        continue;
      }
      // Other tuples with short windows and changing limits: created, expired, rebuilt.
      const std::string name = "other-" + std::to_string(random.between(0, 500));
      const std::array<Request, 2> batch = {
          Request{.ns = "cold",
                  .identifier = name,
                  .limit = static_cast<Count>(random.between(1, 40)),
                  .duration = Millis(100),
                  .cost = static_cast<Count>(random.between(0, 2)),
                  .algorithm = kAllAlgorithms[i]},
          Request{.ns = "cold",
                  .identifier = "shared",
                  .limit = 1000,
                  .duration = Millis(200),
                  .algorithm = kAllAlgorithms[5 - i]}};
      if (random.one_in(3)) {
        ASSERT_TRUE(engine->check_all(clock.now(), batch).ok());
      } else {
        ASSERT_TRUE(engine->check(clock.now(), batch[0]).ok());
      }
      if (random.one_in(50)) engine->run_sweep(clock.now(), 20);
    }
  });
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(admitted[i].load(), kLimit) << to_string(kAllAlgorithms[i]);
  }
  const LimiterStats stats = engine->stats();
  EXPECT_GT(stats.expired, 0u);
  EXPECT_GT(stats.rebuilt, 0u);
}

TEST(Stress, LosesNothingBetweenEvictionAndReplay) {
  doubles::ManualClock clock;
  doubles::ManualExecutor executor{clock};
  auto origin = std::make_shared<origins::InProcessOrigin>(clock);
  const auto engine = Engine::make(
      clock, {.origin = origin, .replay_within = Millis(0), .capacity = 64, .seed = 1});
  // Tuples evict each other while one thread replays; in the end the origin has all accepted
  // counts.
  constexpr int kNames = 300;
  std::array<std::atomic<int64_t>, kNames> accepted{};
  std::atomic<int> running{kStressThreads - 1};
  const auto request_of = [](const std::string& name) {
    return Request{
        .ns = "cold", .identifier = name, .limit = 1'000'000, .duration = Millis(3'600'000)};
  };
  const auto ask = [&](size_t i) {
    const auto verdict = engine->check(clock.now(), request_of("s-" + std::to_string(i)));
    accepted[i] += verdict->admitted();
  };
  // As many as have slots, replayed: new tuples can evict these.
  for (size_t i = 0; i < 64; ++i) ask(i);
  engine->run_replay(clock.now(), executor);
  on_threads([&](int t) {
    if (t == 0) {
      while (running > 0) engine->run_replay(clock.now(), executor);
      return;
    }
    sim::Random random(static_cast<uint64_t>(t));
    for (int n = 0; n < kStressRequests; ++n) {
      ask(static_cast<size_t>(random.between(0, kNames - 1)));
    }
    --running;
  });
  const uint64_t sketched = engine->stats().sketched;
  for (int round = 0; round < 3; ++round) engine->run_replay(clock.now(), executor);
  // The counts still in the table, by component, and the origin's counts of the same.
  std::map<std::pair<CellId, Component>, Count> held;
  engine->inspect([&](const CellView& cell) {
    if (cell.own == 0) return;
    const Component mine{.incarnation = engine->incarnation(), .generation = cell.generation};
    held[{{cell.tuple, cell.sequence}, mine}] = cell.own;
  });
  Count total_accepted = 0;
  Count of_evicted = 0;
  const int64_t sequence = clock.now().wall.time_since_epoch() / Millis(3'600'000);
  for (size_t i = 0; i < kNames; ++i) {
    total_accepted += static_cast<Count>(accepted[i].load());
    const std::string name = "s-" + std::to_string(i);
    const CellId cell{memory::TupleKey(request_of(name), base::KeyedHash(0)).encoded(), sequence};
    for (const auto& [component, acked] : origin->components(cell)) {
      const auto found = held.find({cell, component});
      if (found == held.end()) {
        of_evicted += acked;
      } else {
        EXPECT_EQ(acked, found->second) << name;
      }
    }
  }
  Count of_held = 0;
  for (const auto& [cell, own] : held) of_held += own;
  // Every admission is in a live cell, in one that was replayed before its eviction, or in the
  // sketch.
  EXPECT_EQ(of_held + of_evicted + sketched, total_accepted);
  EXPECT_GT(of_held, 0u);
  EXPECT_GT(of_evicted, 0u);
  EXPECT_GT(engine->stats().evicted, 0u);
}

// The header allows it. Regression: concurrent runs sent tuples twice or never.
TEST(Stress, RunsReplayFromEveryThreadAtOnce) {
  const doubles::TickingClock clock;
  auto origin = std::make_shared<origins::InProcessOrigin>(clock);
  const auto engine = Engine::make(
      clock, {.origin = origin, .replay_within = Millis(1), .capacity = 2048, .seed = 1});
  constexpr int kNames = 1000;
  const auto request_of = [](const std::string& name) {
    return Request{.ns = "api",
                   .identifier = name,
                   .limit = 1'000'000,
                   .duration = kMaxDuration,
                   .algorithm = Algorithm::kFixedWindow};
  };
  const auto sequence = clock.now().wall.time_since_epoch() / kMaxDuration;
  std::atomic<Count> accepted{0};
  on_threads([&](int t) {
    doubles::ManualExecutor timers(clock);
    sim::Random random(static_cast<uint64_t>(t));
    for (int n = 0; n < kStressRequests; ++n) {
      const std::string name = "user-" + std::to_string(random.between(0, kNames - 1));
      accepted += engine->check(clock.now(), request_of(name))->admitted() ? 1U : 0U;
      if (n % 4 == 0) engine->run_replay(clock.now(), timers);
    }
  });
  doubles::ManualExecutor timers(clock);
  engine->run_replay(clock.now(), timers, Flush::kAll);
  Count acked = 0;
  for (int i = 0; i < kNames; ++i) {
    const std::string name = "user-" + std::to_string(i);
    const CellId cell{memory::TupleKey(request_of(name), base::KeyedHash(0)).encoded(), sequence};
    for (const auto& [component, count] : origin->components(cell)) acked += count;
  }
  EXPECT_EQ(acked, accepted.load());
  EXPECT_EQ(engine->stats().unacked, 0u);
  // A second shutdown retires nothing.
  std::atomic<size_t> left{0};
  on_threads([&](int) { left += engine->run_shutdown(clock.now()).done; });
  EXPECT_EQ(left.load(), size_t{kNames});
}

TEST(Stress, RunsSyncFromEveryThreadAtOnce) {
  const doubles::TickingClock clock;
  const auto ledger = std::make_shared<ledgers::MemoryLedger>(clock);
  const auto engine =
      Engine::make(clock, {.ledger = ledger,
                           .region = "east",
                           .sync = {.publish_every = Millis(1), .import_every = Millis(1)},
                           .capacity = 2048,
                           .seed = 1});
  std::atomic<Count> accepted{0};
  on_threads([&](int t) {
    sim::Random random(static_cast<uint64_t>(t));
    for (int n = 0; n < kStressRequests; ++n) {
      const std::string name = "user-" + std::to_string(random.between(0, 999));
      const Request request{.ns = "api",
                            .identifier = name,
                            .limit = 10,
                            .duration = kMaxDuration,
                            .algorithm = Algorithm::kFixedWindow};
      accepted += engine->check(clock.now(), request)->admitted() ? 1U : 0U;
      if (n % 4 == 0) engine->run_sync(clock.now());
    }
  });
  for (int round = 0; round < 3; ++round) engine->run_sync(clock.now(), Flush::kAll);
  Count acked = 0;
  for (const LedgerRow& row : ledger->contents()) acked += row.count;
  EXPECT_EQ(acked, accepted.load());
}

// Two regions, each with threads that send requests while another thread runs the sync. The
// published counts are the accepted ones, and once all are published both regions share one limit:
// alone, each would admit the whole limit.
TEST(Stress, RegionsSyncWhileTheyServeRequests) {
  const doubles::TickingClock clock;
  const auto ledger = std::make_shared<ledgers::MemoryLedger>(clock);
  std::vector<std::shared_ptr<Engine>> regions;
  for (const char* name : {"east", "west"}) {
    regions.push_back(
        Engine::make(clock, {.ledger = ledger->another_client(),
                             .region = name,
                             .sync = {.publish_every = Millis(5), .import_every = Millis(5)},
                             .capacity = 256,
                             .seed = regions.size() + 1}));
  }
  constexpr int64_t kLimit = 40'000;
  const Request request{.ns = "hot",
                        .identifier = "one",
                        .limit = kLimit,
                        .duration = kMaxDuration,
                        .algorithm = Algorithm::kFixedWindow};
  std::array<std::atomic<Count>, 2> admitted{};
  const auto share = [&](Flush flush) {
    for (const auto& region : regions) region->run_sync(clock.now(), flush);
  };
  const auto while_sync = [&](const auto& ask) {
    std::atomic<bool> done{false};
    std::thread sharer([&] {
      while (!done) share(Flush::kDue);
    });
    on_threads(ask);
    done = true;
    sharer.join();
    // Everything is published, and a later import has ended.
    for (int round = 0; round < 100; ++round) share(Flush::kAll);
  };
  const auto foreign = [&](size_t region) {
    Request peek = request;
    peek.cost = 0;
    return regions[region]->check(clock.now(), peek)->evidence.foreign;
  };
  const auto ask_some = [&](size_t region) {
    const std::array requests = {request, request, request};
    std::array<Result<Verdict>, 3> verdicts;
    for (int n = 0; n < kStressRequests / 4; ++n) {
      regions[region]->check_each(clock.now(), requests, verdicts);
      for (const auto& verdict : verdicts) admitted[region] += verdict->admitted() ? 1U : 0U;
      if (n % 16 != 0) continue;
      const auto batch = regions[region]->check_all(clock.now(), std::span(requests).first(2));
      if (batch->admitted()) admitted[region] += 2;
    }
  };
  share(Flush::kDue);
  // Less than the limit, in both regions at once.
  while_sync([&](int t) { ask_some(static_cast<size_t>(t) % 2); });
  EXPECT_LT(admitted[0] + admitted[1], Count{kLimit});
  EXPECT_EQ(foreign(0), admitted[1]);
  EXPECT_EQ(foreign(1), admitted[0]);
  // More than the limit, in one region.
  while_sync([&](int) {
    for (int more = 0; more < 3; ++more) ask_some(0);
  });
  EXPECT_EQ(admitted[0] + admitted[1], Count{kLimit});
  EXPECT_EQ(foreign(1), admitted[0]);
  const std::vector<LedgerRow> acked = ledger->contents();
  EXPECT_EQ(acked.size(), 2U);
  for (const LedgerRow& row : acked) {
    EXPECT_EQ(row.count, admitted[row.region == "east" ? 0 : 1]) << row.region;
  }
}

}  // namespace
}  // namespace weir::decide
