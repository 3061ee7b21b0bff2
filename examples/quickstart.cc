// The smallest use: three password resets an hour for each account.

#include <weir/weir.h>

#include <iostream>

int main() {
  weir::Limiter limiter = weir::Limiter::create(weir::system_clock()).value();

  for (int attempt = 1; attempt <= 4; ++attempt) {
    const auto verdict = limiter.check({.ns = "password_reset",
                                        .identifier = "alice",
                                        .limit = 3,
                                        .duration = std::chrono::hours(1)});
    if (!verdict) {  // the question was wrong; a denial is not an error
      std::cout << verdict.error().detail << ": " << verdict.error().fix << '\n';
      return 1;
    }
    std::cout << "attempt " << attempt << ": ";
    if (verdict->admitted()) {
      std::cout << "go ahead, " << verdict->remaining << " left\n";
    } else {
      std::cout << "try again in " << verdict->retry_after->count() << " ms\n";
    }
  }
}
