#include "origins/redis/redis_address.h"

#include <gtest/gtest.h>

namespace weir::origins {
namespace {

TEST(RedisAddress, ParsesEveryPartOfAUrl) {
  const auto address = parse_redis_address("redis://me:se%40cret@cache.example:6380/3");
  ASSERT_TRUE(address);
  EXPECT_EQ(address->host, "cache.example");
  EXPECT_EQ(address->port, 6380);
  EXPECT_EQ(address->user, "me");
  EXPECT_EQ(address->password, "se@cret");
  EXPECT_EQ(address->database, 3);
}

TEST(RedisAddress, FillsMissingPartsWithDefaults) {
  const auto address = parse_redis_address("redis://[::1]");
  ASSERT_TRUE(address);
  EXPECT_EQ(address->host, "::1");
  EXPECT_EQ(address->port, 6379);
  EXPECT_EQ(address->database, 0);
  EXPECT_TRUE(address->user.empty() && address->password.empty());
}

TEST(RedisAddress, RejectsMalformedUrlsWithoutRepeatingThem) {
  for (const char* const text :
       {"", "cache:6379", "rediss://cache", "redis://", "redis://:secret@", "redis://secret@cache",
        "redis://cache:0", "redis://cache:65536", "redis://cache:secret", "redis://cache/-1",
        "redis://cache/secret", "redis://cache/1000001", "redis://ca che"}) {
    const auto address = parse_redis_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_TRUE(address.error().field.empty()) << text;
    EXPECT_EQ(address.error().detail.find("secret"), std::string::npos) << text;
  }
}

TEST(RedisAddress, NamesThePartWithABadPercentSign) {
  EXPECT_EQ(parse_redis_address("redis://m%e:secret@cache").error().field, "user");
  EXPECT_EQ(parse_redis_address("redis://me:se%cret@cache").error().field, "password");
}

TEST(RedisAddress, IsPrintedWithoutCredentials) {
  EXPECT_EQ(to_string({.host = "cache", .user = "me", .password = "secret", .database = 2}),
            "redis://cache:6379/2");
  EXPECT_EQ(to_string({.host = "::1"}), "redis://[::1]:6379/0");
}

}  // namespace
}  // namespace weir::origins
