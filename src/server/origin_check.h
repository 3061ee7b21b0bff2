// Whether an origin is one we can work with, and if not, why and what to do.

#pragma once

#include <string>

#include "origins/redis/redis_link.h"

namespace weir::server {

struct OriginCheck {
  bool usable = false;
  std::string text;  // what was found, in lines
};

// Connects, introduces itself, and does with a key of its own what a server would do with cells.
// Takes some seconds at most.
[[nodiscard]] OriginCheck check_origin(const origins::RedisAddress& address);

}  // namespace weir::server
