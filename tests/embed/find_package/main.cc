// Three resets an hour: the fourth is denied, with a time to retry.

#include <weir/weir.h>

#include <cstdio>

int main() {
  weir::Limiter limiter = weir::Limiter::create(weir::system_clock()).value();
  const weir::Request request = {.ns = "password_reset",
                                 .identifier = "alice",
                                 .limit = 3,
                                 .duration = std::chrono::hours(1),
                                 .algorithm = weir::Algorithm::kSlidingLog};
  for (int i = 0; i < 3; ++i) {
    const auto verdict = limiter.check(request);
    if (!verdict || !verdict->admitted()) return std::puts("denied too early"), 1;
  }
  const auto fourth = limiter.check(request);
  if (!fourth || fourth->admitted()) return std::puts("admitted too much"), 1;
  if (!fourth->retry_after || *fourth->retry_after <= weir::Millis(0)) {
    return std::puts("denied without saying until when"), 1;
  }
  std::puts("3 admitted, the 4th denied");
}
