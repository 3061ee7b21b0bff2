// What must be sent to Redis again so that cells stay as they should be: expiries that were not
// confirmed, and counts of processes that left.
//
// Each process tells its own component again after Redis lost its memory. A process that left does
// not, so those who read the component of all who left remember it and tell it for them.
//
// Bounded: what does not fit is not remembered. One thread at a time.

#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "weir/request.h"
#include "weir/time.h"

namespace weir::origins {

class RedisUpkeep {
 public:
  struct Task {
    std::string key;
    WallTime expires_at{};
    Count departed = 0;  // to be raised to this; 0: only the expiry is sent
  };

  explicit RedisUpkeep(size_t most = size_t{1} << 18) : most_(most) {}

  // A write to this cell may have left it without an expiry.
  void owe_expiry(const std::string& key, WallTime expires_at);
  // A task that failed.
  void owe(const Task& task);

  // Redis was read: it has this much of those who left. Less than it had before means that it
  // forgot, and is to be told.
  void see_departed(const std::string& key, Count departed, WallTime expires_at);

  // Removes up to `most` tasks.
  [[nodiscard]] std::vector<Task> take(size_t most);
  [[nodiscard]] bool empty() const { return owed_.empty(); }

  void forget_expired(WallTime now);

 private:
  struct Known {
    WallTime expires_at{};
    Count departed = 0;
  };

  const size_t most_;
  std::unordered_map<std::string, Known> owed_;      // by key
  std::unordered_map<std::string, Known> departed_;  // by key: the most that was read
};

}  // namespace weir::origins
