// Feeds on a real mariadbd: exact reads beside concurrent publishes, lost connections and data, and
// the indexes that the statements use.

#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>

#include "base/split_mix.h"
#include "ledgers/rows.h"
#include "ledgers/sql/blocking_calls_test.h"
#include "ledgers/sql/mysql_fixture_test.h"
#include "ledgers/sql/mysql_link.h"
#include "ledgers/sql/sql_texts.h"
#include "platform/thread_group.h"

namespace weir::ledgers {
namespace {

using Positions = std::map<std::string, FeedPosition>;

Positions heads_of(LedgerStore& store) {
  Positions heads;
  const auto changes = store.read_feeds({});
  EXPECT_TRUE(changes) << changes.error().detail;
  if (!changes) return heads;
  for (const RegionFeed& head : changes->heads) heads[head.region] = head.at;
  return heads;
}

// Follows feeds, and records what their batches contain.
class Reader {
 public:
  Reader(const LedgerAddress& address, Positions begin)
      : store_(store_at(address, 77)), at_(std::move(begin)) {}

  // Each batch must be the next of its feed, and none after the head may exist.
  void read() {
    for (bool more = true; more;) {
      std::vector<RegionFeed> after;
      for (const auto& [region, at] : at_) after.push_back({.region = region, .at = at});
      const auto changes = store_->read_feeds(after);
      ASSERT_TRUE(changes) << changes.error().detail;
      EXPECT_EQ(changes->invalid, 0u);
      for (const FeedBatch& batch : changes->batches) {
        FeedPosition& at = at_[batch.region];
        EXPECT_EQ(batch.at.epoch, at.epoch);
        EXPECT_EQ(batch.at.number, at.number + 1) << batch.region;
        at = batch.at;
        for (const LedgerRow& row : batch.rows) seen_[batch.region].push_back(row);
      }
      if (!changes->more) {
        for (const RegionFeed& head : changes->heads) EXPECT_EQ(at_[head.region], head.at);
      }
      more = changes->more;
    }
  }
  [[nodiscard]] const std::vector<LedgerRow>& seen(const std::string& region) {
    return seen_[region];
  }
  [[nodiscard]] const Positions& at() const { return at_; }

 private:
  const std::unique_ptr<LedgerStore> store_;
  Positions at_;
  std::map<std::string, std::vector<LedgerRow>> seen_;
};

TEST(MySqlFeed, IsExactWhileSeveralProcessesPublish) {
  const Database database;
  constexpr uint64_t kRounds = 60;
  constexpr size_t kRows = 40;
  constexpr uint64_t kWriters = 6;  // three regions with two writers each
  const WallTime start = now();
  const std::vector<std::string> regions{"east", "north", "west"};
  Positions begin;
  for (const std::string& region : regions) {
    begin[region] = store_at(database.address)->publish(region, {}, {}).value();
  }
  std::atomic<bool> done{false};
  std::atomic<uint64_t> retries{0};
  std::mutex mutex;
  std::map<std::string, std::map<uint64_t, uint64_t>> writers_of;  // by region and number
  platform::ThreadGroup writers;
  for (uint64_t writer = 0; writer < kWriters; ++writer) {
    writers.start([&, writer] {
      const auto store = store_at(database.address, writer + 10);
      const std::string& region = regions[writer % regions.size()];
      FeedPosition known = begin.at(region);
      uint64_t random = writer;
      for (uint64_t round = 1; round <= kRounds; ++round) {
        std::vector<LedgerRow> rows;
        for (size_t i = 0; i < kRows; ++i) {
          const size_t key = base::split_mix(random) % kRows;
          rows.push_back(row_of(start, writer * 1000 + round, std::to_string(key), region));
        }
        // Some have expired, and are deleted while others write them.
        for (size_t i = 0; i < kRows / 10; ++i) rows[i].sequence -= 3;
        const auto published = store->publish(region, known, rows);
        ASSERT_TRUE(published) << published.error().detail;
        EXPECT_EQ(published->epoch, known.epoch);
        EXPECT_GT(published->number, known.number);
        known = *published;
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(writers_of[region].emplace(known.number, writer * 1000 + round).second);
      }
      retries += store->retries();
    });
  }
  Reader reader(database.address, begin);
  platform::ThreadGroup others;
  others.start([&] {
    while (!done) reader.read();
  });
  others.start([&] {
    const auto store = store_at(database.address, 78);
    while (!done) {
      EXPECT_TRUE(store->clean(1000));
      EXPECT_TRUE(store->heartbeat({.region = "east"}, {}));
    }
  });
  writers.join();
  done = true;
  others.join();
  reader.read();
  for (const std::string& region : regions) {
    const uint64_t batches = 2 * kRounds;
    EXPECT_EQ(reader.at().at(region).number, 1 + batches);
    const std::vector<LedgerRow>& rows = reader.seen(region);
    ASSERT_EQ(rows.size(), batches * kRows);
    for (uint64_t i = 0; i < batches; ++i) {
      const Count count = writers_of[region].at(2 + i);
      for (size_t row = 0; row < kRows; ++row) ASSERT_EQ(rows[i * kRows + row].count, count);
    }
    // The rows have what the feed says.
    std::map<std::string, Count> largest;
    for (const LedgerRow& row : rows) {
      if (row.sequence == start.time_since_epoch() / row.key.duration) {
        Count& most = largest[row.key.identifier];
        most = std::max(most, row.count);
      }
    }
    const auto page = store_at(database.address)->read_page(region, {});
    ASSERT_TRUE(page);
    std::map<std::string, Count> stored;
    for (const LedgerRow& row : page->rows) {
      if (row.sequence == start.time_since_epoch() / row.key.duration) {
        stored[row.key.identifier] = row.count;
      }
    }
    EXPECT_EQ(stored, largest);
  }
  std::printf("deadlocks retried: %llu\n", static_cast<unsigned long long>(retries.load()));
}

// Batch n raises the count of one row to n.
TEST(MySqlFeed, ReadsAPageAndItsHeadAtOneMoment) {
  const WallTime when = now();
  const Database database;
  const auto reader = store_at(database.address, 77);
  const FeedPosition first =
      store_at(database.address)->publish("east", {}, {row_of(when, 1)}).value();
  std::atomic<bool> done{false};
  platform::ThreadGroup writer;
  writer.start([&] {
    const auto store = store_at(database.address);
    FeedPosition known = first;
    for (Count count = 2; count <= 300; ++count) {
      known = store->publish("east", known, {row_of(when, count)}).value();
    }
    done = true;
  });
  for (bool last = false; !last;) {
    last = done;
    const auto page = reader->read_page("east", {});
    ASSERT_TRUE(page) << page.error().detail;
    ASSERT_EQ(page->rows.size(), 1u);
    ASSERT_EQ(page->head, (FeedPosition{.epoch = first.epoch, .number = page->rows[0].count}));
  }
  writer.join();
}

TEST(MySqlFeed, HasNoGapAfterAConnectionIsKilledInATransaction) {
  const WallTime when = now();
  const Database database;
  const auto store = store_at(database.address);
  const FeedPosition first = store->publish("east", {}, {row_of(when, 1)}).value();
  {
    // The statements of a publish without its COMMIT, on a connection that then ends.
    Session session(database.address);
    session.query("SET @weir_now = 1");
    session.query("BEGIN");
    const SqlTexts texts = sql_texts(Dialect::kMySql);
    const std::string_view east = "east";
    const auto epoch = static_cast<int64_t>(first.epoch);
    session.query(
        with_values({.sql = texts.raise_head,
                     .values = {east, int64_t{0}, epoch + 1, epoch, epoch, epoch, int64_t{1}}}));
    session.query(
        with_values({.sql = texts.insert_batch, .values = {std::string_view("x"), east}}));
  }
  // It may still hold the lock for a moment.
  auto second = store->publish("east", first, {row_of(when, 2)});
  while (!second) second = store->publish("east", first, {row_of(when, 2)});
  EXPECT_EQ(*second, (FeedPosition{.epoch = first.epoch, .number = 2}));
  const auto changes = store->read_feeds({{.region = "east", .at = first}});
  ASSERT_TRUE(changes);
  ASSERT_EQ(changes->batches.size(), 1u);
  EXPECT_EQ(changes->batches[0].rows.at(0).count, 2u);
}

// A server ends connections at random moments. A publish whose reply was lost may have committed.
TEST(MySqlFeed, HasNoGapWhileConnectionsAreKilled) {
  const WallTime when = now();
  const Database database;
  const FeedPosition begin = store_at(database.address)->publish("east", {}, {}).value();
  std::atomic<bool> done{false};
  std::atomic<uint64_t> failed{0};
  std::mutex mutex;
  std::map<uint64_t, Count> published;
  platform::ThreadGroup writers;
  for (uint64_t writer = 0; writer < 2; ++writer) {
    writers.start([&, writer] {
      const auto store = store_at(database.address, writer + 10);
      FeedPosition known = begin;
      for (Count round = 1; round <= 150; ++round) {
        const Count count = writer * 1000 + round;
        std::vector<LedgerRow> rows;
        for (int i = 0; i < 30; ++i) rows.push_back(row_of(when, count, std::to_string(i)));
        const auto at = store->publish("east", known, rows);
        if (!at) {
          ++failed;
          continue;
        }
        known = *at;
        const std::lock_guard lock(mutex);
        published[at->number] = count;
      }
    });
  }
  platform::ThreadGroup killer;
  killer.start([&] {
    while (!done) {
      for (const std::string& id : database.server.query(
               "SELECT id FROM information_schema.processlist WHERE user = 'weir' AND db = '" +
               database.name + "' AND command != 'Sleep'")) {
        try {
          database.server.query("KILL CONNECTION " + id);
        } catch (const std::runtime_error&) {
          // It ended meanwhile.
        }
      }
      platform::ThreadGroup::sleep(Millis(5));
    }
  });
  writers.join();
  done = true;
  killer.join();
  Reader reader(database.address, {{"east", begin}});
  reader.read();
  const std::vector<LedgerRow>& rows = reader.seen("east");
  ASSERT_EQ(rows.size(), (reader.at().at("east").number - begin.number) * 30);
  for (const auto& [number, count] : published) {
    EXPECT_EQ(rows.at((number - begin.number - 1) * 30).count, count);
  }
  std::printf("publishes failed: %llu\n", static_cast<unsigned long long>(failed.load()));
}

// A replica that was behind became the primary.
TEST(MySqlFeed, BeginsAnEpochAfterTheServerLostBatches) {
  const WallTime when = now();
  const Database database;
  const auto store = store_at(database.address);
  const FeedPosition first = store->publish("east", {}, {row_of(when, 1)}).value();
  const FeedPosition second = store->publish("east", first, {row_of(when, 2)}).value();
  database.query("DELETE FROM weir_feed WHERE number = 2");
  database.query("UPDATE weir_regions SET head = 1");
  const FeedPosition third = store->publish("east", second, {row_of(when, 3)}).value();
  EXPECT_GT(third.epoch, first.epoch);
  EXPECT_EQ(third.number, 1u);
  // The whole feed was lost.
  database.query("DELETE FROM weir_feed");
  database.query("DELETE FROM weir_regions");
  const FeedPosition fourth = store->publish("east", third, {row_of(when, 4)}).value();
  EXPECT_GT(fourth.epoch, third.epoch);
  EXPECT_EQ(fourth.number, 1u);
  EXPECT_EQ(heads_of(*store), (Positions{{"east", fourth}}));
}

TEST(MySqlFeed, PublishesALargeBatchInSeveralMessages) {
  const WallTime when = now();
  const Database database;
  const auto store = store_at(database.address, 1);
  std::vector<LedgerRow> rows;
  for (int i = 0; i < 6000; ++i) {
    rows.push_back(row_of(when, 1, std::to_string(i) + std::string(kMaxNameBytes - 8, 'x')));
  }
  const auto at = store->publish("east", {}, rows);
  ASSERT_TRUE(at) << at.error().detail;
  EXPECT_EQ(database.query("SELECT COUNT(*) FROM weir_cells"), std::vector<std::string>{"6000"});
  const auto changes = store->read_feeds({{.region = "east", .at = {.epoch = at->epoch}}});
  ASSERT_TRUE(changes);
  ASSERT_EQ(changes->batches.size(), 1u);
  EXPECT_EQ(changes->batches[0].rows, rows);
}

// The plan of a statement: "table type key" for each step.
std::vector<std::string> plan_of(const Database& database, const std::string& sql) {
  std::vector<std::string> steps;
  Session session(database.address);
  for (const auto& row : session.rows("EXPLAIN " + sql)) {
    // id, select_type, table, type, possible_keys, key, key_len, ref, rows, Extra
    if (row.at(2).starts_with("<")) continue;  // the union itself
    steps.push_back(row.at(2) + " " + row.at(3) + " " + row.at(5));
    EXPECT_EQ(row.at(9).find("filesort"), std::string::npos) << sql;
    EXPECT_EQ(row.at(9).find("temporary"), std::string::npos) << sql;
  }
  return steps;
}

TEST(MySqlPlans, ReadRangesOfAnIndexOnly) {
  const WallTime when = now();
  const Database database;
  const auto store = store_at(database.address, 1);
  FeedPosition at;
  for (const char* const region : {"east", "north", "west"}) {
    at = {};
    for (int batch = 0; batch < 40; ++batch) {
      std::vector<LedgerRow> rows;
      for (int i = 0; i < 50; ++i) {
        rows.push_back(row_of(when, 1, std::to_string(batch * 50 + i), region));
      }
      at = store->publish(region, at, rows).value();
    }
  }
  database.query("ANALYZE TABLE weir_cells, weir_feed, weir_regions");
  const SqlTexts texts = sql_texts(Dialect::kMySql);
  const auto epoch = static_cast<int64_t>(at.epoch);
  const auto plan = [&](const std::string& sql, std::vector<SqlValue> values) {
    return plan_of(database, with_values({.sql = sql, .values = std::move(values)}));
  };
  const std::string_view west = "west";
  const std::string feed = "weir_feed range PRIMARY";
  for (const int64_t number : {0, 38, 40, 100}) {
    const auto steps = plan(texts.heads + texts.batches_branch + texts.batches_branch,
                            {west, epoch, number, int64_t{10}, west, epoch, number, int64_t{10}});
    ASSERT_EQ(steps.size(), 3u);
    EXPECT_EQ(steps[0], "weir_regions ALL NULL");  // one row per region
    EXPECT_EQ(steps[1], feed) << number;
    EXPECT_EQ(steps[2], feed) << number;
  }
  const std::string hash(32, '\x40');
  EXPECT_EQ(plan(texts.page_of_cells,
                 {west, west, std::string_view(hash), std::string_view(hash), int64_t{5}}),
            (std::vector<std::string>{"weir_regions const PRIMARY", "weir_cells range PRIMARY"}));
  EXPECT_EQ(plan(texts.clean_cells, {int64_t{100}}),
            std::vector<std::string>{"weir_cells range weir_cells_kept_until_ms"});
  EXPECT_EQ(plan(texts.clean_feed, {int64_t{100}}),
            std::vector<std::string>{"weir_feed range weir_feed_written_at_ms"});
  // As in docs/ledger.md.
  EXPECT_EQ(plan("SELECT region, sequence, count FROM weir_cells WHERE workspace = 'acme' AND "
                 "namespace = 'login' AND identifier = '17'",
                 {}),
            std::vector<std::string>{"weir_cells ref weir_cells_names"});
}

}  // namespace
}  // namespace weir::ledgers
