// Sessions whose decisions have to wait: a backend that decides when the test says so, and a
// service with it.

#pragma once

#include <deque>
#include <memory>
#include <span>
#include <utility>

#include "frontends/fixture_test.h"

namespace weir::frontends {

class WaitingBackend final : public Backend {
 public:
  explicit WaitingBackend(Limiter& limiter) : limiter_(limiter) {}

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
  [[nodiscard]] bool may_wait() const override { return true; }
  [[nodiscard]] bool check_each_async(Instant now, std::span<const Request> requests,
                                      std::span<Result<Verdict>> verdicts, Executor&,
                                      Task done) override {
    check_each(now, requests, verdicts);
    waiting_.push_back(std::move(done));
    return false;
  }
  void check_all_async(Instant now, std::span<const Request> requests, Executor&,
                       BatchHandler done) override {
    auto verdict = std::make_shared<Result<BatchVerdict>>(check_all(now, requests));
    auto handler = std::make_shared<BatchHandler>(std::move(done));
    waiting_.push_back([verdict, handler] { (*handler)(std::move(*verdict)); });
  }

  [[nodiscard]] size_t waiting() const { return waiting_.size(); }
  // The oldest decision that waits is ready.
  void finish() {
    Task done = std::move(waiting_.front());
    waiting_.pop_front();
    done();
  }

 private:
  Limiter& limiter_;
  std::deque<Task> waiting_;
};

class IdleExecutor final : public Executor {
 public:
  void post(Task) override {}
  void post_at(MonoTime, Task) override {}
};

struct WaitingFixture {
  Fixture fixture;
  WaitingBackend backend{fixture.limiter};
  IdleExecutor executor;
  Service service{.clock = fixture.clock,
                  .backend = backend,
                  .limiter = fixture.limiter,
                  .keys = fixture.keys,
                  .catalog = fixture.catalog,
                  .region = "here",
                  .node = "node-1"};
};

}  // namespace weir::frontends
