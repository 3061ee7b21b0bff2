// Measures how many commands an embedded limiter sends to Redis per admission.
//
// One thread sends requests in groups of sixteen random keys and replays every 10 ms, as the thread
// of a server does. The limit is high enough that everything is admitted and nothing is urgent. No
// window starts during the measurement: the first admission of a key in a window costs a few more
// commands, once in 60 s.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/split_mix.h"
#include "bench/region/connected.h"
#include "bench/region/region.h"
#include "bench/requests.h"
#include "origins/redis/redis_origin.h"
#include "platform/entropy.h"
#include "platform/thread_executor.h"
#include "platform/thread_group.h"
#include "weir/limiter.h"

namespace weir::bench {
namespace {

using platform::ThreadGroup;
using telemetry::OriginCommand;

constexpr size_t kGroup = 16;
constexpr Millis kReplayInterval{10};
constexpr Millis kSleep{1};
constexpr Millis kReplyTimeout{30'000};
constexpr double kWarmPerSecond = 20'000;  // keys: faster, their reads would queue
constexpr Millis kSettle{1000};            // at the full rate, before the measurement
// A process that has just joined asks Redis about every request.
const Millis kJoined = Options{}.max_freshness + Millis(2000);
constexpr uint64_t kGroupsPerClockRead = 16;
constexpr uint64_t kMaxPending = 4096;  // groups

double seconds_of(Nanos span) {
  return std::chrono::duration<double>(span).count();
}
Nanos nanos_of(double seconds) {
  return Nanos(static_cast<int64_t>(seconds * 1e9));
}

// Sends requests to a limiter that shares its counts through Redis.
class Client {
 public:
  Client(const Clock& clock, Limiter& limiter, Executor& executor, size_t keys)
      : clock_(clock), limiter_(limiter), executor_(executor), random_(platform::entropy()) {
    for (size_t i = 0; i < keys; ++i) names_.push_back(identifier_number(i, kIdentifierBytes));
  }

  void check_all_keys() {
    size_t next = 0;
    const Nanos span = nanos_of(static_cast<double>(names_.size()) / kWarmPerSecond);
    run(kWarmPerSecond, span, [&] { return next++ % names_.size(); });
  }
  // `rate` is the total of all keys; 0: maximum.
  void check_random_keys(double rate, Nanos span) {
    run(rate, span, [&] { return base::split_mix(random_) % names_.size(); });
  }

  void wait(Nanos span) {
    const MonoTime end = clock_.now().mono + span;
    while (clock_.now().mono < end) sleep();
  }

  // Waits for all replies; returns false after a timeout.
  [[nodiscard]] bool finish() {
    const MonoTime end = clock_.now().mono + kReplyTimeout;
    while (pending() > 0 && clock_.now().mono < end) sleep();
    return pending() == 0;
  }

 private:
  using Verdicts = std::array<Result<Verdict>, kGroup>;

  template <typename Draw>
  void run(double rate, Nanos span, const Draw& draw) {
    const MonoTime begin = clock_.now().mono;
    uint64_t sent = 0;
    for (;;) {
      const Instant now = clock_.now();
      if (now.mono - begin >= span) return;
      replay_if_due(now);
      const double due = rate * seconds_of(now.mono - begin) / kGroup;
      const bool behind = rate == 0 || static_cast<double>(sent) < due;
      if (!behind || pending() >= kMaxPending) {
        sleep();
        continue;
      }
      for (uint64_t i = 0; i < kGroupsPerClockRead; ++i, ++sent) {
        if (rate != 0 && static_cast<double>(sent) >= due) break;
        check_group(now, draw);
      }
    }
  }

  template <typename Draw>
  void check_group(Instant now, const Draw& draw) {
    std::array<Request, kGroup> requests;
    for (Request& request : requests) request = request_for(names_[draw()]);
    auto verdicts = std::make_unique<Verdicts>();
    const auto results = std::span(*verdicts);
    ++deferred_;
    limiter_.check_each_async(now, requests, results, executor_,
                              [this, verdicts = std::move(verdicts)] {
                                completed_.fetch_add(1, std::memory_order_relaxed);
                              });
  }

  void replay_if_due(Instant now) {
    if (now.mono < replay_at_) return;
    replay_at_ = now.mono + kReplayInterval;
    limiter_.run_replay(now, executor_);
  }
  void sleep() {
    ThreadGroup::sleep(kSleep);
    replay_if_due(clock_.now());
  }
  [[nodiscard]] uint64_t pending() const {
    return deferred_ - completed_.load(std::memory_order_relaxed);
  }

  const Clock& clock_;
  Limiter& limiter_;
  Executor& executor_;
  uint64_t random_;
  std::vector<std::string> names_;
  MonoTime replay_at_{};
  uint64_t deferred_ = 0;               // groups that were started
  std::atomic<uint64_t> completed_{0};  // of those; incremented on `executor_`
};

// CPU time that a process has used.
double cpu_seconds(int process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string stat;
  std::getline(file, stat);
  unsigned long user = 0;
  unsigned long system = 0;
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  // NOLINTNEXTLINE(cert-err34-c): the kernel writes valid numbers
  std::sscanf(stat.c_str() + name_end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
              &user, &system);
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

using Commands = std::array<uint64_t, static_cast<size_t>(OriginCommand::kCount)>;

// All counters at one time.
struct Reading {
  MonoTime at;
  LimiterStats limiter;
  Commands commands{};
  double redis_seconds = 0;
};

Reading take_reading(const Clock& clock, const Limiter& limiter, const origins::RedisOrigin& origin,
                     int process) {
  Reading reading{
      .at = clock.now().mono, .limiter = limiter.stats(), .redis_seconds = cpu_seconds(process)};
  for (size_t i = 0; i < reading.commands.size(); ++i) {
    reading.commands[i] = origin.metrics().commands.total(static_cast<OriginCommand>(i));
  }
  return reading;
}

std::string to_json(const CommandsPlan& plan, const Reading& before, const Reading& after) {
  const auto count = [&](OriginCommand kind) {
    const auto i = static_cast<size_t>(kind);
    return after.commands[i] - before.commands[i];
  };
  std::string kinds;
  uint64_t commands = 0;
  for (size_t i = 0; i < before.commands.size(); ++i) {
    const auto kind = static_cast<OriginCommand>(i);
    commands += count(kind);
    kinds += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", to_string(kind), count(kind));
  }
  const LimiterStats& first = before.limiter;
  const LimiterStats& last = after.limiter;
  return fmt::format(
      R"({{"keys":{},"rate":{},"seconds":{:.6f},"admitted":{},"commands":{},"hset":{},"hgetall":{},)"
      R"("kinds":{{{}}},"degraded":{},"reads":{},"redis_seconds":{:.2f}}})",
      plan.keys, plan.rate, seconds_of(after.at - before.at), last.admitted - first.admitted,
      commands, count(OriginCommand::kReplay), count(OriginCommand::kRead), kinds,
      last.degraded - first.degraded,
      last.cold.asked + last.stale.asked - first.cold.asked - first.stale.asked,
      after.redis_seconds - before.redis_seconds);
}

// Waits for the next window if the current one ends too early.
void await_window(const Clock& clock, Nanos needed) {
  const Millis elapsed = clock.now().wall.time_since_epoch() % kDuration;
  const Millis left = kDuration - elapsed;
  if (left < needed + Millis(500)) ThreadGroup::sleep(left + kSleep);
}

// Returns an error; empty: success.
std::string measure(const CommandsPlan& plan, const Clock& clock,
                    const std::shared_ptr<origins::RedisOrigin>& origin, Executor& executor) {
  Limiter limiter =
      Limiter::create(clock, {.origin = origin, .read_deadline = kReadDeadline}).value();
  Client client(clock, limiter, executor, plan.keys);
  client.wait(plan.smoke ? Millis(0) : kJoined);
  const double rate = plan.rate * static_cast<double>(plan.keys);
  const Nanos span = nanos_of(plan.seconds);
  const Nanos settle = plan.smoke ? Millis(10) : kSettle;
  const Nanos to_warm = nanos_of(static_cast<double>(plan.keys) / kWarmPerSecond) + settle;
  await_window(clock, to_warm + span);
  client.check_all_keys();
  client.check_random_keys(rate, settle);
  const Reading before = take_reading(clock, limiter, *origin, plan.process);
  client.check_random_keys(rate, span);
  // Without warm-up each request waits for Redis.
  if (plan.smoke && !client.finish()) return "replies are missing";
  const Reading after = take_reading(clock, limiter, *origin, plan.process);
  if (!client.finish()) return "replies are missing";
  if (limiter.stats().denied > 0) return "a request was denied";
  fmt::print("{}\n", to_json(plan, before, after));
  return {};
}

}  // namespace

int measure_commands(const CommandsPlan& plan) {
  return measure_connected(plan.port, [&](const auto& clock, const auto& origin, auto& executor) {
    return measure(plan, clock, origin, executor);
  });
}

}  // namespace weir::bench
