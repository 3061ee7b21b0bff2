// Weir in the comparison: an embedded limiter with gcra that shares its counts through Redis.

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "bench/zoo/zoo.h"
#include "origins/redis/redis_origin.h"
#include "platform/thread_executor.h"
#include "platform/thread_group.h"
#include "weir/limiter.h"
#include "weir/runner.h"

namespace weir::bench {
namespace {

using telemetry::OriginCommand;

constexpr Millis kConnectTimeout{30'000};

class WeirLimiter final : public RateLimiter {
 public:
  WeirLimiter(uint16_t port, Consistency consistency)
      : consistency_(consistency),
        origin_(origins::make_redis_origin(clock_, {.address = {.port = port}})),
        limiter_(Limiter::create(clock_, {.origin = origin_}).value()),
        runner_(clock_, limiter_) {}

  void start() override {
    executor_.start();
    origin_->start();
    runner_.start();
    const MonoTime end = clock_.now().mono + kConnectTimeout;
    while (!origin_->metrics().ready.load(std::memory_order_relaxed)) {
      if (clock_.now().mono > end) {
        throw std::runtime_error("no reply from redis-server: " + origin_->last_error());
      }
      platform::ThreadGroup::sleep(Millis(1));
    }
  }

  void stop() override {
    runner_.stop();
    origin_->stop();
    executor_.stop();
  }

  [[nodiscard]] Executor& executor() override { return executor_; }

  void ask(Instant now, const std::string& key, const Limits& limits, Done done) override {
    limiter_.check_async(now,
                         {.ns = "zoo",
                          .identifier = key,
                          .limit = limits.limit,
                          .duration = limits.duration,
                          .algorithm = Algorithm::kGcra,
                          .consistency = consistency_},
                         executor_, [done = std::move(done)](const Result<Verdict>& verdict) {
                           if (!verdict) return done(Answer::kError);
                           done(verdict->admitted() ? Answer::kAllowed : Answer::kRejected);
                         });
  }

  [[nodiscard]] uint64_t sent() const override {
    uint64_t sum = 0;
    for (size_t i = 0; i < static_cast<size_t>(OriginCommand::kCount); ++i) {
      sum += origin_->metrics().commands.total(static_cast<OriginCommand>(i));
    }
    return sum;
  }
  [[nodiscard]] uint64_t degraded() const override { return limiter_.stats().degraded; }

 private:
  const Clock& clock_ = system_clock();
  const Consistency consistency_;
  platform::ThreadExecutor executor_;
  const std::shared_ptr<origins::RedisOrigin> origin_;
  Limiter limiter_;
  Runner runner_;
};

}  // namespace

std::unique_ptr<RateLimiter> make_weir_limiter(uint16_t port, Consistency consistency) {
  return std::make_unique<WeirLimiter>(port, consistency);
}

}  // namespace weir::bench
