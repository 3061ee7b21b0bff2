// How many commands an embedded limiter sends to Redis for what it accepts.
//
// One thread asks, in groups of sixteen keys drawn at random, and replays every 10 ms, as the
// thread of a server does. The limit is so high that all is accepted and nothing is urgent. No
// window begins while it is measured: each key's first accept in a window costs a few commands
// more, once in 60 s.

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
constexpr Millis kReplayEvery{10};
constexpr Millis kStep{1};
constexpr Millis kPatience{5000};
constexpr double kWarmPerSecond = 20'000;   // keys, so that their reads do not pile up
constexpr Millis kSettle{1000};             // at the rate, before it is measured
constexpr uint64_t kGroupsPerReading = 16;  // of the clock
constexpr uint64_t kMostWaiting = 4096;     // groups; then nobody asks until some are answered

double seconds_of(Nanos span) {
  return std::chrono::duration<double>(span).count();
}
Nanos nanos_of(double seconds) {
  return Nanos(static_cast<int64_t>(seconds * 1e9));
}

// One limiter that shares its counts through Redis, and who asks it.
class Asker {
 public:
  Asker(const Clock& clock, Limiter& limiter, Executor& home, size_t keys)
      : clock_(clock), limiter_(limiter), home_(home), random_(platform::entropy()) {
    for (size_t i = 0; i < keys; ++i) names_.push_back(identifier_number(i, kIdentifierBytes));
  }

  void ask_for_all() {
    size_t next = 0;
    const Nanos span = nanos_of(static_cast<double>(names_.size()) / kWarmPerSecond);
    ask(kWarmPerSecond, span, [&] { return next++ % names_.size(); });
  }
  // `rate` for all keys together; 0: without a pause.
  void ask_at_random(double rate, Nanos span) {
    ask(rate, span, [&] { return base::split_mix(random_) % names_.size(); });
  }

  // Until all is answered; false if that takes too long.
  [[nodiscard]] bool finish() {
    const MonoTime end = clock_.now().mono + kPatience;
    while (waiting() > 0 && clock_.now().mono < end) rest();
    return waiting() == 0;
  }

 private:
  using Verdicts = std::array<Result<Verdict>, kGroup>;

  template <typename Draw>
  void ask(double rate, Nanos span, const Draw& draw) {
    const MonoTime begin = clock_.now().mono;
    uint64_t asked = 0;
    for (;;) {
      const Instant now = clock_.now();
      if (now.mono - begin >= span) return;
      replay_if_due(now);
      const double owed = rate * seconds_of(now.mono - begin) / kGroup;
      const bool behind = rate == 0 || static_cast<double>(asked) < owed;
      if (!behind || waiting() >= kMostWaiting) {
        rest();
        continue;
      }
      for (uint64_t i = 0; i < kGroupsPerReading; ++i, ++asked) {
        if (rate != 0 && static_cast<double>(asked) >= owed) break;
        ask_group(now, draw);
      }
    }
  }

  template <typename Draw>
  void ask_group(Instant now, const Draw& draw) {
    std::array<Request, kGroup> requests;
    for (Request& request : requests) request = request_for(names_[draw()]);
    auto verdicts = std::make_unique<Verdicts>();
    const auto results = std::span(*verdicts);
    ++put_off_;
    limiter_.check_each_async(now, requests, results, home_,
                              [this, verdicts = std::move(verdicts)] {
                                answered_.fetch_add(1, std::memory_order_relaxed);
                              });
  }

  void replay_if_due(Instant now) {
    if (now.mono < replay_at_) return;
    replay_at_ = now.mono + kReplayEvery;
    limiter_.run_replay(now, home_);
  }
  void rest() {
    ThreadGroup::rest(kStep);
    replay_if_due(clock_.now());
  }
  [[nodiscard]] uint64_t waiting() const {
    return put_off_ - answered_.load(std::memory_order_relaxed);
  }

  const Clock& clock_;
  Limiter& limiter_;
  Executor& home_;
  uint64_t random_;
  std::vector<std::string> names_;
  MonoTime replay_at_{};
  uint64_t put_off_ = 0;               // groups that had to wait for Redis
  std::atomic<uint64_t> answered_{0};  // of those; raised on `home_`
};

// Processor time a process has used.
double processor_seconds(int process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string stat;
  std::getline(file, stat);
  unsigned long user = 0;
  unsigned long system = 0;
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  // NOLINTNEXTLINE(cert-err34-c): numbers of the kernel
  std::sscanf(stat.c_str() + name_end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
              &user, &system);
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

using Commands = std::array<uint64_t, static_cast<size_t>(OriginCommand::kCount)>;

// All that is compared between two moments.
struct Reading {
  MonoTime at;
  LimiterStats limiter;
  Commands commands{};
  double redis_seconds = 0;
};

Reading take_reading(const Clock& clock, const Limiter& limiter, const origins::RedisOrigin& origin,
                     int process) {
  Reading reading{.at = clock.now().mono,
                  .limiter = limiter.stats(),
                  .redis_seconds = processor_seconds(process)};
  for (size_t i = 0; i < reading.commands.size(); ++i) {
    reading.commands[i] = origin.metrics().commands.total(static_cast<OriginCommand>(i));
  }
  return reading;
}

std::string to_json(const CommandsPlan& plan, const Reading& before, const Reading& after) {
  std::string kinds;
  uint64_t all = 0;
  for (size_t i = 0; i < before.commands.size(); ++i) {
    const uint64_t count = after.commands[i] - before.commands[i];
    all += count;
    kinds += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", to_string(static_cast<OriginCommand>(i)),
                         count);
  }
  const LimiterStats& was = before.limiter;
  const LimiterStats& is = after.limiter;
  return fmt::format(
      R"({{"keys":{},"rate":{},"seconds":{:.6f},"accepted":{},"commands":{},"kinds":{{{}}},)"
      R"("degraded":{},"reads":{},"redis_seconds":{:.2f}}})",
      plan.keys, plan.rate, seconds_of(after.at - before.at), is.admitted - was.admitted, all,
      kinds, is.degraded - was.degraded,
      is.cold.asked + is.stale.asked - was.cold.asked - was.stale.asked,
      after.redis_seconds - before.redis_seconds);
}

// Begins late enough that no window does before the end.
void await_room_in_window(const Clock& clock, Nanos needed) {
  const Millis into = clock.now().wall.time_since_epoch() % kDuration;
  const Millis left = kDuration - into;
  if (left < needed + Millis(500)) ThreadGroup::rest(left + kStep);
}

bool await_origin(const Clock& clock, const origins::RedisOrigin& origin) {
  const MonoTime end = clock.now().mono + kPatience;
  while (origin.reach() != Reach::kPrompt && clock.now().mono < end) ThreadGroup::rest(kStep);
  return origin.reach() == Reach::kPrompt;
}

// What went wrong; empty: nothing.
std::string measure(const CommandsPlan& plan, const Clock& clock,
                    const std::shared_ptr<origins::RedisOrigin>& origin, Executor& home) {
  if (!await_origin(clock, *origin)) return "no answer from redis-server: " + origin->trouble();
  Limiter limiter = Limiter::create(clock, {.origin = origin}).value();
  Asker asker(clock, limiter, home, plan.keys);
  const double rate = plan.rate * static_cast<double>(plan.keys);
  const Nanos span = nanos_of(plan.seconds);
  const Nanos to_warm = nanos_of(static_cast<double>(plan.keys) / kWarmPerSecond) + kSettle;
  await_room_in_window(clock, to_warm + span);
  asker.ask_for_all();
  asker.ask_at_random(rate, kSettle);
  const Reading before = take_reading(clock, limiter, *origin, plan.process);
  asker.ask_at_random(rate, span);
  const Reading after = take_reading(clock, limiter, *origin, plan.process);
  if (!asker.finish()) return "requests were not answered";
  if (limiter.stats().denied > 0) return "a request was denied";
  fmt::print("{}\n", to_json(plan, before, after));
  return {};
}

}  // namespace

int measure_commands(const CommandsPlan& plan) {
  const Clock& clock = system_clock();
  const auto origin = origins::make_redis_origin(clock, {.address = {.port = plan.port}});
  platform::ThreadExecutor home;
  home.start();
  origin->start();
  const std::string wrong = measure(plan, clock, origin, home);
  origin->stop();
  home.stop();
  if (!wrong.empty()) fmt::print(stderr, "weir_region_bench: {}\n", wrong);
  return wrong.empty() ? 0 : 1;
}

}  // namespace weir::bench
