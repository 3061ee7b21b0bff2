// A clock of your own: it is the limiter's only source of time, so tests and simulations can move
// time themselves. weir/testing.h has such a clock ready.

#include <weir/weir.h>

#include <iostream>

// One thread at a time; a limiter that threads share needs a clock that is safe from any thread.
class ManualClock final : public weir::Clock {
 public:
  [[nodiscard]] weir::Instant now() const override { return now_; }
  void advance(weir::Millis by) {
    now_.wall += by;
    now_.mono += by;
  }

 private:
  weir::Instant now_ = {.wall = weir::WallTime(weir::Millis(1'700'000'000'000)), .mono = {}};
};

int main() {
  ManualClock clock;
  weir::Limiter limiter = weir::Limiter::create(clock).value();

  const weir::Request request = {.ns = "api",
                                 .identifier = "alice",
                                 .limit = 2,
                                 .duration = std::chrono::seconds(10),
                                 .algorithm = weir::Algorithm::kGcra};
  const auto ask = [&](std::string_view when) {
    const weir::Verdict verdict = limiter.check(request).value();
    std::cout << when << ": " << weir::to_string(verdict.outcome) << '\n';
    return verdict;
  };

  ask("first");
  ask("second");
  const weir::Millis wait = ask("third").retry_after.value();
  clock.advance(wait - weir::Millis(1));
  ask("1 ms before retry_after");
  clock.advance(weir::Millis(1));
  ask("at retry_after");
}
