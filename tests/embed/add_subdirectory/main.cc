// An embedder's own clock: the limiter admits exactly at the time of retry_after.

#include <weir/weir.h>

#include <cstdio>

class StoppedClock final : public weir::Clock {
 public:
  weir::Instant now() const override { return now_; }
  void advance(weir::Millis by) { now_ = {now_.wall + by, now_.mono + by}; }

 private:
  weir::Instant now_ = {weir::WallTime(std::chrono::hours(480'000)), weir::MonoTime()};
};

int main() {
  StoppedClock clock;
  weir::Limiter limiter = weir::Limiter::create(clock).value();
  const auto admitted = [&] {
    const auto verdict = limiter.check(
        {.ns = "api", .identifier = "alice", .limit = 3, .duration = std::chrono::minutes(1)});
    if (verdict && verdict->retry_after) clock.advance(*verdict->retry_after);
    return verdict && verdict->admitted();
  };
  for (int i = 0; i < 3; ++i) {
    if (!admitted()) return std::puts("denied too early"), 1;
  }
  if (admitted()) return std::puts("admitted too much"), 1;
  if (!admitted()) return std::puts("denied at retry_after"), 1;
  std::puts("3 admitted, the 4th denied, and admitted when it came back");
}
