// Parser for the replies of a Redis server, RESP2 and RESP3.
//
// Replies are views into the input. Size and depth are bounded, so that a faulty server cannot
// exhaust memory.

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
  std::vector<RedisReply> items = {};  // of kList; a map is a list of names and values
};

inline constexpr size_t kMaxReplyText = size_t{1} << 24;  // also of a message of the bridge
inline constexpr size_t kMaxReplyItems = size_t{1} << 16;

enum class ReplyStatus : uint8_t { kComplete, kIncomplete, kBroken };

// Parses the first reply in `in`; `bytes` is its length.
[[nodiscard]] ReplyStatus parse_reply(std::string_view in, RedisReply& reply, size_t& bytes);

}  // namespace weir::origins
