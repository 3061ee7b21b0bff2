#include "memory/hold.h"

#include <gtest/gtest.h>

namespace weir::memory {
namespace {

// Each tuple of a batch, and each look for one, had a whole wait of its own.
TEST(Hold, SpendsTheTurnsOfARequestOnceHoweverManyTuplesItWaitsFor) {
  Word first{7 | kClosedBit};
  Word second{8 | kClosedBit};
  Word free{9};
  int turns = kHoldTurns;
  EXPECT_EQ(try_hold(first, turns), Hold::kTooLong);
  EXPECT_EQ(turns, 0);
  EXPECT_EQ(try_hold(second, turns), Hold::kTooLong);
  EXPECT_EQ(turns, 0);
  EXPECT_EQ(try_hold(free, turns), Hold::kTaken);
  EXPECT_TRUE(held(free));
  let_go(free);
  EXPECT_EQ(free, 9u);
}

TEST(Hold, DoesNotWaitForWhatIsGone) {
  Word gone{kGone};
  int turns = kHoldTurns;
  EXPECT_EQ(try_hold(gone, turns), Hold::kMoved);
  EXPECT_EQ(turns, kHoldTurns);
}

}  // namespace
}  // namespace weir::memory
