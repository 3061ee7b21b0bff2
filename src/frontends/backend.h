// The interface from a front end to the limiter. NullBackend admits everything, to measure the cost
// of a front end alone.

#pragma once

#include <span>
#include <utility>

#include "weir/limiter.h"

namespace weir::frontends {

// Safe from any thread.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual void check_each(Instant now, std::span<const Request> requests,
                          std::span<Result<Verdict>> verdicts) = 0;
  [[nodiscard]] virtual Result<BatchVerdict> check_all(Instant now,
                                                       std::span<const Request> requests) = 0;

  // As in Limiter.
  [[nodiscard]] virtual Result<bool> reset(Instant now, const Request& request) = 0;

  // Whether a decision may have to read a store first. If not, the async calls are not used.
  [[nodiscard]] virtual bool may_wait() const { return false; }
  // As in Limiter. True: `done` was called before the return.
  [[nodiscard]] virtual bool check_each_async(Instant now, std::span<const Request> requests,
                                              std::span<Result<Verdict>> verdicts, Executor&,
                                              Task done) {
    check_each(now, requests, verdicts);
    done();
    return true;
  }
  virtual void check_all_async(Instant now, std::span<const Request> requests, Executor&,
                               BatchHandler done) {
    done(check_all(now, requests));
  }
};

class LimiterBackend final : public Backend {
 public:
  explicit LimiterBackend(Limiter& limiter) : limiter_(limiter) {}
  void check_each(Instant now, std::span<const Request> requests,
                  std::span<Result<Verdict>> verdicts) override {
    limiter_.check_each_local(now, requests, verdicts);
  }
  [[nodiscard]] Result<BatchVerdict> check_all(Instant now,
                                               std::span<const Request> requests) override {
    return limiter_.check_all_local(now, requests);
  }
  [[nodiscard]] Result<bool> reset(Instant now, const Request& request) override {
    return limiter_.reset(now, request);
  }
  [[nodiscard]] bool may_wait() const override { return limiter_.may_wait(); }
  [[nodiscard]] bool check_each_async(Instant now, std::span<const Request> requests,
                                      std::span<Result<Verdict>> verdicts, Executor& executor,
                                      Task done) override {
    return limiter_.check_each_async(now, requests, verdicts, executor, std::move(done)) ==
           Completion::kImmediate;
  }
  void check_all_async(Instant now, std::span<const Request> requests, Executor& executor,
                       BatchHandler done) override {
    limiter_.check_all_async(now, requests, executor, std::move(done));
  }

 private:
  Limiter& limiter_;
};

class NullBackend final : public Backend {
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
  [[nodiscard]] Result<bool> reset(Instant, const Request&) override { return false; }

 private:
  static Verdict admit(Instant now, const Request& request) {
    const Count limit = request.burst.value_or(request.limit);
    return {.outcome = Outcome::kAdmitted,
            .limit = limit,
            .remaining = limit,
            .reset = now.wall + request.duration};
  }
};

}  // namespace weir::frontends
