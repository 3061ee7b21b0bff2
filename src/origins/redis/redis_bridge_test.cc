// The store of the bridge on a real redis-server: what the contract does not cover.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "origins/redis/redis_tuples.h"
#include "origins/redis/running_redis_test.h"
#include "tests/contracts/bridge_contract_fixture.h"

namespace weir::origins {
namespace {

using contracts::Inbox;

TupleUpdate update_of(const std::string& tuple, std::vector<RegionCount> counts,
                      int64_t kept_ms = 60'000) {
  return {.tuple = tuple, .counts = std::move(counts), .kept_until = in(kept_ms), .sequences = {}};
}

RegionCount eu(int64_t sequence, Count count) {
  return {.region = "eu", .sequence = sequence, .count = count};
}

std::string key_of(const std::string& tuple) {
  return tuple_key(key_prefix(tuple));
}

class RedisBridge : public ::testing::Test {
 protected:
  void SetUp() override { origin_.await_ready(); }

  // The region counts of a tuple.
  [[nodiscard]] std::vector<RegionCount> regions(const std::string& tuple) const {
    return origin_.read_tuples({{.tuple = tuple, .sequences = {}}})->at(0).regions;
  }
  // Waits until the calls without a reply have run.
  void settle() const { (void)origin_.read({read_of("settle")}); }

  const RealClock clock_{};
  RedisServer server_;
  const RunningOrigin origin_{clock_, server_.port()};
};

// The bridge works by the clock of the server.
TEST_F(RedisBridge, UpdatesOfACallerWhoseClockIsAheadAreKept) {
  const RealClock ahead{Millis(7'200'000)};
  const RunningOrigin wrong{ahead, server_.port(), {}, 2};
  wrong.await_ready();
  TupleUpdate update = update_of("a", {eu(5, 7)}, 600'000);
  update.now = in(0);
  EXPECT_TRUE(wrong.update_tuples({update}).ok());
  EXPECT_EQ(regions("a"), std::vector{eu(5, 7)});
}

// Also with the first message on a connection.
TEST_F(RedisBridge, AGrantHasTheTimeOfTheServer) {
  const RealClock ahead{Millis(7'200'000)};
  for (uint64_t i = 0; i < 20; ++i) {
    const RunningOrigin origin{ahead, server_.port(), {}, 2 + i};
    // A request reads its tuple at the same time.
    while (origin->reach() != Reach::kPrompt) (void)origin.read({read_of("a")});
    const auto grant = origin.acquire("one", kLease);
    ASSERT_TRUE(grant);
    EXPECT_LT(grant->now - in(0), Millis(1000));
  }
}

TEST_F(RedisBridge, EndsTheLeaseAfterItsTime) {
  ASSERT_TRUE(origin_.acquire("one", Millis(50))->ours);
  EXPECT_TRUE(await([&] { return origin_.acquire("two", kLease)->ours; }));
  EXPECT_FALSE(*origin_.save("one", "late"));
  EXPECT_FALSE(origin_.acquire("one", kLease)->ours);
}

TEST_F(RedisBridge, LoadsEachScriptAgainAfterAScriptFlush) {
  const DueTuple entry{.tuple = "a", .kind = Due::kNow, .at = in(0)};
  Inbox inbox;
  const Subscription subscription = origin_->subscribe(inbox.handler());
  await([&] { return subscribers(server_) == 1; });
  CellReplay cell = replay_of("c", 1);
  cell.due = Due::kRule;
  Count count = 0;
  Count floor = 0;
  size_t messages = 0;
  std::string saved;
  const std::vector<std::function<void()>> calls = {
      [&] { ASSERT_TRUE(origin_.acquire("one", kLease)->ours); },
      [&] { EXPECT_TRUE(*origin_.save("one", "state", std::exchange(saved, "state"))); },
      [&] {
        ++count;
        EXPECT_EQ(
            origin_.update_tuples({update_of("b", {eu(5, 1)}), update_of("a", {eu(5, count)})})
                ->at(1)
                .regions,
            std::vector{eu(5, count)});
      },
      [&] {
        TupleUpdate update = update_of("a", {});
        update.sequences = {5};
        update.floors = {{.sequence = 5, .total = ++floor, .expires_at = in(60'000)}};
        EXPECT_EQ(origin_.update_tuples({update})->at(0).windows.at(0).total, floor);
      },
      [&] {
        origin_->notify("x");
        ++messages;
        await([&] { return inbox.size() == messages; });
      },
      [&] {
        origin_->add_due({entry});
        settle();
      },
      [&] {
        await([&] {
          const auto due = origin_.read_due(in(60'000));
          origin_->remove_due(*due);  // not repeated by the origin
          return due->empty();
        });
      },
      // Its caller sends it again.
      [&] { await([&] { return origin_.replay({cell}).ok(); }); },
      [&] {
        ASSERT_TRUE(origin_.acquire("one", kLease)->ours);
        settle();
        origin_->release("one");
        await([&] { return server_.ask("EXISTS weir:{bridge}:lease") == ":0\r\n"; });
      },
  };
  for (const auto& flushed : calls) {
    for (const auto& call : calls) call();
    ASSERT_TRUE(origin_.acquire("one", kLease)->ours);
    const uint64_t missing = origin_->metrics().errors.total(OriginError::kNoScript);
    (void)server_.ask("SCRIPT FLUSH");
    flushed();
    EXPECT_EQ(origin_->metrics().errors.total(OriginError::kNoScript), missing + 1);
  }
  EXPECT_TRUE(origin_->metrics().closed);
}

TEST_F(RedisBridge, KeepsRegionCountsForTheLongestTimeOfAllUpdates) {
  const WallTime before = in(0);
  const TupleUpdate first = update_of("a", {eu(5, 1)}, 200'000);
  ASSERT_TRUE(origin_.update_tuples({first}).ok());
  const WallTime first_expiry = expiry(server_, key_of("a"));
  EXPECT_GE(first_expiry, first.kept_until + kExpiryMargin);
  EXPECT_LE(first_expiry, first.kept_until + kExpiryMargin + (in(0) - before));
  const TupleUpdate longer = update_of("a", {eu(5, 2)}, 900'000);
  ASSERT_TRUE(origin_.update_tuples({longer}).ok());
  const WallTime longest = expiry(server_, key_of("a"));
  EXPECT_GE(longest, longer.kept_until + kExpiryMargin);
  ASSERT_TRUE(origin_.update_tuples({update_of("a", {eu(5, 3)}, 100'000)}).ok());
  EXPECT_EQ(expiry(server_, key_of("a")), longest);
  (void)server_.ask("PERSIST " + key_of("a"));
  const TupleUpdate last = update_of("a", {eu(5, 3)}, 100'000);
  ASSERT_TRUE(origin_.update_tuples({last}).ok());
  EXPECT_GE(expiry(server_, key_of("a")), last.kept_until + kExpiryMargin);
}

TEST_F(RedisBridge, StoresCountsReadably) {
  ASSERT_TRUE(origin_
                  .update_tuples({update_of(
                      "a", {{.region = "eu",
                             .sequence = 28'333'333,
                             .count = Count{1} << 43,
                             .limit_seen = 1'000'000'000'000,
                             .leased_until = WallTime(Millis(1700000600000))},
                            {.region = "eu",
                             .sequence = 28'333'332,
                             .count = 7,
                             .limit_seen = 1'000'000'000'000},
                            {.region = "eu", .sequence = 28'333'331, .count = 5, .limit_seen = 90},
                            {.region = "eu", .sequence = 28'333'334}})})
                  .ok());
  EXPECT_EQ(server_.ask("HGET " + key_of("a") + " eu"),
            "$63\r\n1700000600000;28333333,8796093022208,1000000000000;-1,7;-2,5,90\r\n");
}

TEST_F(RedisBridge, ReplacesStoredValuesThatAreNotCounts) {
  ASSERT_TRUE(origin_.update_tuples({update_of("a", {eu(5, 1)})}).ok());
  (void)server_.ask("HSET " + key_of("a") + " eu nonsense us 0;5,99999999999999999999,0");
  EXPECT_TRUE(regions("a").empty());
  EXPECT_EQ(origin_->metrics().invalid, 2u);
  RegionCount us = eu(5, 4);
  us.region = "us";
  EXPECT_EQ(origin_.update_tuples({update_of("a", {eu(5, 3), us})})->at(0).regions,
            (std::vector{eu(5, 3), us}));
}

TEST_F(RedisBridge, FailsTheWholeCallIfOneTupleFails) {
  (void)server_.ask("SET " + key_of("b") + " x");
  for (int i = 0; i < 30; ++i) {
    const auto counts =
        origin_.update_tuples({update_of("a", {eu(5, 1)}), update_of("b", {eu(5, 1)})});
    ASSERT_FALSE(counts.ok());
    EXPECT_NE(counts.error().detail.find("WRONGTYPE"), std::string::npos);
    EXPECT_FALSE(
        origin_.read_tuples({{.tuple = "b", .sequences = {}}, {.tuple = "a", .sequences = {}}})
            .ok());
    EXPECT_FALSE(origin_.read({{.cell = {"b", 5}, .reader = {}, .with_regions = true}}).ok());
  }
  EXPECT_TRUE(origin_->metrics().closed);  // it concerns one tuple
  EXPECT_EQ(regions("a"), std::vector{eu(5, 1)});
  (void)server_.ask("SET weir:due x");
  CellReplay due = replay_of("c", 1);
  due.due = Due::kNow;
  EXPECT_FALSE(origin_.replay({due}).ok());
  EXPECT_FALSE(origin_.read_due(in(0)).ok());
  (void)server_.ask("DEL weir:due");
  EXPECT_TRUE(origin_.replay({due}).ok());
  EXPECT_EQ(origin_.read_due(in(60'000))->size(), 1u);
}

TEST_F(RedisBridge, SendsLongListsInParts) {
  std::vector<TupleUpdate> updates;
  std::vector<TupleRead> reads;
  std::vector<DueTuple> due;
  constexpr size_t kTuples = 2345;
  for (size_t i = 0; i < kTuples; ++i) {
    const std::string tuple = "tuple " + std::to_string(i);
    updates.push_back(update_of(tuple, {eu(5, i + 1)}));
    reads.push_back({.tuple = tuple, .sequences = {5, 6}});
    due.push_back({.tuple = tuple, .kind = Due::kNow, .at = WallTime(Millis(i))});
  }
  const auto updated = origin_.update_tuples(updates);
  const auto read = origin_.read_tuples(reads);
  ASSERT_TRUE(updated.ok() && read.ok());
  ASSERT_EQ(updated->size(), kTuples);
  ASSERT_EQ(read->size(), kTuples);
  for (size_t i = 0; i < kTuples; ++i) {
    EXPECT_EQ(updated->at(i).regions, std::vector{eu(5, i + 1)});
    EXPECT_EQ(read->at(i).regions, std::vector{eu(5, i + 1)});
    EXPECT_EQ(read->at(i).windows.size(), 2u);
  }
  origin_->add_due(due);
  EXPECT_EQ(*origin_.read_due(in(0), kTuples), due);
  origin_->remove_due(due);
  EXPECT_TRUE(origin_.read_due(in(0))->empty());
}

TEST_F(RedisBridge, KeepsAnEntryThatWasRescoredWhileItWasPublished) {
  const DueTuple entry{.tuple = "a", .kind = Due::kWindowEnd, .at = in(0)};
  origin_->add_due({entry});
  ASSERT_EQ(*origin_.read_due(in(0)), std::vector{entry});
  DueTuple earlier = entry;
  earlier.at -= Millis(1);
  origin_->add_due({earlier});
  origin_->remove_due({entry});
  EXPECT_EQ(*origin_.read_due(in(0)), std::vector{earlier});
}

// A bridge removes the entry first, and then reads the counts again: either the read returns a
// later count, or the entry of that count is added again.
TEST_F(RedisBridge, NeverLosesACountThatIsAddedWhileItsEntryIsRemoved) {
  const RunningOrigin node(clock_, server_.port(), {}, 2);
  node.await_ready();
  CellReplay cell = replay_of("a", 0);
  cell.due = Due::kNow;
  std::atomic<Count> written{0};
  constexpr Count kRounds = 300;
  std::thread writer([&] {
    for (Count total = 1; total <= kRounds; ++total) {
      CellReplay next = cell;
      next.total = total;
      EXPECT_TRUE(node.replay({next}).ok());
      written = total;
    }
  });
  Count seen = 0;
  while (seen < kRounds) {
    const bool complete = written == kRounds;
    const auto due = origin_.read_due(in(1000));
    ASSERT_TRUE(due.ok());
    if (due->empty()) {
      if (complete) break;
      continue;
    }
    origin_->remove_due(*due);
    seen = origin_.read_tuples({{.tuple = "a", .sequences = {5}}})->at(0).windows.at(0).total;
  }
  writer.join();
  EXPECT_EQ(seen, kRounds);
}

TEST_F(RedisBridge, MergesTheUpdatesOfTwoBridges) {
  const RunningOrigin other(clock_, server_.port(), {}, 2);
  other.await_ready();
  constexpr Count kRounds = 200;
  const auto run = [](const RunningOrigin& bridge, Count first) {
    for (Count count = first; count <= kRounds; count += 2) {
      const RegionCount one{.region = "eu",
                            .sequence = static_cast<int64_t>(count / 50),
                            .count = count,
                            .limit_seen = 1000 - count,
                            .leased_until = WallTime(Millis(count))};
      EXPECT_TRUE(bridge.update_tuples({update_of("a", {one})}).ok());
    }
  };
  std::thread second([&] { run(other, 2); });
  run(origin_, 1);
  second.join();
  const auto merged = regions("a");
  ASSERT_EQ(merged.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const auto sequence = static_cast<int64_t>(2 + i);
    const Count largest = sequence == 4 ? kRounds : 50 * static_cast<Count>(sequence) + 49;
    EXPECT_EQ(merged[i], (RegionCount{.region = "eu",
                                      .sequence = sequence,
                                      .count = largest,
                                      .limit_seen = 1000 - largest,
                                      .leased_until = WallTime(Millis(kRounds))}));
  }
}

TEST_F(RedisBridge, CountsEvictedKeys) {
  EXPECT_EQ(origin_.acquire("one", kLease)->evicted, 0u);
  (void)server_.ask("CONFIG SET maxmemory-policy allkeys-lru");
  (void)server_.ask("CONFIG SET maxmemory 3mb");
  uint64_t evicted = 0;
  for (int round = 0; evicted == 0 && round < 1000; ++round) {
    std::vector<TupleUpdate> updates;
    for (int i = 0; i < 500; ++i) {
      updates.push_back(update_of(std::to_string(round) + "/" + std::to_string(i), {eu(5, 1)}));
    }
    ASSERT_TRUE(origin_.update_tuples(updates).ok());
    const auto grant = origin_.acquire("one", kLease);
    ASSERT_TRUE(grant.ok());
    evicted = grant->evicted;
  }
  EXPECT_GT(evicted, 0u);
}

TEST_F(RedisBridge, LosesEverythingWithTheMemoryOfTheServer) {
  ASSERT_TRUE(origin_.acquire("one", kLease)->ours);
  EXPECT_TRUE(*origin_.save("one", "state"));
  ASSERT_TRUE(origin_.update_tuples({update_of("a", {eu(5, 1)})}).ok());
  origin_->add_due({{.tuple = "a", .kind = Due::kNow, .at = in(0)}});
  settle();
  const uint64_t epoch = origin_->epoch();
  server_.restart();
  ASSERT_TRUE(await([&] { return origin_.read({read_of("a")}).ok(); }));
  EXPECT_NE(origin_->epoch(), epoch);
  const auto grant = origin_.acquire("two", kLease);
  ASSERT_TRUE(grant.ok());
  EXPECT_TRUE(grant->ours);
  EXPECT_EQ(grant->state, "");
  EXPECT_TRUE(regions("a").empty());
  EXPECT_TRUE(origin_.read_due(in(0))->empty());
  EXPECT_EQ(origin_.update_tuples({update_of("a", {eu(5, 2)})})->at(0).regions,
            std::vector{eu(5, 2)});
}

TEST_F(RedisBridge, FailsAllCallsWithoutAServer) {
  server_.kill();
  await([&] { return origin_->reach() == Reach::kNone; });
  EXPECT_FALSE(origin_.acquire("one", kLease).ok());
  EXPECT_FALSE(origin_.save("one", "state").ok());
  EXPECT_FALSE(origin_.read_due(in(0)).ok());
  EXPECT_FALSE(origin_.read_tuples({{.tuple = "a", .sequences = {}}}).ok());
  EXPECT_FALSE(origin_.update_tuples({update_of("a", {eu(5, 1)})}).ok());
  origin_->notify("x");
  origin_->release("one");
  origin_->add_due({{.tuple = "a", .kind = Due::kNow, .at = in(0)}});
  origin_->remove_due({{.tuple = "a", .kind = Due::kNow, .at = in(0)}});
  EXPECT_FALSE(origin_.read({read_of("a")}).ok());
}

TEST_F(RedisBridge, ReportsRefusedUpdates) {
  ASSERT_TRUE(origin_.acquire("one", kLease)->ours);
  (void)server_.ask("CONFIG SET maxmemory 1");
  for (int i = 0; i < 30; ++i) {
    EXPECT_FALSE(origin_.update_tuples({update_of("a", {eu(5, 1)})}).ok());
  }
  EXPECT_EQ(origin_->reach(), Reach::kReadOnly);
  EXPECT_TRUE(origin_->metrics().closed);
  EXPECT_TRUE(origin_.read_tuples({{.tuple = "a", .sequences = {}}}).ok());
  EXPECT_FALSE(origin_.acquire("two", kLease)->ours);  // without a write
  EXPECT_EQ(origin_->reach(), Reach::kReadOnly);
  (void)server_.ask("CONFIG SET maxmemory 0");
  EXPECT_TRUE(origin_.update_tuples({update_of("a", {eu(5, 1)})}).ok());
}

TEST_F(RedisBridge, CostsNothingWithoutALedger) {
  ASSERT_TRUE(origin_.replay({replay_of("a", 3)}).ok());
  ASSERT_TRUE(origin_.read({read_of("a")}).ok());
  ASSERT_TRUE(origin_.retire({{.cell = {"a", 5}, .writer = kNode}}).ok());
  for (const OriginCommand kind :
       {OriginCommand::kRegions, OriginCommand::kDue, OriginCommand::kBridge}) {
    EXPECT_EQ(origin_->metrics().commands.total(kind), 0u);
  }
  EXPECT_EQ(server_.ask("HLEN " + redis_key({"a", 5})), ":1\r\n");
  EXPECT_EQ(subscribers(server_), 0u);
  // One of the origin, and the one that asks.
  EXPECT_NE(server_.ask("INFO clients").find("connected_clients:2\r"), std::string::npos);
}

}  // namespace
}  // namespace weir::origins
