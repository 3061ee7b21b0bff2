// The shares of a limit while the origin is lost.

#include "regional/loss_share.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <vector>

#include "decide/engine.h"
#include "tests/doubles/manual_clock.h"
#include "tests/doubles/scripted_origin.h"

namespace weir::regional {
namespace {

using decide::Engine;

TEST(LossShare, SharesOfAllRanksAddUpToTheAmount) {
  for (Count amount = 0; amount < 50; ++amount) {
    for (uint32_t nodes = 1; nodes <= 7; ++nodes) {
      Count sum = 0;
      for (uint32_t rank = 0; rank < nodes; ++rank) sum += share_of(amount, {nodes, rank});
      EXPECT_EQ(sum, amount);
    }
  }
}

// A region loses its origin. Each process knows the acknowledged counts of all processes in two
// windows, has accepted more since, and continues within its share. The counts that all processes
// accept after the loss stay within the limit, whatever they accepted before it.
RC_GTEST_PROP(LossShare, KeepsARegionWithinItsLimitForAsLongAsTheLossLasts, ()) {
  const auto nodes = *rc::gen::inRange<uint32_t>(1, 6);
  const auto limit = *rc::gen::inRange<Count>(1, 500);
  const auto algorithm = *rc::gen::element(Algorithm::kFixedWindow, Algorithm::kSlidingWindow);
  const Millis width(1000);
  struct Process {
    Acknowledged current, last;
  };
  std::vector<Process> region(nodes);
  // At the loss, at most the limit was acknowledged, in any division.
  Count left = limit;
  for (Process& process : region) {
    process.current.acked = process.current.own = *rc::gen::inRange<Count>(0, left + 1);
    left -= process.current.acked;
  }
  const auto others_know = [&](auto part) {
    Count total = 0;
    for (Process& process : region) total += part(process).acked;
    for (Process& process : region) part(process).others = total - part(process).acked;
  };
  others_know([](Process& process) -> Acknowledged& { return process.current; });
  const auto estimate = [&](const algorithms::Position& at) {
    Count current = 0;
    Count last = 0;
    for (const Process& process : region) {
      current += process.current.own;
      last += process.last.own;
    }
    return current +
           (algorithm == Algorithm::kSlidingWindow ? algorithms::carried_over(at, last) : 0);
  };
  for (int64_t sequence = 100; sequence < 104; ++sequence) {
    Millis offset(0);
    for (int step = 0; step < 5; ++step) {
      offset = std::min(offset + Millis(*rc::gen::inRange(0, 300)), width - Millis(1));
      const algorithms::Position at{.sequence = sequence, .offset = offset, .width = width};
      for (uint32_t rank = 0; rank < nodes; ++rank) {
        Process& process = region[rank];
        const Count most =
            max_own_count(at, algorithm, limit, process.current, process.last, {nodes, rank});
        // A random part of it.
        if (most > process.current.own) {
          process.current.own += *rc::gen::inRange<Count>(0, most - process.current.own + 1);
          RC_ASSERT(estimate(at) <= limit);
        }
      }
    }
    for (Process& process : region) {
      process.last = process.current;
      process.current = {};
    }
  }
}

class LossTest : public ::testing::Test {
 protected:
  std::shared_ptr<Engine> engine_with(OnOriginLoss policy) {
    return Engine::make(clock_,
                        {.origin = origin_, .on_origin_loss = policy, .capacity = 1000, .seed = 1});
  }
  static Request request_of(Count cost = 1) {
    return {
        .ns = "api", .identifier = "alice", .limit = 100, .duration = Millis(60'000), .cost = cost};
  }
  // How many requests with a cost of 1 pass before one is denied.
  int admitted(Engine& engine, Request request = request_of()) {
    for (int count = 0;; ++count) {
      const Verdict verdict = *engine.check(clock_.now(), request);
      if (!verdict.admitted()) {
        EXPECT_EQ(verdict.outcome, Outcome::kDenied);
        EXPECT_TRUE(verdict.retry_after.has_value());
        return count;
      }
    }
  }

  doubles::ManualClock clock_;
  doubles::ManualExecutor executor_{clock_};
  std::shared_ptr<doubles::ScriptedOrigin> origin_ = std::make_shared<doubles::ScriptedOrigin>();
};

TEST_F(LossTest, CountsLocallyByDefault) {
  auto engine = engine_with(OnOriginLoss::kLocal);
  origin_->reachability = Reach::kNone;
  origin_->nodes = 4;
  EXPECT_EQ(admitted(*engine), 100);
}

TEST_F(LossTest, DeniesUnderTheDenyPolicy) {
  auto engine = engine_with(OnOriginLoss::kDeny);
  origin_->reachability = Reach::kNone;
  const Verdict verdict = *engine->check(clock_.now(), request_of());
  EXPECT_EQ(verdict.outcome, Outcome::kDenied);
  EXPECT_EQ(verdict.basis, Basis::kDegraded);
  EXPECT_EQ(verdict.remaining, 0u);
  EXPECT_EQ(verdict.retry_after, kReadPause);
  EXPECT_EQ(engine->stats().made_strict, 0u);
  const BatchVerdict batch = *engine->check_all(clock_.now(), std::vector<Request>{request_of()});
  EXPECT_FALSE(batch.admitted());
}

TEST_F(LossTest, DividesAnUnusedLimitAmongTheLiveNodes) {
  auto engine = engine_with(OnOriginLoss::kShare);
  origin_->reachability = Reach::kNone;
  origin_->nodes = 3;
  EXPECT_EQ(admitted(*engine), 34);  // the first of three gets the remainder
}

TEST_F(LossTest, DividesTheRemainderOfAnOpenWindow) {
  auto engine = engine_with(OnOriginLoss::kShare);
  origin_->nodes = 3;
  clock_.advance(Millis(30'000));
  ASSERT_TRUE(engine->check(clock_.now(), request_of(10))->admitted());
  engine->run_replay(clock_.now(), executor_, Flush::kAll);
  origin_->replays[0].reply(std::vector<CellTotals>{{.mine = 10, .siblings = 30}, {}});
  origin_->reachability = Reach::kNone;
  clock_.advance(Millis(10'000));
  EXPECT_EQ(admitted(*engine), 20);  // a third of 60
  clock_.advance(Millis(20'000));    // the next window carries a part of this one
  EXPECT_EQ(admitted(*engine), 0);
  clock_.advance(Millis(59'999));
  EXPECT_EQ(admitted(*engine), 33);  // one less for the rounding of the others' carried counts
}

TEST_F(LossTest, LetsARequestChooseThePolicy) {
  auto engine = engine_with(OnOriginLoss::kLocal);
  origin_->reachability = Reach::kNone;
  Request request = request_of();
  request.on_origin_loss = OnOriginLoss::kDeny;
  EXPECT_EQ(admitted(*engine, request), 0);
  request.on_origin_loss = OnOriginLoss::kLocal;
  EXPECT_EQ(admitted(*engine, request), 100);
  request.algorithm = Algorithm::kGcra;
  request.consistency = Consistency::kRelaxed;
  EXPECT_EQ(engine->check(clock_.now(), request).error().field, "on_origin_loss");
}

TEST_F(LossTest, AppliesToARequestWhoseReadFailed) {
  auto engine = engine_with(OnOriginLoss::kDeny);
  std::optional<Verdict> answer;
  engine->check_async(clock_.now(), request_of(), executor_,
                      [&](const Result<Verdict>& verdict) { answer = *verdict; });
  ASSERT_FALSE(answer);
  origin_->fail_read();
  executor_.run();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->outcome, Outcome::kDenied);
  EXPECT_EQ(answer->basis, Basis::kDegraded);
}

}  // namespace
}  // namespace weir::regional
