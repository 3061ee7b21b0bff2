// The atomics that threads of the engine share.
//
// In the library Atomic is std::atomic. In the engine that is compiled for tests (WEIR_MUTATIONS)
// each operation first calls a hook, so that a test can choose which thread continues:
// tests/schedule does. There a weak exchange never fails spuriously.
//
// Counters that no decision depends on use std::atomic: they would only make schedules longer.

#pragma once

#include <atomic>
#include <cstdint>

namespace weir::base {

#ifdef WEIR_MUTATIONS

// A test sets the hooks before any engine runs and resets them afterwards.
struct ThreadHooks {
  void (*before_operation)() = nullptr;  // on an atomic or a mutex
  void (*while_waiting)() = nullptr;     // in a loop that waits for another thread
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

#else

template <typename T>
using Atomic = std::atomic<T>;

#endif

}  // namespace weir::base
