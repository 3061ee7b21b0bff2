// The atomics and mutexes of what threads share in the engine.
//
// In the library they are those of the standard library, by another name. In the engine that is
// compiled for tests (WEIR_MUTATIONS) each operation first calls a hook, so that a test can decide
// which thread goes on: tests/schedule does. There an exchange never fails without a reason, and
// a mutex that is taken is tried again and again, so that only the test ever stops a thread.
//
// Counters that no decision rests on stay std::atomic: a schedule need not be longer for them.

#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace weir::base {

#ifdef WEIR_MUTATIONS

// Set before any engine runs and reset after, by whoever runs them.
struct ThreadHooks {
  void (*before_operation)() = nullptr;  // on an atomic or a mutex
  void (*while_waiting)() = nullptr;     // for another thread
};
inline ThreadHooks thread_hooks;

inline void before_operation() {
  if (thread_hooks.before_operation != nullptr) thread_hooks.before_operation();
}
inline void while_waiting() {
  if (thread_hooks.while_waiting != nullptr) thread_hooks.while_waiting();
}

template <typename T>
class Atomic {
 public:
  using Order = std::memory_order;
  static constexpr Order kStrongest = std::memory_order_seq_cst;

  constexpr Atomic() = default;
  constexpr Atomic(T value) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  [[nodiscard]] T load(Order order = kStrongest) const { return hooked().load(order); }
  void store(T value, Order order = kStrongest) { hooked().store(value, order); }
  T exchange(T value, Order order = kStrongest) { return hooked().exchange(value, order); }
  T fetch_add(T value, Order order = kStrongest) { return hooked().fetch_add(value, order); }
  T fetch_sub(T value, Order order = kStrongest) { return hooked().fetch_sub(value, order); }
  T fetch_and(T value, Order order = kStrongest) { return hooked().fetch_and(value, order); }
  T fetch_or(T value, Order order = kStrongest) { return hooked().fetch_or(value, order); }

  bool compare_exchange_strong(T& expected, T wanted, Order order = kStrongest) {
    return hooked().compare_exchange_strong(expected, wanted, order);
  }
  bool compare_exchange_strong(T& expected, T wanted, Order success, Order failure) {
    return hooked().compare_exchange_strong(expected, wanted, success, failure);
  }
  bool compare_exchange_weak(T& expected, T wanted, Order order = kStrongest) {
    return compare_exchange_strong(expected, wanted, order);
  }
  bool compare_exchange_weak(T& expected, T wanted, Order success, Order failure) {
    return compare_exchange_strong(expected, wanted, success, failure);
  }

 private:
  std::atomic<T>& hooked() {
    before_operation();
    return value_;
  }
  const std::atomic<T>& hooked() const {
    before_operation();
    return value_;
  }
  std::atomic<T> value_{};
};

class Mutex {
 public:
  void lock() {
    before_operation();
    if (thread_hooks.while_waiting == nullptr) return mutex_.lock();
    while (!mutex_.try_lock()) while_waiting();
  }
  bool try_lock() {
    before_operation();
    return mutex_.try_lock();
  }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

#else

template <typename T>
using Atomic = std::atomic<T>;
using Mutex = std::mutex;

#endif

}  // namespace weir::base
