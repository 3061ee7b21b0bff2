// Replay to the origin: contents, retries, and the read-back.

#include "regional/replay.h"

#include <gtest/gtest.h>

#include "base/keyed_hash.h"
#include "decide/engine.h"
#include "memory/tuple_key.h"
#include "origins/in_process_origin.h"
#include "tests/doubles/forwarding_origin.h"
#include "tests/doubles/manual_clock.h"
#include "tests/doubles/scripted_origin.h"

namespace weir::regional {
namespace {

using decide::Engine;

Request replay_request(std::string_view identifier, Count cost = 1) {
  return {.ns = "api",
          .identifier = identifier,
          .limit = 100,
          .duration = Millis(60'000),
          .cost = cost};
}

class ReplayTest : public ::testing::Test {
 protected:
  std::shared_ptr<Engine> engine_on(std::shared_ptr<RegionalOrigin> origin, uint64_t seed,
                                    Millis within = Millis(0)) {
    return Engine::make(clock_, {.origin = std::move(origin),
                                 .consistency = Consistency::kRelaxed,  // only replays write
                                 .replay_within = within,
                                 .capacity = 1000,
                                 .seed = seed});
  }
  Verdict ask(Engine& engine, const Request& request) {
    std::optional<Verdict> answer;
    engine.check_async(clock_.now(), request, executor_,
                       [&](const Result<Verdict>& verdict) { answer = *verdict; });
    executor_.run();
    return *answer;
  }
  WorkReport replay(Engine& engine) {
    const WorkReport report = engine.run_replay(clock_.now(), executor_);
    executor_.run();
    return report;
  }
  doubles::ManualClock clock_;
  doubles::ManualExecutor executor_{clock_};
};

TEST_F(ReplayTest, DelaysSmallCountsAndSendsALargePartOfTheRemainderAtOnce) {
  auto origin = std::make_shared<origins::InProcessOrigin>(clock_);
  auto engine = engine_on(origin, 1, Millis(250));
  ASSERT_TRUE(ask(*engine, replay_request("alice", 1)).admitted());
  EXPECT_EQ(replay(*engine).done, 0u);
  ASSERT_TRUE(ask(*engine, replay_request("alice", 10)).admitted());  // half of the allowance is 12
  EXPECT_EQ(replay(*engine).done, 0u);
  ASSERT_TRUE(ask(*engine, replay_request("alice", 1)).admitted());
  EXPECT_GT(replay(*engine).done, 0u);
  EXPECT_EQ(replay(*engine).waiting, 0u);
  ASSERT_TRUE(ask(*engine, replay_request("alice", 1)).admitted());
  clock_.advance(Millis(200));
  EXPECT_EQ(replay(*engine).waiting, 1u);  // counted from when it was first seen
  clock_.advance(Millis(187));
  EXPECT_EQ(replay(*engine).waiting, 1u);
  clock_.advance(Millis(63));
  EXPECT_GT(replay(*engine).done, 0u);
}

TEST_F(ReplayTest, SendsTuplesTogetherThatAreDueWithinAQuarterOfTheTime) {
  auto origin = std::make_shared<origins::InProcessOrigin>(clock_);
  auto engine = engine_on(origin, 1, Millis(250));
  size_t messages = 0;
  for (int ms = 0; ms < 2000; ms += 10) {
    // Each of 20 tuples once in 200 ms.
    (void)engine->check(clock_.now(), replay_request("user-" + std::to_string(ms / 10 % 20), 1));
    messages += replay(*engine).done > 0 ? 1 : 0;
    clock_.advance(Millis(10));
  }
  EXPECT_LE(messages, 2000u / 62);
  EXPECT_GE(messages, 2000u / 62 / 2);
}

TEST_F(ReplayTest, SendsTuplesThatAreNotDueWhenFlushingAll) {
  auto origin = std::make_shared<origins::InProcessOrigin>(clock_);
  auto engine = engine_on(origin, 1, Millis(250));
  ASSERT_TRUE(ask(*engine, replay_request("alice", 1)).admitted());
  EXPECT_EQ(replay(*engine).done, 0u);
  EXPECT_GT(engine->run_replay(clock_.now(), executor_, Flush::kAll).done, 0u);
  EXPECT_EQ(replay(*engine).waiting, 0u);
}

// A sibling replays a count of the last window late, just after this process has read that window.
TEST_F(ReplayTest, ReadsTheLastWindowOnlyNowAndThen) {
  auto origin = std::make_shared<origins::InProcessOrigin>(clock_);
  auto engine = engine_on(origin, 1);
  clock_.advance(Millis(30'000));
  const int64_t last = clock_.now().wall.time_since_epoch() / Millis(60'000) - 1;
  const auto tuple = memory::TupleKey(replay_request("alice"), base::KeyedHash(7)).encoded();
  std::vector<size_t> acked;
  std::vector<Count> seen;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(ask(*engine, replay_request("alice", 1)).admitted());
    acked.push_back(replay(*engine).done);
    seen.push_back(0);
    engine->inspect([&](const decide::CellView& cell) {
      if (cell.sequence == last) seen.back() = cell.siblings;
    });
    if (i == 0) {
      origin->replay({{.cell = {tuple, last},
                       .writer = {.incarnation = 77, .generation = 1},
                       .total = 50,
                       .expires_at = WallTime((last + 2) * Millis(60'000)),
                       .limit_seen = 100,
                       .due = Due::kNever}},
                     [](const auto&) {});
    }
    clock_.advance(Millis(500));
  }
  // Read with the first request, and again after half of the time that it stays fresh.
  EXPECT_EQ(acked, (std::vector<size_t>{1, 1, 1, 1, 1, 2, 1, 1, 1, 1}));
  EXPECT_EQ(seen, (std::vector<Count>{0, 0, 0, 0, 0, 50, 50, 50, 50, 50}));
}

TEST_F(ReplayTest, ReadsTheLastWindowAfterItEnded) {
  auto origin = std::make_shared<origins::InProcessOrigin>(clock_);
  auto engine = engine_on(origin, 1);
  clock_.advance(Millis(59'500));
  ASSERT_TRUE(ask(*engine, replay_request("alice", 1)).admitted());
  EXPECT_EQ(replay(*engine).done, 1u);
  clock_.advance(Millis(600));
  ASSERT_TRUE(ask(*engine, replay_request("alice", 1)).admitted());
  EXPECT_EQ(replay(*engine).done, 2u);
}

TEST_F(ReplayTest, SendsNothingWhileTheOriginIsUnreachable) {
  auto origin = std::make_shared<doubles::ScriptedOrigin>();
  auto engine = engine_on(origin, 1);
  origin->reachability = Reach::kNone;
  (void)engine->check(clock_.now(), replay_request("alice"));
  EXPECT_EQ(engine->run_replay(clock_.now(), executor_).waiting, 1u);
  clock_.advance(Millis(1000));
  EXPECT_EQ(engine->run_replay(clock_.now(), executor_).waiting, 1u);
  EXPECT_TRUE(origin->replays.empty());
  EXPECT_EQ(engine->stats().unacked, 1u);
  EXPECT_EQ(engine->stats().replay_lag, Millis(1000));
  origin->reachability = Reach::kPrompt;
  EXPECT_GT(engine->run_replay(clock_.now(), executor_).done, 0u);
  EXPECT_EQ(origin->replays.size(), 1u);
}

TEST_F(ReplayTest, BoundsTheCellsInFlight) {
  auto origin = std::make_shared<doubles::ScriptedOrigin>();
  auto engine = Engine::make(
      clock_, {.origin = origin, .replay_within = Millis(0), .capacity = 20'000, .seed = 1});
  for (int i = 0; i < 10'000; ++i) {
    (void)engine->check(clock_.now(), replay_request("user-" + std::to_string(i)));
  }
  size_t acked = 0;
  for (int round = 0; round < 5; ++round) {
    acked += engine->run_replay(clock_.now(), executor_).done;
  }
  EXPECT_GE(acked, 4096u);
  EXPECT_LT(acked, 5000u);
  EXPECT_GT(engine->stats().unacked, 10'000u);
  size_t rounds = 0;
  for (; engine->stats().unacked > 0 && rounds < 100; ++rounds) {
    while (!origin->replays.empty()) {
      const auto replay = std::move(origin->replays.front());
      origin->replays.pop_front();
      std::vector<CellTotals> totals;
      for (const CellReplay& cell : replay.cells) totals.push_back({.mine = cell.total});
      replay.reply(totals);
    }
    engine->run_replay(clock_.now(), executor_);
  }
  EXPECT_LT(rounds, 20u);
}

TEST_F(ReplayTest, RetiresItsComponentsAtShutdown) {
  auto origin = std::make_shared<origins::InProcessOrigin>(clock_);
  auto departing = engine_on(origin, 1);
  auto stayer = engine_on(origin, 2);
  ASSERT_TRUE(ask(*departing, replay_request("alice", 7)).admitted());
  replay(*departing);
  EXPECT_EQ(departing->run_shutdown(clock_.now()).done, 1u);
  EXPECT_EQ(departing->run_shutdown(clock_.now()).done, 0u);
  EXPECT_EQ(departing->run_shutdown(clock_.now()).waiting, 0u);
  EXPECT_EQ(ask(*stayer, replay_request("alice", 0)).remaining, 93u);
  CellId cell;
  departing->inspect([&](const decide::CellView& view) {
    if (view.own > 0) cell = {view.tuple, view.sequence};
  });
  EXPECT_EQ(origin->components(cell), (std::map<Component, Count>{{kDeparted, 7}}));
}

// An origin that tells how many stores it has had.
class ReplacedOrigin final : public doubles::ForwardingOrigin {
 public:
  using ForwardingOrigin::ForwardingOrigin;
  [[nodiscard]] uint64_t epoch() const override { return stores; }

  uint64_t stores = 1;
};

TEST_F(ReplayTest, ReplaysEverythingAgainAfterANewEpochOfTheOrigin) {
  auto store = std::make_shared<origins::InProcessOrigin>(clock_);
  auto origin = std::make_shared<ReplacedOrigin>(store);
  auto engine = engine_on(origin, 1);
  ASSERT_TRUE(ask(*engine, replay_request("alice", 60)).admitted());
  ASSERT_TRUE(ask(*engine, replay_request("bob", 30)).admitted());
  replay(*engine);
  EXPECT_EQ(replay(*engine).done, 0u);
  store->clear();
  ++origin->stores;
  EXPECT_GT(replay(*engine).done, 0u);
  auto other = engine_on(origin, 2);
  EXPECT_EQ(ask(*other, replay_request("alice", 0)).remaining, 40u);
  EXPECT_EQ(ask(*other, replay_request("bob", 0)).remaining, 70u);
}

// An exhausted tuple reads nothing, so only a replay can notice the loss; a new process would use
// the incomplete counts of the origin.
TEST_F(ReplayTest, ReplaysAnExhaustedTupleAgainWhenStaleAfterAnUnnoticedLoss) {
  auto origin = std::make_shared<origins::InProcessOrigin>(clock_);
  auto engine = engine_on(origin, 1);
  ASSERT_TRUE(ask(*engine, replay_request("alice", 100)).admitted());
  replay(*engine);
  origin->clear();
  EXPECT_FALSE(ask(*engine, replay_request("alice")).admitted());
  EXPECT_EQ(replay(*engine).done, 0u);  // fresh: no message per refusal
  clock_.advance(Millis(5000));
  EXPECT_FALSE(ask(*engine, replay_request("alice")).admitted());
  EXPECT_GT(replay(*engine).done, 0u);
  EXPECT_FALSE(ask(*engine, replay_request("alice")).admitted());
  EXPECT_EQ(replay(*engine).done, 0u);
  auto fresh_engine = engine_on(origin, 2);
  EXPECT_FALSE(ask(*fresh_engine, replay_request("alice")).admitted());
}

TEST_F(ReplayTest, MakesTwoProcessesEnforceOneLimit) {
  auto origin = std::make_shared<origins::InProcessOrigin>(clock_);
  auto one = engine_on(origin, 1);
  auto two = engine_on(origin, 2);
  ASSERT_TRUE(ask(*one, replay_request("alice", 60)).admitted());
  replay(*one);
  const Verdict verdict = ask(*two, replay_request("alice", 40));
  EXPECT_TRUE(verdict.admitted());
  EXPECT_EQ(verdict.evidence.siblings, 60u);
  replay(*two);
  clock_.advance(Millis(5000));
  const Verdict denied = ask(*one, replay_request("alice", 1));
  EXPECT_FALSE(denied.admitted());
  EXPECT_EQ(denied.evidence.own, 60u);
  EXPECT_EQ(denied.evidence.siblings, 40u);
}

TEST_F(ReplayTest, SendsAbsoluteTotalsSoThatRetriesAreHarmless) {
  auto origin = std::make_shared<doubles::ScriptedOrigin>();
  auto engine = engine_on(origin, 1);
  (void)engine->check(clock_.now(), replay_request("alice", 7));
  EXPECT_EQ(engine->run_replay(clock_.now(), executor_).done, 2u);  // this window and the last
  ASSERT_EQ(origin->replays.size(), 1u);
  EXPECT_EQ(origin->replays[0].cells[0].total, 7u);
  EXPECT_EQ(origin->replays[0].cells[1].total, 0u);
  // No answer: after the deadline it is dirty again, with the counts accepted meanwhile.
  (void)engine->check(clock_.now(), replay_request("alice", 2));
  clock_.advance(Millis(300));
  executor_.run();
  EXPECT_EQ(engine->stats().replay_errors, 1u);
  engine->run_replay(clock_.now(), executor_);
  ASSERT_EQ(origin->replays.size(), 2u);
  EXPECT_EQ(origin->replays[1].cells[0].total, 9u);
  EXPECT_EQ(origin->replays[1].cells[0].writer, origin->replays[0].cells[0].writer);
}

TEST_F(ReplayTest, SendsNothingTwice) {
  auto origin = std::make_shared<origins::InProcessOrigin>(clock_);
  auto engine = engine_on(origin, 1);
  ASSERT_TRUE(ask(*engine, replay_request("alice")).admitted());
  EXPECT_GT(replay(*engine).done, 0u);
  EXPECT_EQ(replay(*engine).done, 0u);
}

TEST_F(ReplayTest, IsFreshByTheReadBackNotByTheAcknowledgement) {
  clock_.advance(Millis(30'000));
  auto origin = std::make_shared<doubles::ScriptedOrigin>();
  auto engine = engine_on(origin, 1);
  (void)engine->check(clock_.now(), replay_request("alice"));
  engine->run_replay(clock_.now(), executor_);
  // An answer with fewer cells than sent is no read-back.
  origin->replays[0].reply(std::vector<CellTotals>{});
  EXPECT_EQ(engine->check(clock_.now(), replay_request("alice"))->basis, Basis::kDegraded);
  engine->run_replay(clock_.now(), executor_);
  origin->replays[1].reply(std::vector<CellTotals>{{.mine = 2, .siblings = 3}, {}});
  const auto verdict = engine->check(clock_.now(), replay_request("alice"));
  EXPECT_EQ(verdict->basis, Basis::kLocal);
  EXPECT_EQ(verdict->evidence.siblings, 3u);
}

TEST_F(ReplayTest, DoesNotMakeAWindowFreshThatItDidNotReadBack) {
  auto origin = std::make_shared<doubles::ScriptedOrigin>();
  auto engine = engine_on(origin, 1);
  (void)engine->check(clock_.now(), replay_request("alice"));
  clock_.advance(Millis(60'000));  // the next window begins, with nothing accepted yet
  engine->run_replay(clock_.now(), executor_);
  origin->replays[0].reply(std::vector<CellTotals>{{.mine = 1}, {}});
  EXPECT_EQ(engine->check(clock_.now(), replay_request("alice"))->basis, Basis::kDegraded);
}

TEST_F(ReplayTest, ReplaysAgainToAnOriginThatLostCounts) {
  auto origin = std::make_shared<origins::InProcessOrigin>(clock_);
  auto one = engine_on(origin, 1);
  auto two = engine_on(origin, 2);
  ASSERT_TRUE(ask(*one, replay_request("alice", 60)).admitted());
  replay(*one);
  origin->clear();
  // The next read shows that our component is less than acknowledged.
  clock_.advance(Millis(5000));
  ASSERT_TRUE(ask(*one, replay_request("alice", 1)).admitted());
  replay(*one);
  EXPECT_EQ(ask(*two, replay_request("alice", 0)).remaining, 39u);
}

TEST_F(ReplayTest, ReplaysTheLastWindowAfterItsEnd) {
  auto origin = std::make_shared<doubles::ScriptedOrigin>();
  auto engine = engine_on(origin, 1);
  (void)engine->check(clock_.now(), replay_request("alice", 7));
  clock_.advance(Millis(60'000));
  (void)engine->check(clock_.now(), replay_request("alice", 2));
  engine->run_replay(clock_.now(), executor_);
  ASSERT_EQ(origin->replays[0].cells.size(), 2u);
  EXPECT_EQ(origin->replays[0].cells[0].total, 2u);
  EXPECT_EQ(origin->replays[0].cells[1].total, 7u);
  EXPECT_EQ(origin->replays[0].cells[0].cell.sequence,
            origin->replays[0].cells[1].cell.sequence + 1);
}

TEST_F(ReplayTest, DropsAndReportsCountsOfAnExpiredWindow) {
  auto origin = std::make_shared<doubles::ScriptedOrigin>();
  auto engine = engine_on(origin, 1);
  (void)engine->check(clock_.now(), replay_request("alice", 7));
  clock_.advance(Millis(120'000));
  engine->run_replay(clock_.now(), executor_);
  EXPECT_TRUE(origin->replays.empty());
  EXPECT_EQ(engine->stats().late_replays, 1u);
  engine->run_replay(clock_.now(), executor_);
  EXPECT_EQ(engine->stats().late_replays, 1u);
}

TEST_F(ReplayTest, ReportsNothingLateThatWasAckedBeforeTheOriginWasReplaced) {
  auto store = std::make_shared<origins::InProcessOrigin>(clock_);
  auto origin = std::make_shared<ReplacedOrigin>(store);
  auto engine = engine_on(origin, 1);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(ask(*engine, replay_request("user-" + std::to_string(i))).admitted());
  }
  (void)replay(*engine);
  ASSERT_EQ(engine->stats().unacked, 0u);
  clock_.advance(
      Millis(120'000));  // their windows have ended, and their tuples are still in the table
  store->clear();
  ++origin->stores;
  EXPECT_EQ(replay(*engine).done, 0u);
  EXPECT_EQ(replay(*engine).waiting, 0u);
  EXPECT_EQ(engine->stats().late_replays, 0u);
}

TEST_F(ReplayTest, UsesANewComponentForATupleThatWasEvicted) {
  auto origin = std::make_shared<origins::InProcessOrigin>(clock_);
  auto engine = engine_on(origin, 1);
  ASSERT_TRUE(ask(*engine, replay_request("alice", 60)).admitted());
  replay(*engine);
  // Far back in time and forward again: the tuple is rebuilt in the same window.
  clock_.step_wall(Millis(-200'000));
  ASSERT_TRUE(ask(*engine, replay_request("alice", 1)).admitted());
  EXPECT_EQ(engine->stats().rebuilt, 1u);
  clock_.step_wall(Millis(200'000));
  clock_.advance(Millis(5000));
  // The earlier component counts as a sibling now, and is not overwritten.
  const Verdict verdict = ask(*engine, replay_request("alice", 30));
  EXPECT_TRUE(verdict.admitted());
  EXPECT_EQ(verdict.evidence.siblings, 60u);
  replay(*engine);
  auto other = engine_on(origin, 2);
  EXPECT_EQ(ask(*other, replay_request("alice", 0)).remaining, 10u);
}

}  // namespace
}  // namespace weir::regional
