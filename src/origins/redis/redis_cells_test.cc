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

TEST(RedisCells, SeparatesThePublishedCountFromComponents) {
  const RedisReply hash = hash_of({"abc.1", "3", "published", "9", "def.1", "4", "departed", "2"});
  const CellHash read = read_hash(hash, redis_field(kReader));
  EXPECT_EQ(read.totals.mine, 3u);
  EXPECT_EQ(read.totals.siblings, 6u);
  EXPECT_EQ(read.totals.published, 9u);
  EXPECT_EQ(read.invalid, 0u);
  const CellHash departed = read_hash(hash, redis_field(kDeparted));
  EXPECT_EQ(departed.totals.mine, 2u);
  EXPECT_EQ(departed.totals.siblings, 7u);
  EXPECT_EQ(departed.totals.published, 9u);
}

TEST(RedisCells, HasNoPublishedCountWithoutTheField) {
  EXPECT_EQ(read_hash(hash_of({"abc.1", "3"}), redis_field(kReader)).totals.published, 0u);
  EXPECT_EQ(read_hash(hash_of({}), redis_field(kReader)).totals.published, 0u);
}

TEST(RedisCells, CountsAPublishedValueThatIsNotACountAsInvalid) {
  for (const char* value : {"-1", "1.5", "many", "", "99999999999999999999", "20000000000000"}) {
    const CellHash read = read_hash(hash_of({"published", value, "abc.1", "3"}), "abc.1");
    EXPECT_EQ(read.totals.published, 0u) << value;
    EXPECT_EQ(read.totals.mine, 3u) << value;
    EXPECT_EQ(read.invalid, 1u) << value;
  }
}

}  // namespace
}  // namespace weir::origins
