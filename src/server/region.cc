#include "server/region.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <future>

#include "server/password.h"

namespace weir::server {
namespace {

constexpr Millis kTellEvery{10};
constexpr Millis kToTell{2000};
constexpr Millis kOriginLeaveTimeout{1000};
constexpr Millis kOriginPollPause{20};
// Losses shorter than this are not worth a line.
constexpr Millis kOriginLossNoticed{500};

}  // namespace

origins::RedisAddress origin_of(const Config& config) {
  origins::RedisAddress address = *config.origin;
  if (!address.password.empty()) return address;
  address.password =
      password_from("origin-password-file", config.origin_password_file, "WEIR_ORIGIN_PASSWORD");
  return address;
}

Region::Region(const Clock& clock, const Config& config) : clock_(clock) {
  if (!config.origin) return;
  const origins::RedisAddress address = origin_of(config);
  name_ = to_string(address);
  origin_ = origins::make_redis_origin(clock, {.address = address});
}

void Region::start(Limiter& limiter) {
  if (!origin_) return;
  const MonoTime now = clock_.now().mono;
  changed_ = now;
  origin_->start();
  teller_.start();
  teller_.post([this, &limiter, now] { flush(limiter, now); });
}

void Region::stop() {
  teller_.stop();
  if (origin_) origin_->stop();
}

// Tells what is due, again and again.
void Region::flush(Limiter& limiter, MonoTime planned) {
  if (leaving_.load(std::memory_order_relaxed)) return;
  const Instant now = clock_.now();
  limiter.run_replay(now, teller_);
  report(now.mono);
  // Turns that were missed are not made up for.
  const MonoTime next = std::max(planned + kTellEvery, now.mono);
  teller_.post_at(next, [this, &limiter, next] { flush(limiter, next); });
}

// Says once when the origin is lost, and once when it is back.
void Region::report(MonoTime now) {
  const bool there = accepts_writes(origin_->reach());
  if (there == was_there_) {
    changed_ = now;
  } else if (now - changed_ >= kOriginLossNoticed) {
    was_there_ = there;
    const std::string why = origin_->trouble();
    const std::string refusal = origin_->refusal();
    if (there) {
      fmt::print(stderr, "weir: the origin {} answers\n", name_);
    } else if (!refusal.empty()) {
      fmt::print(stderr, "weir: the origin {} refuses writes: {}; deciding on what is known\n",
                 name_, refusal);
    } else {
      fmt::print(stderr, "weir: the origin {} does not answer{}{}; deciding on what is known\n",
                 name_, why.empty() ? "" : ": ", why);
    }
  }
}

WorkReport Region::tell_all(Limiter& limiter) {
  std::promise<WorkReport> done;
  teller_.post([&] { done.set_value(limiter.run_replay(clock_.now(), teller_, Flush::kAll)); });
  return done.get_future().get();
}

void Region::leave(Limiter& limiter) {
  if (!origin_) return;
  leaving_.store(true, std::memory_order_relaxed);
  const MonoTime to_tell = clock_.now().mono + kToTell;
  bool acked = false;
  while (!acked && clock_.now().mono < to_tell) {
    const WorkReport report = tell_all(limiter);
    acked = report.done == 0 && report.waiting == 0 && limiter.stats().unacked == 0;
    if (!acked) platform::ThreadGroup::rest(kOriginPollPause);
  }
  const MonoTime to_leave = clock_.now().mono + kOriginLeaveTimeout;
  while (acked && limiter.run_shutdown(clock_.now()).waiting > 0 && clock_.now().mono < to_leave) {
    platform::ThreadGroup::rest(kOriginPollPause);
  }
  if (acked) {
    fmt::print(stderr, "weir: the origin was told everything\n");
  } else {
    fmt::print(stderr, "weir: {} cells could not be told to the origin\n", limiter.stats().unacked);
  }
}

}  // namespace weir::server
