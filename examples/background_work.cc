// Runner: two limiters share their counts through an origin, here one in memory. The runner sends
// the counts of the first limiter, and drain() flushes the rest before the program ends.

#include <weir/weir.h>

#include <iostream>

int main() {
  const weir::Clock& clock = weir::system_clock();
  const auto origin = weir::make_in_process_origin(clock);
  auto first = weir::Limiter::create(clock, {.origin = origin});
  auto second = weir::Limiter::create(clock, {.origin = origin});
  if (!first || !second) return 1;
  weir::Runner runner(clock, *first);
  runner.start();

  const weir::Request request = {.ns = "exports",
                                 .identifier = "alice",
                                 .limit = 10,
                                 .duration = std::chrono::hours(24),
                                 .cost = 7,
                                 .algorithm = weir::Algorithm::kFixedWindow};
  std::cout << "first: " << weir::to_string(first->check(request)->outcome) << '\n';
  const weir::DrainReport report = runner.drain();
  std::cout << "flushed: " << (report.complete() ? "all" : "not all") << '\n';
  std::cout << "second: " << weir::to_string(second->check(request)->outcome) << '\n';
}
