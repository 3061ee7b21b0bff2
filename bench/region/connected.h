// What the measurements with an embedded limiter have in common: an origin on a local redis-server,
// and a thread for its replies.

#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "origins/redis/redis_origin.h"
#include "platform/thread_executor.h"
#include "platform/thread_group.h"

namespace weir::bench {

// A verdict without Redis would end a measurement, so a request waits as long as it may.
constexpr Millis kReadDeadline{10'000};

// Calls `measure(clock, origin, executor)` once the origin answers; it returns an error, or
// nothing. Returns the exit status.
template <typename Measure>
[[nodiscard]] int measure_connected(uint16_t port, const Measure& measure) {
  constexpr Millis kConnectTimeout{30'000};
  const Clock& clock = system_clock();
  const auto origin = origins::make_redis_origin(
      clock, {.address = {.port = port},
              .timeouts = origins::RedisTimeouts::with_deadline(kReadDeadline)});
  platform::ThreadExecutor executor;
  executor.start();
  origin->start();
  const MonoTime end = clock.now().mono + kConnectTimeout;
  while (origin->reach() != Reach::kPrompt && clock.now().mono < end) {
    platform::ThreadGroup::sleep(Millis(1));
  }
  const std::string error = origin->reach() == Reach::kPrompt
                                ? measure(clock, origin, executor)
                                : "no reply from redis-server: " + origin->last_error();
  origin->stop();
  executor.stop();
  if (!error.empty()) fmt::print(stderr, "weir_region_bench: {}\n", error);
  return error.empty() ? 0 : 1;
}

}  // namespace weir::bench
