// The representation of a cell in Redis.
//
// A cell is a small hash. Each component is a field, and its total is the value. With a ledger the
// field `l` + component has the smallest limit that the component's writer saw. The field `refused`
// exists if a step refused a request in this window. The key is a hash
// of the tuple and the sequence of the window; the hash of the tuple stands in braces, so that all
// keys of a tuple share one slot of a cluster. The field `departed` is the component of all nodes
// that shut down, and of steps without a tuple. Values that are not a count are ignored, and sums
// saturate.
//
// Pure.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "origins/redis/redis_reply.h"
#include "weir/origin.h"

namespace weir::origins {

// What all keys of a tuple begin with.
[[nodiscard]] std::string key_prefix(std::string_view tuple);
// The key of a cell, and the field of a component in it.
[[nodiscard]] std::string redis_key(const CellId& cell);
[[nodiscard]] std::string redis_field(const Component& component);

// The field with the limit of a component. No component has such a name.
[[nodiscard]] std::string limit_field(std::string_view component_field);

[[nodiscard]] std::string hex(uint64_t value);
[[nodiscard]] std::string hex_of(std::span<const unsigned char> bytes);

// A count or a limit from its text; none: the text is not one, or the value is impossible.
[[nodiscard]] bool parse_count(std::string_view text, Count& count);

// The text of a count or a limit, at most what parse_count() accepts.
[[nodiscard]] std::string count_text(Count count);

struct CellHash {
  CellTotals totals{};
  Count departed = 0;    // the part of `siblings` that departed nodes counted
  Count limit_seen = 0;  // the smallest of all components; 0: unknown
  uint64_t invalid = 0;  // values that are not a count
};

// Reads the reply to HGETALL for the node that writes `field`.
[[nodiscard]] CellHash read_hash(const RedisReply& hash, std::string_view field);

}  // namespace weir::origins
