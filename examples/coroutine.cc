// co_await: a coroutine asks the limiter. It suspends only while the origin is read, and then
// resumes on the executor.

#include <weir/weir.h>

#include <coroutine>
#include <cstdlib>
#include <future>
#include <iostream>

// The smallest coroutine type; use that of your framework.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
};

Detached serve(weir::Limiter& limiter, weir::Executor& home, std::promise<int>& done) {
  int admitted = 0;
  for (int call = 0; call < 4; ++call) {
    const auto verdict = co_await limiter.co_check(
        weir::system_clock().now(),
        {.ns = "api", .identifier = "alice", .limit = 3, .duration = std::chrono::hours(24)}, home);
    if (verdict && verdict->admitted()) ++admitted;
  }
  done.set_value(admitted);
}

int main() {
  const weir::Clock& clock = weir::system_clock();
  auto limiter = weir::Limiter::create(clock, {.origin = weir::make_in_process_origin(clock)});
  if (!limiter) return 1;
  weir::ThreadExecutor home(clock);
  home.start();
  std::promise<int> done;
  serve(*limiter, home, done);
  std::cout << done.get_future().get() << " of 4 calls admitted\n";
}
