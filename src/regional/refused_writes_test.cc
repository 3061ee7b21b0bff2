// An origin that answers reads and refuses writes: siblings do not see each other's counts, so the
// origin counts as lost.

#include <gtest/gtest.h>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "decide/engine.h"
#include "tests/doubles/manual_clock.h"
#include "tests/doubles/scripted_origin.h"

namespace weir::regional {
namespace {

using decide::Engine;

constexpr Millis kFreshFor{5000};

class RefusedWritesTest : public ::testing::Test {
 protected:
  void make(OnOriginLoss policy) {
    engine_ = Engine::make(clock_, {.origin = origin_,
                                    .on_origin_loss = policy,
                                    .replay_within = Millis(0),
                                    .capacity = 1000,
                                    .seed = 1});
  }
  // Reads are answered at once.
  Verdict ask(Count cost = 1) { return ask({.cost = cost}); }
  struct Asked {
    std::string_view identifier = "alice";
    Millis duration{600'000};
    Count cost = 1;
    Count siblings = 0;  // as read
  };
  Verdict ask(const Asked& asked) {
    const Request request{.ns = "api",
                          .identifier = asked.identifier,
                          .limit = 600,
                          .duration = asked.duration,
                          .cost = asked.cost};
    std::optional<Verdict> answer;
    engine_->check_async(clock_.now(), request, executor_,
                         [&](const Result<Verdict>& verdict) { answer = *verdict; });
    reads_ = origin_->reads.size();
    while (!origin_->reads.empty()) origin_->answer_read({.siblings = asked.siblings});
    executor_.run();
    return *answer;
  }
  // Replays everything; all of it fails.
  void tell_in_vain() {
    (void)engine_->run_replay(clock_.now(), executor_);
    while (!origin_->replays.empty()) {
      auto replay = std::move(origin_->replays.front());
      origin_->replays.pop_front();
      replay.reply(Error{.code = ErrorCode::kUnavailable, .retry = Retry::kMayHelp});
    }
    executor_.run();
  }
  void pass(Millis span) {
    for (Millis passed{0}; passed < span; passed += Millis(100)) {
      clock_.advance(Millis(100));
      tell_in_vain();
    }
  }

  doubles::ManualClock clock_;
  doubles::ManualExecutor executor_{clock_};
  std::shared_ptr<doubles::ScriptedOrigin> origin_ = std::make_shared<doubles::ScriptedOrigin>();
  std::shared_ptr<Engine> engine_;
  size_t reads_ = 0;  // of the last request
};

TEST_F(RefusedWritesTest, CountAsALossOfTheOriginOnceAReadWouldBeStale) {
  make(OnOriginLoss::kDeny);
  EXPECT_EQ(ask().basis, Basis::kRefreshed);
  tell_in_vain();
  pass(kFreshFor - Millis(100));
  EXPECT_TRUE(ask().admitted());
  pass(Millis(100));
  const Verdict verdict = ask();
  EXPECT_EQ(verdict.basis, Basis::kDegraded);
  EXPECT_EQ(verdict.outcome, Outcome::kDenied);
  EXPECT_EQ(reads_, 0u);  // the answer would be out of date
}

TEST_F(RefusedWritesTest, KeepNoReadFreshForLongerThanThat) {
  make(OnOriginLoss::kDeny);
  (void)ask();
  tell_in_vain();
  pass(kFreshFor - Millis(100));
  clock_.advance(Millis(50));
  // A reply now comes from an origin that has accepted no writes since.
  EXPECT_TRUE(ask(0).outcome == Outcome::kAdmitted);
  clock_.advance(Millis(50));
  EXPECT_EQ(ask().basis, Basis::kDegraded);
}

TEST_F(RefusedWritesTest, LimitAProcessToItsShare) {
  origin_->nodes = 3;
  make(OnOriginLoss::kShare);
  (void)ask();
  tell_in_vain();
  pass(kFreshFor);
  EXPECT_EQ(ask(200).outcome, Outcome::kDenied);
  EXPECT_TRUE(ask(199).admitted());
  EXPECT_EQ(ask().outcome, Outcome::kDenied);
}

TEST_F(RefusedWritesTest, EndWithTheFirstAcknowledgement) {
  make(OnOriginLoss::kDeny);
  (void)ask();
  tell_in_vain();
  pass(kFreshFor);
  ASSERT_EQ(ask().outcome, Outcome::kDenied);
  (void)engine_->run_replay(clock_.now(), executor_);
  origin_->ack_replays();
  EXPECT_TRUE(ask().admitted());
}

TEST_F(RefusedWritesTest, DoNotMatterOnceNothingIsLeftToReplay) {
  make(OnOriginLoss::kDeny);
  (void)ask();
  tell_in_vain();
  pass(kFreshFor);
  ASSERT_EQ(ask().outcome, Outcome::kDenied);
  clock_.advance(Millis(1'200'000));  // the window has ended
  (void)engine_->run_replay(clock_.now(), executor_);
  origin_->ack_replays();
  (void)engine_->run_replay(clock_.now(), executor_);
  EXPECT_TRUE(ask().admitted());
  EXPECT_EQ(engine_->stats().late_replays, 1u);
}

// A tuple that the siblings have used up is read now and then, although this process has nothing to
// write. With the policy deny nothing else would ever be written.
TEST_F(RefusedWritesTest, DoNotMatterWhileMessagesOnlyRead) {
  make(OnOriginLoss::kDeny);
  const Asked used_up{.identifier = "bob", .siblings = 600};
  ASSERT_EQ(ask(used_up).outcome, Outcome::kDenied);
  ASSERT_TRUE(ask({.duration = Millis(1000)}).admitted());
  tell_in_vain();
  clock_.advance(kFreshFor + Millis(1000));  // the window of the failed count is over
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(ask(used_up).outcome, Outcome::kDenied);
    (void)engine_->run_replay(clock_.now(), executor_);
    EXPECT_FALSE(origin_->replays.empty());
    // One is always in flight.
    while (origin_->replays.size() > 1) {
      auto replay = std::move(origin_->replays.front());
      origin_->replays.pop_front();
      replay.reply(std::vector<CellTotals>(replay.cells.size(), {.siblings = 600}));
    }
    clock_.advance(kFreshFor + Millis(1));
  }
  EXPECT_TRUE(ask({.identifier = "carol"}).admitted());
}

TEST_F(RefusedWritesTest, AreNotSentWhileTheOriginReportsThatItRefusesThem) {
  make(OnOriginLoss::kDeny);
  (void)ask();
  origin_->reachability = Reach::kReadOnly;
  EXPECT_EQ(engine_->run_replay(clock_.now(), executor_).waiting, 1u);
  EXPECT_TRUE(origin_->replays.empty());
  clock_.advance(kFreshFor);
  EXPECT_EQ(ask().basis, Basis::kDegraded);
  EXPECT_EQ(reads_, 0u);
}

}  // namespace
}  // namespace weir::regional
