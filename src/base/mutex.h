// Mutexes that Clang's thread-safety analysis understands; it ignores std::lock_guard of libstdc++.
//
// Mutex is for the engine. In the engine that is compiled for tests (WEIR_MUTATIONS) it calls a
// hook before each operation, so that a test can schedule the threads: see base/atomic.h. StdMutex
// is for all other modules and never calls a hook.

#pragma once

#include <condition_variable>
#include <mutex>

#include "base/atomic.h"
#include "base/thread_annotations.h"

namespace weir::base {

class WEIR_CAPABILITY("mutex") StdMutex {
 public:
  void lock() WEIR_ACQUIRE() { mutex_.lock(); }
  [[nodiscard]] bool try_lock() WEIR_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() WEIR_RELEASE() { mutex_.unlock(); }

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};
static_assert(sizeof(StdMutex) == sizeof(std::mutex));

#ifdef WEIR_MUTATIONS

// A locked mutex is tried again and again, so that only the test ever blocks a thread.
class WEIR_CAPABILITY("mutex") Mutex {
 public:
  void lock() WEIR_ACQUIRE() {
    before_operation();
    if (thread_hooks.while_waiting == nullptr) return mutex_.lock();
    while (!mutex_.try_lock()) while_waiting();
  }
  [[nodiscard]] bool try_lock() WEIR_TRY_ACQUIRE(true) {
    before_operation();
    return mutex_.try_lock();
  }
  void unlock() WEIR_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

#else

using Mutex = StdMutex;

#endif

// Locks a mutex until the end of the scope.
template <typename M>
class WEIR_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(M& mutex) WEIR_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  // Unlocks a mutex that is locked already.
  MutexLock(M& mutex, std::adopt_lock_t) WEIR_REQUIRES(mutex) : mutex_(mutex) {}
  ~MutexLock() WEIR_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  M& mutex_;
};

// A condition variable for a StdMutex. Waits may end without a notification.
class ConditionVariable {
 public:
  void notify_one() { condition_.notify_one(); }
  void wait(StdMutex& mutex) WEIR_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  template <typename TimePoint>
  void wait_until(StdMutex& mutex, const TimePoint& when) WEIR_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait_until(lock, when);
    lock.release();
  }

 private:
  std::condition_variable condition_;
};

}  // namespace weir::base
