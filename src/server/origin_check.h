// Checks whether an origin is usable, and names the remedy if not.

#pragma once

#include <string>

#include "origins/redis/redis_link.h"

namespace weir::server {

struct OriginCheck {
  bool usable = false;
  std::string text;  // the result, in lines
};

// Connects, authenticates, and runs every command that a server uses on keys of its own. Takes a few
// seconds at most.
[[nodiscard]] OriginCheck check_origin(const origins::RedisAddress& address);

}  // namespace weir::server
