#include "origins/redis/redis_tuples.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "origins/redis/redis_subscription.h"
#include "tests/contracts/bridge_contract_fixture.h"

namespace weir::origins {
namespace {

RedisReply list_of(std::initializer_list<std::string_view> texts) {
  RedisReply list{.type = RedisReply::Type::kList};
  for (const std::string_view text : texts) {
    list.items.push_back({.type = RedisReply::Type::kText, .text = text});
  }
  return list;
}

WallTime at(int64_t ms) {
  return WallTime(Millis(ms));
}

TEST(RedisTuples, SortsRegionsAndWindows) {
  const TupleHash read = read_tuple_hash(list_of({"us", "0;5,9,0", "eu", "70;8,2,0;-1,1,20;-2,3"}));
  const std::vector<RegionCount> expected = {
      {.region = "eu", .sequence = 6, .count = 3, .leased_until = at(70)},
      {.region = "eu", .sequence = 7, .count = 1, .limit_seen = 20, .leased_until = at(70)},
      {.region = "eu", .sequence = 8, .count = 2, .leased_until = at(70)},
      {.region = "us", .sequence = 5, .count = 9}};
  EXPECT_EQ(read.regions, expected);
  EXPECT_EQ(read.invalid, 0u);
}

TEST(RedisTuples, ReadsALeaseWithoutAWindow) {
  EXPECT_EQ(read_tuple_hash(list_of({"eu", "70"})).regions,
            (std::vector<RegionCount>{{.region = "eu", .leased_until = at(70)}}));
  EXPECT_TRUE(read_tuple_hash(list_of({"eu", "0"})).regions.empty());
}

TEST(RedisTuples, IgnoresRegionsWithAnInvalidValue) {
  for (const char* value :
       {"", "x", "-1", "1;", "1;5", "1;5,6", "1;5,6,7,8", "1;5,-6,7", "1;5,6,20000000000000",
        "1;;5,6,7", "1;4,1,1;-1,1,1;-2,1,1;-3,1,1", "1;9,1,1;-1", "1;9,1,1;-1,x", "1;9,1,1;-1,1,x",
        "99999999999999999999", "1;x,6,7"}) {
    const TupleHash read = read_tuple_hash(list_of({"eu", value, "us", "0;5,9,0"}));
    if (std::string_view(value) == "1;") {
      EXPECT_EQ(read.regions.size(), 2u);  // no window
      continue;
    }
    ASSERT_EQ(read.regions.size(), 1u) << value;
    EXPECT_EQ(read.regions[0].region, "us");
    EXPECT_EQ(read.invalid, 1u) << value;
  }
}

TEST(RedisTuples, ReadsDueMembers) {
  const DueTuple now{.tuple = contracts::binary("a"), .kind = Due::kNow, .at = at(1700000000000)};
  const DueTuple end{.tuple = "", .kind = Due::kWindowEnd, .at = at(5)};
  const std::string first = due_member(now), second = due_member(end);
  std::vector<DueTuple> entries;
  uint64_t invalid = 0;
  ASSERT_TRUE(read_due_members(list_of({first, "1700000000000", second, "5"}), entries, invalid));
  EXPECT_EQ(entries, (std::vector{now, end}));
  EXPECT_EQ(invalid, 0u);
}

TEST(RedisTuples, ReadsTheScoreThatItWrites) {
  for (const int64_t ms :
       {int64_t{0}, int64_t{5}, int64_t{1'700'000'000'000}, (int64_t{1} << 43) - 1}) {
    for (uint32_t revision = 0; revision < 1024; ++revision) {
      const DueTuple entry{.tuple = "a", .kind = Due::kNow, .at = at(ms), .revision = revision};
      std::vector<DueTuple> entries;
      uint64_t invalid = 0;
      const std::string member = due_member(entry), score = due_score(entry);
      ASSERT_TRUE(read_due_members(list_of({member, score}), entries, invalid));
      ASSERT_EQ(entries, std::vector{entry}) << score;
    }
  }
}

TEST(RedisTuples, LeavesOutForeignDueMembers) {
  std::vector<DueTuple> entries;
  uint64_t invalid = 0;
  ASSERT_TRUE(read_due_members(
      list_of({"", "1", "0a", "1", "4a", "1", "1a", "x", "1a", "inf", "1a", "1e300", "1b", "7"}),
      entries, invalid));
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].tuple, "b");
  EXPECT_EQ(invalid, 6u);
  EXPECT_FALSE(read_due_members(list_of({"1a"}), entries, invalid));
  EXPECT_FALSE(read_due_members({.type = RedisReply::Type::kText}, entries, invalid));
}

TEST(RedisTuples, ParsesMessages) {
  BridgeMessage message;
  ASSERT_TRUE(parse_message("18 a b", message));
  EXPECT_EQ(message.number, 18u);
  EXPECT_EQ(message.body, "a b");
  ASSERT_TRUE(parse_message("19 ", message));
  EXPECT_EQ(message.body, "");
  for (const char* text : {"", "18", "x 1", " 1", "-1 a", "99999999999999999999 a"}) {
    EXPECT_FALSE(parse_message(text, message)) << text;
  }
}

}  // namespace
}  // namespace weir::origins
