#include "ledgers/rows.h"

#include <gtest/gtest.h>

#include <limits>

namespace weir::ledgers {
namespace {

TEST(PageCursor, SurvivesARoundTrip) {
  const PageCursor cursor{.key = std::string("\0k\xff", 3), .sequence = -7};
  const auto read = decode(encode(cursor));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->key, cursor.key);
  EXPECT_EQ(read->sequence, cursor.sequence);
}

TEST(PageCursor, IsRejectedIfTruncated) {
  const std::string whole = encode({.key = "key", .sequence = 1}).after;
  for (size_t size = 1; size < whole.size(); ++size) {
    EXPECT_FALSE(decode({.after = whole.substr(0, size)})) << size;
  }
  EXPECT_TRUE(decode({.after = whole}));
  EXPECT_TRUE(decode({}));
}

TEST(IdentityOf, DiffersBetweenTuples) {
  const LedgerKey key{.workspace = "a", .ns = "b", .identifier = "c", .duration = Millis(1000)};
  const std::string identity = identity_of(key);
  LedgerKey other = key;
  other.workspace = "";
  other.ns = "ab";
  EXPECT_NE(identity_of(other), identity);
  other = key;
  other.duration = Millis(1001);
  EXPECT_NE(identity_of(other), identity);
  EXPECT_EQ(identity_of(LedgerKey(key)), identity);
}

TEST(FindUnstorable, NamesTheRow) {
  const LedgerRow good{
      .key = {.workspace = {}, .ns = "n", .identifier = "i", .duration = Millis(1000)},
      .sequence = 1,
      .region = "east",
      .count = 1,
      .limit_seen = 1};
  LedgerRow bad = good;
  bad.key.identifier = std::string(kMaxNameBytes + 1, 'x');
  EXPECT_EQ(find_unstorable("east", {good}), nullptr);
  const auto error = find_unstorable("east", {good, bad});
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->field, "rows[1]");
  EXPECT_EQ(error->detail, "identifier has 513 bytes, of at most 512");
  const auto of_another = find_unstorable("west", {good});
  ASSERT_NE(of_another, nullptr);
  EXPECT_EQ(of_another->field, "rows[0]");
  EXPECT_EQ(of_another->detail, "it is of another region than the batch");
}

TEST(FindUnstorable, RejectsABatchThatIsTooLarge) {
  const LedgerRow row{
      .key = {.workspace = {}, .ns = "n", .identifier = "i", .duration = Millis(1000)},
      .sequence = 1,
      .region = "east",
      .count = 1,
      .limit_seen = 1};
  std::vector<LedgerRow> rows(kMaxFeedRows, row);
  EXPECT_EQ(find_unstorable("east", rows), nullptr);
  rows.push_back(row);
  const auto error = find_unstorable("east", rows);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->field, "rows");
}

TEST(LedgerRow, IsInvalidIfItsLeaseIsImpossible) {
  LedgerRow row{.key = {.workspace = {}, .ns = "n", .identifier = "i", .duration = Millis(1000)},
                .sequence = 1000,
                .region = "east",
                .count = 1,
                .limit_seen = 1};
  const WallTime longest = row.expires_at() + Millis(24 * 3600 * 1000) + 2 * row.key.duration;
  const std::pair<WallTime, bool> cases[] = {
      {WallTime{}, true},           {WallTime(Millis(-1)), false}, {longest, true},
      {longest + Millis(1), false}, {WallTime::max(), false},      {WallTime::min(), false}};
  for (const auto& [end, valid] : cases) {
    row.leased_until = end;
    EXPECT_EQ(is_valid(row), valid) << end.time_since_epoch().count();
  }
  // The largest time that a row can have.
  row.sequence = std::numeric_limits<int64_t>::max() / 1000 - 2;
  row.leased_until = WallTime::max();
  EXPECT_TRUE(is_valid(row));
}

TEST(KnownPosition, IsUnknownIfNoFeedCanHaveIt) {
  const FeedPosition possible{.epoch = kFeedPositionEnd - 1, .number = kFeedPositionEnd - 1};
  EXPECT_EQ(known_position(possible), possible);
  EXPECT_EQ(known_position({.epoch = kFeedPositionEnd, .number = 1}), FeedPosition{});
  EXPECT_EQ(known_position({.epoch = 1, .number = kFeedPositionEnd}), FeedPosition{});
}

TEST(SyncRules, AreInvalidOutsideTheirRanges) {
  EXPECT_TRUE(is_valid(SyncRules{}));
  EXPECT_FALSE(is_valid(SyncRules{.unpublished_permille = 1001}));
  EXPECT_FALSE(is_valid(SyncRules{.publish_every = Millis(0)}));
  EXPECT_FALSE(is_valid(SyncRules{.rows_per_second = 0}));
}

TEST(SyncRules, AreInvalidIfTheLeaseIsTooShort) {
  EXPECT_TRUE(is_valid(SyncRules{}));
  EXPECT_TRUE(is_valid(SyncRules{.lease = kMinLease}));
  EXPECT_FALSE(is_valid(SyncRules{.lease = kMinLease - Millis(1)}));
}

}  // namespace
}  // namespace weir::ledgers
