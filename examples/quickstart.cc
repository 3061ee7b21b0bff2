// The smallest use: three password resets an hour for each account.

#include <weir/weir.h>

#include <iostream>

int main() {
  auto limiter = weir::Limiter::create(weir::system_clock());
  if (!limiter) {  // an option is outside of its range
    std::cout << limiter.error().detail << ": " << limiter.error().fix << '\n';
    return 1;
  }

  for (int attempt = 1; attempt <= 4; ++attempt) {
    const auto verdict = limiter->check({.ns = "password_reset",
                                         .identifier = "alice",
                                         .limit = 3,
                                         .duration = std::chrono::hours(1)});
    if (!verdict) {  // the request was invalid; a denial is not an error
      std::cout << verdict.error().detail << ": " << verdict.error().fix << '\n';
      return 1;
    }
    std::cout << "attempt " << attempt << ": ";
    if (verdict->admitted()) {
      std::cout << "admitted, " << verdict->remaining << " left\n";
    } else {
      std::cout << "denied, try again in " << verdict->retry_after->count() << " ms\n";
    }
  }
}
