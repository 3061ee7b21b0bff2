#include "ledgers/rows.h"

#include <gtest/gtest.h>

namespace weir::ledgers {
namespace {

TEST(PageCursor, SurvivesARoundTrip) {
  const PageCursor cursor{.part = PageCursor::Part::kPresences,
                          .key = std::string("\0k\xff", 3),
                          .sequence = -7,
                          .region = "east"};
  const auto read = decode({.after = encode(cursor)});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->part, cursor.part);
  EXPECT_EQ(read->key, cursor.key);
  EXPECT_EQ(read->sequence, cursor.sequence);
  EXPECT_EQ(read->region, cursor.region);
}

TEST(PageCursor, IsRejectedIfTruncated) {
  const std::string whole = encode({.key = "key", .sequence = 1});
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
  EXPECT_EQ(find_unstorable({.rows = {good}, .presences = {}}), nullptr);
  const auto error = find_unstorable({.rows = {good, bad}, .presences = {}});
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->field, "rows[1]");
  EXPECT_EQ(error->detail, "identifier has 513 bytes, of at most 512");
  const auto presence =
      find_unstorable({.rows = {}, .presences = {{.key = bad.key, .region = "east", .until = {}}}});
  ASSERT_NE(presence, nullptr);
  EXPECT_EQ(presence->field, "presences[0]");
}

TEST(SyncRules, AreInvalidOutsideTheirRanges) {
  EXPECT_TRUE(is_valid(SyncRules{}));
  EXPECT_FALSE(is_valid(SyncRules{.hidden_permille = 1001}));
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
