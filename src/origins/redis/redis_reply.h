// Answers of a Redis server, RESP2 and RESP3.
//
// Views into the bytes handed in. What it accepts is bounded, in size and in depth, so that
// a server gone mad cannot make us hold its answers without end.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace weir::origins {

struct RedisReply {
  enum class Type : uint8_t { kText, kError, kInteger, kNull, kList };
  Type type = Type::kNull;
  std::string_view text = {};  // of kText and kError
  int64_t integer = 0;
  std::vector<RedisReply> items = {};  // of kList; a map is its names and values in turn
};

inline constexpr size_t kMaxReplyText = size_t{1} << 20;
inline constexpr size_t kMaxReplyItems = size_t{1} << 16;

enum class ReplyStatus : uint8_t { kComplete, kIncomplete, kBroken };

// Reads the reply at the front of `in`; `bytes` is its length.
[[nodiscard]] ReplyStatus parse_reply(std::string_view in, RedisReply& reply, size_t& bytes);

}  // namespace weir::origins
