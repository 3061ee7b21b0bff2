#include "ledgers/sql/feed_codec.h"

#include <gtest/gtest.h>

#include "base/byte_codec.h"
#include "ledgers/rows.h"

namespace weir::ledgers {
namespace {

LedgerRow row_of(std::string identifier, int64_t sequence = 28'000'000) {
  return {.key = {.workspace = "acme",
                  .ns = "login",
                  .identifier = std::move(identifier),
                  .duration = Millis(60'000)},
          .sequence = sequence,
          .region = "east",
          .count = 7,
          .limit_seen = 100,
          .leased_until = WallTime((sequence + 11) * Millis(60'000))};
}

TEST(FeedCodec, ReturnsEachRowUnchanged) {
  std::vector<LedgerRow> rows{row_of("alice"), row_of("alice", 28'000'001), row_of("login")};
  rows.push_back(row_of(std::string("\0\xff", 2)));
  rows.back().key.workspace = "";
  rows.push_back(row_of(std::string(kMaxNameBytes, 'x')));
  rows.back().count = kMaxCount;
  rows.back().limit_seen = kMaxLimit;
  rows.back().leased_until = {};
  const auto batch = decode_batch("east", encode_batch(rows));
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->rows, rows);
  EXPECT_EQ(batch->invalid, 0u);
  EXPECT_TRUE(decode_batch("east", encode_batch({}))->rows.empty());
}

// Ledgers store the bytes, and other versions read them.
TEST(FeedCodec, HasAStableFormat) {
  LedgerRow row = row_of("al", 2);
  row.leased_until = WallTime(Millis(1));
  const std::string bytes = encode_batch({row, row});
  EXPECT_EQ(bytes, std::string("\x01\x02"  // version, rows
                               "\0\x04"
                               "acme\0\x05login\0\x02"
                               "al\xc0\xa9\x07\x04\x07\x64\x02"             // new names
                               "\x01\x02\x03\xc0\xa9\x07\x04\x07\x64\x02",  // their indexes
                               36));
}

TEST(FeedCodec, WritesRepeatedNamesOnce) {
  std::vector<LedgerRow> rows;
  for (int i = 0; i < 1000; ++i) {
    rows.push_back(row_of(std::to_string(1000 + i / 2), 28'000'000 + i % 2));
    rows.back().key.ns = std::string(100, 'n');
  }
  EXPECT_LT(encode_batch(rows).size(), 30'000u);
}

TEST(FeedCodec, OmitsAndCountsRowsWithImpossibleValues) {
  std::vector<LedgerRow> rows(5, row_of("bad"));
  rows[0].count = kMaxCount + 1;
  rows[1].key.duration = Millis(-1);
  rows[2].sequence = std::numeric_limits<int64_t>::max();
  rows[3].leased_until = WallTime::max();
  rows[4].limit_seen = 0;
  rows.push_back(row_of("good"));
  const auto batch = decode_batch("east", encode_batch(rows));
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->rows, std::vector<LedgerRow>{row_of("good")});
  EXPECT_EQ(batch->invalid, 5u);
  EXPECT_EQ(decode_batch("", encode_batch({row_of("good")}))->invalid, 1u);
}

TEST(FeedCodec, RejectsTruncatedAndLongerBytes) {
  const std::string whole = encode_batch({row_of("alice"), row_of("bob")});
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decode_batch("east", whole.substr(0, size))) << size;
  }
  EXPECT_FALSE(decode_batch("east", whole + '\0'));
}

TEST(FeedCodec, RejectsAnotherVersion) {
  std::string bytes = encode_batch({row_of("alice")});
  for (const char version : {'\0', '\2', '\x7f'}) {
    bytes[0] = version;
    EXPECT_FALSE(decode_batch("east", bytes));
  }
}

TEST(FeedCodec, RejectsUnknownIndexesAndNamesThatAreTooLong) {
  const auto with_name = [](uint64_t index, const std::string& name) {
    base::ByteWriter writer;
    writer.add(uint64_t{1});
    writer.add(uint64_t{1});
    writer.add(index);
    if (index == 0) writer.add(name);
    for (const char* const other : {"n", "i"}) {
      writer.add(uint64_t{0});
      writer.add(other);
    }
    for (int i = 0; i < 5; ++i) writer.add(uint64_t{2000});
    return decode_batch("east", writer.take()).has_value();
  };
  EXPECT_TRUE(with_name(0, std::string(kMaxNameBytes, 'w')));
  EXPECT_FALSE(with_name(0, std::string(kMaxNameBytes + 1, 'w')));
  EXPECT_FALSE(with_name(1, ""));
}

TEST(FeedCodec, RejectsMoreRowsThanABatchCanHave) {
  std::vector<LedgerRow> rows(kMaxFeedRows, row_of("alice"));
  EXPECT_TRUE(decode_batch("east", encode_batch(rows)));
  rows.push_back(rows.back());
  EXPECT_FALSE(decode_batch("east", encode_batch(rows)));
}

}  // namespace
}  // namespace weir::ledgers
