// Several limits at once: an upload counts against the user and against the team. If one denies
// it, neither is charged.

#include <weir/weir.h>

#include <iostream>
#include <vector>

int main() {
  weir::Limiter limiter = weir::Limiter::create(weir::system_clock()).value();

  const auto upload = [&](std::string_view user, weir::Count megabytes) {
    const std::vector<weir::Request> limits = {{.ns = "uploads of a user",
                                                .identifier = user,
                                                .limit = 100,
                                                .duration = std::chrono::hours(1),
                                                .cost = megabytes},
                                               {.ns = "uploads of a team",
                                                .identifier = "blue",
                                                .limit = 150,
                                                .duration = std::chrono::hours(1),
                                                .cost = megabytes}};
    const weir::BatchVerdict verdict = limiter.check_all(limits).value();
    std::cout << user << ", " << megabytes << " MB: " << weir::to_string(verdict.outcome)
              << ", leaving " << user << ' ' << verdict.items[0].remaining << " and the team "
              << verdict.items[1].remaining << '\n';
  };

  upload("alice", 90);
  upload("bob", 80);  // denied by the team's limit: neither is charged
  upload("bob", 60);  // so this fits both
}
