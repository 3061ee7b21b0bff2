// The region this process counts in: its origin, the threads that carry its messages and tell it
// what was accepted, and what people are told about it. Nothing, for a process alone.
//
// Telling has a thread of its own: a pass over thousands of tuples would keep requests waiting.

#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "origins/redis/redis_origin.h"
#include "platform/thread_executor.h"
#include "platform/thread_group.h"
#include "server/config.h"
#include "weir/limiter.h"

namespace weir::server {

// The origin with its password, from the address, the file of --origin-password-file, or
// WEIR_ORIGIN_PASSWORD, in this order. Throws if a file cannot be used.
[[nodiscard]] origins::RedisAddress origin_of(const Config& config);

class Region {
 public:
  Region(const Clock& clock, const Config& config);
  ~Region() { stop(); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] const std::shared_ptr<origins::RedisOrigin>& origin() const { return origin_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  // From here on the origin is told what the limiter accepts, until leave() or stop().
  void start(Limiter& limiter);
  void stop();

  // Tells the origin what it was not told and leaves it to the others, for a few seconds at
  // most; says what is left. Once no request comes any more.
  void leave(Limiter& limiter);

 private:
  void flush(Limiter& limiter, MonoTime planned);
  [[nodiscard]] WorkReport tell_all(Limiter& limiter);
  void report(MonoTime now);

  const Clock& clock_;
  std::string name_ = "memory";
  std::shared_ptr<origins::RedisOrigin> origin_;
  platform::ThreadExecutor teller_;
  std::atomic<bool> leaving_{false};
  // On the teller's thread.
  bool was_there_ = true;
  MonoTime changed_{};
};

}  // namespace weir::server
