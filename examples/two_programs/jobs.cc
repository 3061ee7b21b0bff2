// The second of two programs that share a limit of 5 calls: it tries 5.  usage: jobs URL

#include <weir/redis.h>
#include <weir/weir.h>

#include <iostream>

int main(int argc, char** argv) {
  const weir::Clock& clock = weir::system_clock();
  const auto options = weir::parse_redis_url(argc > 1 ? argv[1] : "redis://127.0.0.1:6379");
  if (!options) return std::cerr << options.error().detail << '\n', 2;
  const auto origin = weir::redis_origin(*options);
  if (!origin) return std::cerr << origin.error().detail << '\n', 2;
  auto limiter = weir::Limiter::create(clock, {.origin = *origin});
  if (!limiter) return std::cerr << limiter.error().detail << '\n', 2;
  weir::Runner runner(clock, *limiter);
  runner.start();

  int admitted = 0;
  for (int call = 0; call < 5; ++call) {
    const auto verdict = limiter->check(
        {.ns = "payments", .identifier = "shop", .limit = 5, .duration = std::chrono::hours(24)});
    if (verdict && verdict->admitted()) ++admitted;
  }
  std::cout << "jobs: " << admitted << " of 5 calls admitted\n";
  return runner.drain().complete() ? 0 : 1;
}
