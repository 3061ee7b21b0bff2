// The representation of a cell in Redis.
//
// A cell is a small hash. Each component is a field, and its total is the value. The key is a hash
// of the tuple and the sequence of the window; the hash of the tuple stands in braces, so that all
// cells of a tuple share one slot of a cluster. The field `departed` is the component of all nodes
// that shut down. The field `published` is not a component: it is the count that the ledger has
// from this region. Values that are not a count are ignored, and sums saturate.
//
// Pure.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "origins/redis/redis_reply.h"
#include "weir/origin.h"

namespace weir::origins {

// The key of a cell, and the field of a component in it.
[[nodiscard]] std::string redis_key(const CellId& cell);
[[nodiscard]] std::string redis_field(const Component& component);

// The field with the published count. No component has this name.
inline constexpr std::string_view kPublishedField = "published";

[[nodiscard]] std::string hex(uint64_t value);

struct CellHash {
  CellTotals totals{};
  Count departed = 0;    // the part of `siblings` that departed nodes counted
  uint64_t invalid = 0;  // values that are not a count
};

// Reads the reply to HGETALL for the node that writes `field`.
[[nodiscard]] CellHash read_hash(const RedisReply& hash, std::string_view field);

// Adds the field ARGV[1] of KEYS[1] to the departed component and removes it. Returns 1 if the
// field existed. Atomic, so that no reader counts the field twice or misses it; safe to repeat.
extern const std::string_view kRetireScript;
// Raises the departed component of KEYS[1] to at least ARGV[1] and sets the expiry of the cell to
// ARGV[2] ms. Safe to repeat.
extern const std::string_view kRestoreScript;
[[nodiscard]] std::string sha_of_script(std::string_view script);

}  // namespace weir::origins
