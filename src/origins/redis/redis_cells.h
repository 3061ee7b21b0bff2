// How a cell looks in Redis.
//
// A small hash: a field for each component, its total as the value, under a key made of a hash
// of the tuple and the window's sequence; the hash is in braces, so that all cells of a tuple
// share a slot of a cluster. One field more, `published`, is no component: what the region has
// told the ledger. What stands there is not trusted: values that are no count are ignored, sums
// saturate.
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

// Where the processes of a region leave word of what they published; the name of no component.
inline constexpr std::string_view kPublishedField = "published";

[[nodiscard]] std::string hex(uint64_t value);

struct CellHash {
  CellTotals totals{};
  Count departed = 0;    // of the siblings: the component of those who left
  uint64_t invalid = 0;  // values that were no count
};

// Of a hash as HGETALL answers it, for the reader with this field.
[[nodiscard]] CellHash read_hash(const RedisReply& hash, std::string_view field);

// Adds a field, KEYS[1] ARGV[1], to the one of those who left and removes it; 1 if it was there.
// In one step, so that nobody counts it twice or not at all, and safe to repeat.
extern const std::string_view kRetireScript;
// Raises the component of those who left, KEYS[1], to at least ARGV[1], and lets the cell expire
// after ARGV[2] ms. Safe to repeat.
extern const std::string_view kKeepScript;
[[nodiscard]] std::string sha_of_script(std::string_view script);

}  // namespace weir::origins
