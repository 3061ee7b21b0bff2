// What a front end asks: the limiter, or, when the price of the front end alone is wanted,
// someone who says yes to everything.

#pragma once

#include <span>

#include "weir/limiter.h"

namespace weir::frontends {

// Safe from any thread.
class Decider {
 public:
  virtual ~Decider() = default;
  virtual void check_each(Instant now, std::span<const Request> requests,
                          std::span<Result<Verdict>> verdicts) = 0;
  [[nodiscard]] virtual Result<BatchVerdict> check_all(Instant now,
                                                       std::span<const Request> requests) = 0;
};

class LimiterDecider final : public Decider {
 public:
  explicit LimiterDecider(Limiter& limiter) : limiter_(limiter) {}
  void check_each(Instant now, std::span<const Request> requests,
                  std::span<Result<Verdict>> verdicts) override {
    limiter_.check_each(now, requests, verdicts);
  }
  [[nodiscard]] Result<BatchVerdict> check_all(Instant now,
                                               std::span<const Request> requests) override {
    return limiter_.check_all(now, requests);
  }

 private:
  Limiter& limiter_;
};

class NullDecider final : public Decider {
 public:
  void check_each(Instant now, std::span<const Request> requests,
                  std::span<Result<Verdict>> verdicts) override {
    for (size_t i = 0; i < requests.size(); ++i) verdicts[i] = admit(now, requests[i]);
  }
  [[nodiscard]] Result<BatchVerdict> check_all(Instant now,
                                               std::span<const Request> requests) override {
    BatchVerdict verdict{.outcome = Outcome::kAdmitted};
    for (const Request& request : requests) verdict.items.push_back(admit(now, request));
    return verdict;
  }

 private:
  static Verdict admit(Instant now, const Request& request) {
    const auto limit = static_cast<Count>(request.burst.value_or(request.limit));
    return {.outcome = Outcome::kAdmitted,
            .limit = limit,
            .remaining = limit,
            .reset = now.wall + request.duration};
  }
};

}  // namespace weir::frontends
