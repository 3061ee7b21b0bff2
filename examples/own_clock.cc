// A clock of your own: the limiter asks it for the time and nothing else, so tests and
// simulations move time by hand.

#include <weir/weir.h>

#include <iostream>

// One thread at a time; a limiter shared by threads needs a clock that is safe from any thread.
class HandClock final : public weir::Clock {
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
  HandClock clock;
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
