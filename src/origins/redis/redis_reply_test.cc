#include "origins/redis/redis_reply.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::origins {
namespace {

using Type = RedisReply::Type;

RedisReply parsed(std::string_view text) {
  RedisReply reply;
  size_t bytes = 0;
  EXPECT_EQ(parse_reply(text, reply, bytes), ReplyStatus::kComplete) << text;
  EXPECT_EQ(bytes, text.size());
  return reply;
}

ReplyStatus status_of(std::string_view text) {
  RedisReply reply;
  size_t bytes = 0;
  return parse_reply(text, reply, bytes);
}

TEST(RedisReply, ParsesBothProtocolVersions) {
  EXPECT_EQ(parsed("+OK\r\n").text, "OK");
  EXPECT_EQ(parsed("-ERR no\r\n").type, Type::kError);
  EXPECT_EQ(parsed("!6\r\nERR no\r\n").type, Type::kError);
  EXPECT_EQ(parsed(":-7\r\n").integer, -7);
  EXPECT_EQ(parsed("$5\r\na\r\nbc\r\n").text, "a\r\nbc");
  EXPECT_EQ(parsed("$-1\r\n").type, Type::kNull);
  EXPECT_EQ(parsed("*-1\r\n").type, Type::kNull);
  EXPECT_EQ(parsed("_\r\n").type, Type::kNull);
  EXPECT_EQ(parsed("#t\r\n").integer, 1);
  EXPECT_EQ(parsed(",1.5\r\n").text, "1.5");
  const RedisReply map = parsed("%1\r\n+a\r\n:2\r\n");
  ASSERT_EQ(map.items.size(), 2u);
  EXPECT_EQ(map.items[0].text, "a");
  EXPECT_EQ(map.items[1].integer, 2);
}

TEST(RedisReply, ReportsEveryPrefixAsIncomplete) {
  const std::string whole = "*3\r\n$3\r\nabc\r\n:12\r\n%1\r\n+x\r\n-ERR y\r\n";
  (void)parsed(whole);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(status_of(whole.substr(0, size)), ReplyStatus::kIncomplete) << size;
  }
}

TEST(RedisReply, RejectsMalformedAndOversizedReplies) {
  for (const char* text : {"x\r\n", "\r\n", ":1\n", ":one\r\n", ":\r\n", "$-2\r\n", "$1x\r\n",
                           "$1\r\nabc", "$16777217\r\n", "*65537\r\n", "%32769\r\n", "*-2\r\n",
                           "%9223372036854775807\r\n", "*9223372036854775807\r\n"}) {
    EXPECT_EQ(status_of(text), ReplyStatus::kBroken) << text;
  }
  std::string deep;
  for (int i = 0; i < 9; ++i) deep += "*1\r\n";
  EXPECT_EQ(status_of(deep + ":1\r\n"), ReplyStatus::kBroken);
  EXPECT_EQ(status_of(std::string(kMaxReplyText + 2, 'a')), ReplyStatus::kBroken);
}

}  // namespace
}  // namespace weir::origins
