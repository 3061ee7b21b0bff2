// Checks whether an origin is usable, and names the remedy if not.

#pragma once

#include <string>

#include "origins/redis/redis_link.h"

namespace weir::server {

struct OriginCheck {
  bool usable = false;
  std::string text;  // the result, in lines
};

enum class OriginUse : uint8_t {
  kOneRegion,
  kWithLedger,  // needs more commands
};

// Connects, authenticates, and runs every command that a server uses on keys of its own. Takes a
// few seconds at most.
[[nodiscard]] OriginCheck check_origin(const origins::RedisAddress& address, OriginUse use);

// Why the data of the origin cannot be used, and the remedy. Empty if it can, or if the origin does
// not answer now.
[[nodiscard]] std::string find_version_conflict(const origins::RedisAddress& address);

}  // namespace weir::server
