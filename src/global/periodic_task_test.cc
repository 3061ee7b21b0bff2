#include "global/periodic_task.h"

#include <gtest/gtest.h>

namespace weir::global {
namespace {

constexpr MonoTime kNow{std::chrono::seconds(100)};
constexpr auto kIgnore = [](Instant, const auto&) {};

class PeriodicTaskTest : public testing::Test {
 protected:
  bool is_given_up_after(Millis time) { return task_.give_up_late_call(kNow + time); }

  PeriodicTask task_{std::make_shared<CompletionQueue>()};
};

TEST_F(PeriodicTaskTest, GivesUpACallToTheLedgerAfterFiveSeconds) {
  (void)task_.call<bool>(kNow, kIgnore);
  EXPECT_FALSE(is_given_up_after(Millis(4999)));
  EXPECT_TRUE(task_.in_flight());
  EXPECT_TRUE(is_given_up_after(Millis(5000)));
  EXPECT_FALSE(task_.in_flight());
}

// A bridge that waited longer for the origin than its lease lasts published nothing meanwhile: a
// few lost messages degraded every verdict of its process.
TEST_F(PeriodicTaskTest, GivesUpACallToTheOriginWhenTheLeaseOfTheBridgeEnds) {
  (void)task_.call_origin<bool>(kNow, kIgnore);
  EXPECT_FALSE(is_given_up_after(Millis(999)));
  EXPECT_TRUE(is_given_up_after(Millis(1000)));
  (void)task_.call<bool>(kNow, kIgnore);
  EXPECT_FALSE(is_given_up_after(Millis(4999)));
}

}  // namespace
}  // namespace weir::global
