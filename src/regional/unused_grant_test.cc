// A grant that no request used: the request gave up before the answer came.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "decide/engine.h"
#include "origins/in_process_origin.h"
#include "tests/doubles/forwarding_origin.h"
#include "tests/doubles/manual_clock.h"

namespace weir::regional {
namespace {

// An origin whose answers to steps can be lost.
class Link final : public doubles::ForwardingOrigin {
 public:
  using ForwardingOrigin::ForwardingOrigin;
  void step(std::vector<CellStep> steps, StepReply reply) override {
    ForwardingOrigin::step(std::move(steps), [this, &reply](auto totals) {
      if (!loses_answers) reply(std::move(totals));
    });
  }

  bool loses_answers = false;
};

class UnusedGrant : public ::testing::Test {
 protected:
  static constexpr Millis kDuration{10'000};

  [[nodiscard]] Verdict check(Count cost) {
    const Request request{.ns = "api",
                          .identifier = "alice",
                          .limit = 100,
                          .duration = kDuration,
                          .cost = cost,
                          .algorithm = Algorithm::kSlidingWindow};
    std::optional<Verdict> received;
    engine_->check_async(clock_.now(), request, executor_,
                         [&](const auto& verdict) { received = verdict.value(); });
    executor_.run();
    for (int i = 0; i < 40 && !received; ++i) {
      clock_.advance(Millis(10));
      executor_.run();
    }
    return received.value();
  }
  void to_next_window() {
    clock_.advance(kDuration - clock_.now().wall.time_since_epoch() % kDuration);
    executor_.run();
  }

  doubles::ManualClock clock_;
  doubles::ManualExecutor executor_{clock_};
  std::shared_ptr<Link> link_ =
      std::make_shared<Link>(std::make_shared<origins::InProcessOrigin>(clock_));
  std::shared_ptr<decide::Engine> engine_ =
      decide::Engine::make(clock_, {.origin = link_,
                                    .on_origin_loss = OnOriginLoss::kDeny,
                                    .consistency = Consistency::kExact,
                                    .capacity = 64,
                                    .seed = 1});
};

// The origin counted it in the next window and the process did not, so each request that only the
// origin denied was asked again and again, and then answered as if the origin had not replied.
TEST_F(UnusedGrant, OfTheLastWindowDeniesAsAnAnswerOfTheOrigin) {
  to_next_window();
  link_->loses_answers = true;
  const Verdict late = check(40);
  ASSERT_EQ(late.outcome, Outcome::kDenied);
  ASSERT_EQ(late.basis, Basis::kDegraded);
  link_->loses_answers = false;
  to_next_window();
  const Verdict denied = check(70);
  EXPECT_EQ(denied.outcome, Outcome::kDenied);
  EXPECT_EQ(denied.basis, Basis::kRefreshed);
  EXPECT_EQ(denied.remaining, 60u);
  EXPECT_EQ(denied.evidence.previous, 40u);
  // Then 30.996 units of the 40 count, rounded down.
  ASSERT_EQ(denied.retry_after, Millis(2251));
  clock_.advance(*denied.retry_after - Millis(1));
  EXPECT_EQ(check(70).basis, Basis::kRefreshed);
  clock_.advance(Millis(1));
  EXPECT_TRUE(check(70).admitted());
}

}  // namespace
}  // namespace weir::regional
