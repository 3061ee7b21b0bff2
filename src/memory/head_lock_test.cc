#include "memory/head_lock.h"

#include <gtest/gtest.h>

namespace weir::memory {
namespace {

// Regression: each tuple of a batch, and each attempt to find one, used to have its own bound.
TEST(HeadLock, SharesTheSpinsOfARequestAmongAllTuplesItWaitsFor) {
  Word first{7 | kClosedBit};
  Word second{8 | kClosedBit};
  Word unlocked{9};
  int spins = kHeadLockSpins;
  EXPECT_EQ(try_lock_head(first, spins), HeadLock::kTimeout);
  EXPECT_EQ(spins, 0);
  EXPECT_EQ(try_lock_head(second, spins), HeadLock::kTimeout);
  EXPECT_EQ(spins, 0);
  EXPECT_EQ(try_lock_head(unlocked, spins), HeadLock::kLocked);
  EXPECT_TRUE(is_locked(unlocked));
  unlock_head(unlocked);
  EXPECT_EQ(unlocked, 9u);
}

TEST(HeadLock, DoesNotWaitForAFrozenSlot) {
  Word frozen{kFrozen};
  int spins = kHeadLockSpins;
  EXPECT_EQ(try_lock_head(frozen, spins), HeadLock::kMoved);
  EXPECT_EQ(spins, kHeadLockSpins);
}

}  // namespace
}  // namespace weir::memory
