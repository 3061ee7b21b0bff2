// The regional origin of this process: its connection, and the log lines about its state. Empty
// for a process without an origin.

#pragma once

#include <memory>
#include <string>

#include "origins/redis/redis_origin.h"
#include "server/config.h"
#include "weir/runner.h"

namespace weir::server {

// The address with its password, from the URL, the file of --origin-password-file, or
// WEIR_ORIGIN_PASSWORD, in this order. Throws if the file cannot be read.
[[nodiscard]] origins::RedisAddress origin_of(const Config& config);

// One thread at a time, except report().
class Region {
 public:
  // Throws if the origin answers and has data of another version or region.
  Region(const Clock& clock, const Config& config);
  ~Region() { stop(); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] const std::shared_ptr<origins::RedisOrigin>& origin() const { return origin_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  // Connects to the origin, until stop().
  void start();
  void stop();

  // Logs each change between an origin that answers, one that is lost, and one that refuses writes,
  // for which there is another remedy. Called by the thread that replays.
  void report(MonoTime now);
  void report(const DrainReport& drained) const;

 private:
  enum class OriginState : uint8_t { kAnswers, kRefusesWrites, kSilent };

  const Clock& clock_;
  std::string name_ = "memory";
  std::shared_ptr<origins::RedisOrigin> origin_;
  // Of the thread that replays.
  OriginState reported_ = OriginState::kAnswers;
  MonoTime unchanged_until_{};
};

}  // namespace weir::server
