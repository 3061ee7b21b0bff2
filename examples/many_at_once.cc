// Many requests in one call: a server that reads a full buffer decides all its requests at once,
// which is faster than one by one. They are independent; check_all() decides all or nothing.

#include <weir/weir.h>

#include <iostream>
#include <vector>

int main() {
  const weir::Clock& clock = weir::system_clock();
  weir::Limiter limiter = weir::Limiter::create(clock).value();

  std::vector<weir::Request> requests;
  for (const char* client : {"alice", "bob", "alice", "alice", "bob", "carol", "alice"}) {
    requests.push_back({.ns = "search",
                        .identifier = client,
                        .limit = 2,
                        .duration = std::chrono::minutes(1),
                        .algorithm = weir::Algorithm::kSlidingLog});
  }

  std::vector<weir::Result<weir::Verdict>> verdicts(requests.size());
  limiter.check_each(clock.now(), requests, verdicts);

  for (size_t i = 0; i < requests.size(); ++i) {
    std::cout << requests[i].identifier << ": " << weir::to_string(verdicts[i]->outcome) << '\n';
  }
}
