// Feeds in an SQLite file that was damaged, restored or refused a batch.

#include <filesystem>

#include "ledgers/rows.h"
#include "ledgers/sql/sql_store.h"
#include "ledgers/sql/sqlite_fixture_test.h"
#include "tests/contracts/ledger_contract_fixture.h"

namespace weir::ledgers {
namespace {

using contracts::row_of;

TEST(SqliteFeed, LeavesOutBatchesThatCannotBeDecoded) {
  const doubles::ManualClock clock;
  const Folder folder;
  const auto store = open(clock, folder);
  FeedPosition at;
  for (Count count = 1; count <= 4; ++count) {
    at = store->publish("east", at, {row_of(count, clock.now().wall)}).value();
  }
  execute(folder, "UPDATE weir_feed SET body = x'7f00' WHERE number = 2");
  execute(folder, "UPDATE weir_feed SET body = x'' WHERE number = 3");
  const std::vector<RegionFeed> begin{{.region = "east", .at = {.epoch = at.epoch}}};
  auto changes = store->read_feeds(begin);
  ASSERT_TRUE(changes);
  ASSERT_EQ(changes->batches.size(), 2u);
  EXPECT_EQ(changes->batches[0].at.number, 1u);
  EXPECT_EQ(changes->batches[1].at.number, 4u);
  EXPECT_EQ(changes->invalid, 2u);
  // Without any batch a reader must not read on: it would ask for the same.
  execute(folder,
          "WITH RECURSIVE n(i) AS (SELECT 5 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT "
          "INTO weir_feed SELECT 'x', 1, i, 0, x'00' FROM n");
  execute(folder, "UPDATE weir_feed SET body = x''");
  execute(folder, "UPDATE weir_feed SET region = CAST('east' AS BLOB), epoch = " +
                      std::to_string(at.epoch));
  changes = store->read_feeds(begin);
  ASSERT_TRUE(changes);
  EXPECT_TRUE(changes->batches.empty());
  EXPECT_EQ(changes->invalid, kMaxBatches);
  EXPECT_FALSE(changes->more);
}

// A replica that was behind became the primary.
TEST(SqliteFeed, BeginsAnEpochAfterAnOlderCopyWasRestored) {
  const doubles::ManualClock clock;
  const Folder folder;
  const std::string copy = folder.file() + ".copy";
  FeedPosition at;
  {
    const auto store = open(clock, folder);
    at = store->publish("east", {}, {row_of(1, clock.now().wall)}).value();
    execute(folder, "VACUUM INTO '" + copy + "'");
    for (Count count = 2; count <= 3; ++count) {
      at = store->publish("east", at, {row_of(count, clock.now().wall)}).value();
    }
  }
  EXPECT_EQ(at.number, 3u);
  for (const char* const suffix : {"", "-wal", "-shm"}) {
    std::filesystem::remove(folder.file() + suffix);
  }
  std::filesystem::rename(copy, folder.file());
  const auto store = open(clock, folder);
  EXPECT_EQ(store->read_feeds({})->heads.at(0).at, (FeedPosition{.epoch = at.epoch, .number = 1}));
  const auto next = store->publish("east", at, {row_of(4, clock.now().wall)});
  ASSERT_TRUE(next);
  EXPECT_GT(next->epoch, at.epoch);
  EXPECT_EQ(next->number, 1u);
  EXPECT_EQ(store->read_page("east", {})->rows.at(0).count, 4u);
}

TEST(SqliteFeed, TakesTheEpochFromTheClockAndTheSeed) {
  const doubles::ManualClock clock;
  const auto epoch = [&](uint64_t seed) {
    const Folder folder;
    return open(clock, folder, seed)->publish("east", {}, {})->epoch;
  };
  EXPECT_EQ(epoch(1) >> kEpochRandomBits,
            static_cast<uint64_t>(clock.now().wall.time_since_epoch().count()));
  EXPECT_EQ(epoch(1), epoch(1));
  EXPECT_NE(epoch(1), epoch(2));
}

TEST(SqliteFeed, IsUnchangedByAFailedPublish) {
  const doubles::ManualClock clock;
  const Folder folder;
  const auto store = open(clock, folder);
  const FeedPosition at = store->publish("east", {}, {row_of(1, clock.now().wall)}).value();
  execute(folder,
          "CREATE TRIGGER no BEFORE INSERT ON weir_feed BEGIN SELECT RAISE(ABORT, 'no'); END");
  EXPECT_FALSE(store->publish("east", at, {row_of(2, clock.now().wall)}));
  EXPECT_EQ(store->read_feeds({})->heads.at(0).at, at);
  EXPECT_EQ(store->read_page("east", {})->rows.at(0).count, 1u);
  execute(folder, "DROP TRIGGER no");
  EXPECT_EQ(store->publish("east", at, {row_of(2, clock.now().wall)})->number, at.number + 1);
}

TEST(SqliteRegions, AreKeptWhileTheyHaveRows) {
  doubles::ManualClock clock;
  const Folder folder;
  const auto store = open(clock, folder);
  LedgerRow row = row_of(1, clock.now().wall);
  row.key.duration = kMaxDuration;
  row.sequence = clock.now().wall.time_since_epoch() / kMaxDuration;
  ASSERT_TRUE(store->publish("east", {}, {row}));
  const auto regions = [&] {
    EXPECT_TRUE(store->clean(10));
    return store->read_feeds({})->heads.size();
  };
  clock.advance(kRegionRetention + Millis(1));
  EXPECT_EQ(regions(), row.expires_at() > clock.now().wall ? 1u : 0u);
  execute(folder, "UPDATE weir_cells SET kept_until_ms = 0");
  EXPECT_EQ(regions(), 0u);
}

}  // namespace
}  // namespace weir::ledgers
