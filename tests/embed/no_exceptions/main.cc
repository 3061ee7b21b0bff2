// Errors are values, so the library works without exceptions.

#include <weir/weir.h>

#include <cstdio>

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "compile this without exceptions and type information"
#endif

int main() {
  weir::Limiter limiter = weir::Limiter::create(weir::system_clock()).value();
  weir::Request request = {.ns = "api",
                           .identifier = "alice",
                           .limit = 3,
                           .duration = std::chrono::hours(1),
                           .algorithm = weir::Algorithm::kTokenBucket};
  for (int i = 0; i < 3; ++i) {
    const auto verdict = limiter.check(request);
    if (!verdict || !verdict->admitted()) return std::puts("denied too early"), 1;
  }
  const auto fourth = limiter.check(request);
  if (!fourth || fourth->admitted()) return std::puts("admitted too much"), 1;
  if (!fourth->retry_after) return std::puts("denied without saying until when"), 1;

  request.limit = 0;
  const auto mistake = limiter.check(request);
  if (mistake || mistake.error().field != "limit") return std::puts("took a limit of 0"), 1;
  std::puts("3 admitted, the 4th denied, and a limit of 0 refused by name");
}
