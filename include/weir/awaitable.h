// The awaitable behind Limiter::co_check() and its siblings: an asynchronous call with a handler,
// as an expression of co_await.

#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <optional>
#include <utility>

#include "weir/unique_function.h"

namespace weir {

// Starts its call when it is awaited. The coroutine does not suspend if the call completes at
// once; otherwise it resumes where the call completes. `Start` is called with a handler of type
// UniqueFunction<void(T)>, and calls it exactly once, on any thread. Await it once.
template <typename T, typename Start>
class [[nodiscard]] Awaitable {
 public:
  explicit Awaitable(Start start) : start_(std::move(start)) {}
  Awaitable(const Awaitable&) = delete;
  Awaitable& operator=(const Awaitable&) = delete;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  [[nodiscard]] bool await_suspend(std::coroutine_handle<> caller) {
    start_(UniqueFunction<void(T)>([this, caller](T result) {
      result_.emplace(std::move(result));
      // Release: the coroutine reads result_ after it sees kDone. Acquire: see kSuspended.
      if (state_.exchange(kDone, std::memory_order_acq_rel) == kSuspended) caller.resume();
    }));
    // After this exchange the handler may resume the coroutine and destroy *this.
    return state_.exchange(kSuspended, std::memory_order_acq_rel) != kDone;
  }
  [[nodiscard]] T await_resume() { return std::move(*result_); }

 private:
  enum State : uint8_t { kStarting, kSuspended, kDone };

  Start start_;
  std::optional<T> result_;
  std::atomic<State> state_{kStarting};
};

template <typename T, typename Start>
[[nodiscard]] Awaitable<T, Start> make_awaitable(Start start) {
  return Awaitable<T, Start>(std::move(start));
}

}  // namespace weir
