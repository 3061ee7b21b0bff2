// Measures exact decisions on one key.
//
// As many callers as the plan says share an embedded limiter. Each asks again when it has its
// verdict, so there are never more requests than callers.

#include <fmt/format.h>

#include <future>
#include <string>

#include "bench/region/connected.h"
#include "bench/region/region.h"
#include "origins/redis/redis_origin.h"
#include "platform/thread_executor.h"
#include "weir/limiter.h"

namespace weir::bench {
namespace {

// All callers run on one thread.
class Callers {
 public:
  Callers(const Clock& clock, Limiter& limiter, platform::ThreadExecutor& executor,
          const ExactPlan& plan)
      : clock_(clock), limiter_(limiter), executor_(executor), plan_(plan) {}

  // Returns the time that all requests took.
  Nanos run() {
    const MonoTime begin = clock_.now().mono;
    executor_.post([this] {
      for (size_t i = 0; i < plan_.callers; ++i) ask();
    });
    ended_.get_future().wait();
    return clock_.now().mono - begin;
  }
  [[nodiscard]] uint64_t refused() const { return refused_; }

 private:
  void ask() {
    if (asked_ == plan_.requests) return;
    ++asked_;
    limiter_.check_async(clock_.now(),
                         {.ns = "bench",
                          .identifier = plan_.key,
                          .limit = plan_.limit,
                          .duration = Millis(60'000),
                          .algorithm = plan_.algorithm,
                          .consistency = Consistency::kExact},
                         executor_, [this](const Result<Verdict>& verdict) {
                           const bool decided = verdict && verdict->admitted() &&
                                                verdict->basis == Basis::kRefreshed;
                           if (!decided) ++refused_;
                           if (++answered_ == plan_.requests) return ended_.set_value();
                           ask();
                         });
  }

  const Clock& clock_;
  Limiter& limiter_;
  platform::ThreadExecutor& executor_;
  const ExactPlan& plan_;
  uint64_t asked_ = 0;
  uint64_t answered_ = 0;
  uint64_t refused_ = 0;
  std::promise<void> ended_;
};

// Returns an error; empty: success.
std::string measure(const ExactPlan& plan, const Clock& clock,
                    const std::shared_ptr<origins::RedisOrigin>& origin,
                    platform::ThreadExecutor& executor) {
  Limiter limiter =
      Limiter::create(clock, {.origin = origin, .read_deadline = kReadDeadline}).value();
  Callers callers(clock, limiter, executor, plan);
  const Nanos took = callers.run();
  if (callers.refused() > 0) {
    return fmt::format("{} of {} requests were not admitted by Redis", callers.refused(),
                       plan.requests);
  }
  fmt::print(R"({{"rate":{:.0f},"steps":{}}})"
             "\n",
             static_cast<double>(plan.requests) / std::chrono::duration<double>(took).count(),
             limiter.stats().steps.asked);
  return {};
}

}  // namespace

int measure_exact(const ExactPlan& plan) {
  return measure_connected(plan.port, [&](const auto& clock, const auto& origin, auto& executor) {
    return measure(plan, clock, origin, executor);
  });
}

}  // namespace weir::bench
