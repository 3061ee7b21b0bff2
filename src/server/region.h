// The region this process counts in: its origin, the thread that carries its messages, and what
// people are told about it. Nothing, for a process alone.

#pragma once

#include <memory>
#include <string>

#include "origins/redis/redis_origin.h"
#include "platform/thread_group.h"
#include "server/config.h"
#include "weir/limiter.h"

namespace weir::server {

// The origin with its password, from the address, the file of --origin-password-file, or
// WEIR_ORIGIN_PASSWORD, in this order. Throws if a file cannot be used.
[[nodiscard]] origins::RedisAddress origin_of(const Config& config);

// Where it is, without what is secret.
[[nodiscard]] std::string to_string(const origins::RedisAddress& address);

class Region {
 public:
  Region(const Clock& clock, const Config& config);
  ~Region() { stop(); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] const std::shared_ptr<origins::RedisOrigin>& origin() const { return origin_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  void start();
  void stop();

  // Says once when the origin is lost, and once when it is back. From one thread at a time.
  void report(MonoTime now);

  // Tells the origin what it was not told and leaves it to the others, for a few seconds at
  // most; says what is left. Once no request comes any more.
  void leave(Limiter& limiter) const;

 private:
  const Clock& clock_;
  std::string name_ = "memory";
  std::shared_ptr<origins::RedisOrigin> origin_;
  platform::ThreadGroup carrier_;
  // Of report().
  bool was_there_ = true;
  MonoTime changed_{};
};

}  // namespace weir::server
