// Checks whether an origin is usable, and names the remedy if not.

#pragma once

#include <string>

#include "origins/redis/redis_link.h"

namespace weir::server {

struct OriginCheck {
  bool usable = false;
  std::string text;  // the result, in lines
};

// Connects, authenticates, and runs every command that a server uses on keys of its own. Takes a
// few seconds at most.
// `region` is empty without a ledger.
[[nodiscard]] OriginCheck check_origin(const origins::RedisAddress& address,
                                       const std::string& region);

// Why this region cannot use the data of the origin, and the remedy. Empty if it can, or if the
// origin does not answer now.
[[nodiscard]] std::string find_data_conflict(const origins::RedisAddress& address,
                                             const std::string& region);

}  // namespace weir::server
