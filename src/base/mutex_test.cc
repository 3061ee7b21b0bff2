#include "base/mutex.h"

#include <gtest/gtest.h>

#include <thread>

namespace weir::base {
namespace {

// Of another thread: a thread must not try to lock a mutex that it holds.
template <typename M>
bool is_free(M& mutex) {
  bool locked = false;
  std::thread([&] {
    if (!mutex.try_lock()) return;
    locked = true;
    mutex.unlock();
  }).join();
  return locked;
}

TEST(MutexLock, LocksUntilTheEndOfItsScope) {
  Mutex mutex;
  {
    const MutexLock lock(mutex);
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(MutexLock, UnlocksAMutexThatItAdopted) {
  StdMutex mutex;
  if (!mutex.try_lock()) FAIL();
  {
    const MutexLock lock(mutex, std::adopt_lock);
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

struct Guarded {
  StdMutex mutex;
  ConditionVariable changed;
  int stage WEIR_GUARDED_BY(mutex) = 0;

  void set(int to) {
    {
      const MutexLock lock(mutex);
      stage = to;
    }
    changed.notify_one();
  }
  void wait_for(int wanted) {
    const MutexLock lock(mutex);
    while (stage != wanted) changed.wait(mutex);
  }
};

TEST(ConditionVariable, WakesAWaiterThatThenHoldsTheLock) {
  Guarded guarded;
  std::thread waiter([&] {
    guarded.wait_for(1);
    guarded.set(2);
  });
  guarded.set(1);
  guarded.wait_for(2);
  waiter.join();
  EXPECT_TRUE(is_free(guarded.mutex));
}

TEST(ConditionVariable, ReturnsWithTheLockAtATimeInThePast) {
  Guarded guarded;
  {
    const MutexLock lock(guarded.mutex);
    guarded.changed.wait_until(guarded.mutex, std::chrono::steady_clock::time_point());
    EXPECT_FALSE(is_free(guarded.mutex));
  }
  EXPECT_TRUE(is_free(guarded.mutex));
}

}  // namespace
}  // namespace weir::base
