#include "origins/redis/redis_cells.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace weir::origins {
namespace {

constexpr Component kReader{.incarnation = 0xabc, .generation = 1};

// The reply to HGETALL.
RedisReply hash_of(std::initializer_list<std::string_view> names_and_values) {
  RedisReply hash{.type = RedisReply::Type::kList};
  for (const std::string_view text : names_and_values) {
    hash.items.push_back({.type = RedisReply::Type::kText, .text = text});
  }
  return hash;
}

TEST(RedisCells, HasAFieldPerComponentAndOneForDepartedNodes) {
  EXPECT_EQ(redis_field(kReader), "abc.1");
  EXPECT_EQ(redis_field(kDeparted), "departed");
}

TEST(RedisCells, SeparatesLimitsFromComponents) {
  const RedisReply hash = hash_of({"abc.1", "3", "labc.1", "90", "def.1", "4", "ldef.1", "80",
                                   "departed", "2", "ldeparted", "85"});
  const CellHash read = read_hash(hash, redis_field(kReader));
  EXPECT_EQ(read.totals.mine, 3u);
  EXPECT_EQ(read.totals.siblings, 6u);
  EXPECT_EQ(read.departed, 2u);
  EXPECT_EQ(read.limit_seen, 80u);
  EXPECT_EQ(read.invalid, 0u);
  EXPECT_EQ(limit_field(redis_field(kReader)), "labc.1");
}

TEST(RedisCells, HasNoLimitWithoutTheField) {
  EXPECT_EQ(read_hash(hash_of({"abc.1", "3"}), redis_field(kReader)).limit_seen, 0u);
  EXPECT_EQ(read_hash(hash_of({"abc.1", "3", "labc.1", "0"}), redis_field(kReader)).limit_seen, 0u);
}

TEST(RedisCells, CountsALimitThatIsNotACountAsInvalid) {
  for (const char* value : {"-1", "1.5", "many", "", "99999999999999999999", "20000000000000"}) {
    const CellHash read = read_hash(hash_of({"ldef.1", value, "abc.1", "3"}), "abc.1");
    EXPECT_EQ(read.limit_seen, 0u) << value;
    EXPECT_EQ(read.totals.mine, 3u) << value;
    EXPECT_EQ(read.invalid, 1u) << value;
  }
}

}  // namespace
}  // namespace weir::origins
