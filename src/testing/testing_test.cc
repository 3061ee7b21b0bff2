#include "weir/testing.h"

#include <gtest/gtest.h>

#include <optional>

#include "weir/limiter.h"

namespace weir::test {
namespace {

class FaultyStores : public ::testing::Test {
 protected:
  ManualClock clock_;
  std::shared_ptr<RegionalOrigin> inner_ = make_in_process_origin(clock_);
  FaultyOrigin origin_{inner_, 1};

  // Adds to one cell; the reply, if one came.
  std::optional<Result<std::vector<CellTotals>>> replay(Count total) {
    std::optional<Result<std::vector<CellTotals>>> got;
    origin_.replay({{.cell = {.tuple = "a", .sequence = 1},
                     .writer = {.incarnation = 7},
                     .total = total,
                     .expires_at = clock_.now().wall + Millis(60'000)}},
                   [&](auto totals) { got = std::move(totals); });
    return got;
  }
  Count stored() {
    Count stored = 0;
    inner_->read({{.cell = {.tuple = "a", .sequence = 1},
                   .reader = {.incarnation = 9},
                   .expires_at = clock_.now().wall + Millis(60'000)}},
                 [&](auto totals) { stored = totals.value()[0].siblings; });
    return stored;
  }
};

TEST_F(FaultyStores, PassCallsOnWithoutAFault) {
  EXPECT_TRUE(replay(3)->ok());
  EXPECT_EQ(stored(), 3u);
  EXPECT_EQ(origin_.plan.faults(), 0u);
}

TEST_F(FaultyStores, FailAsTheScriptSays) {
  origin_.plan.script({Fault::kFail, Fault::kTimeout, Fault::kNoReply, Fault::kDrop});
  EXPECT_EQ(replay(1)->error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(stored(), 0u);
  EXPECT_EQ(replay(2)->error().code, ErrorCode::kTimeout);
  EXPECT_EQ(stored(), 2u);
  EXPECT_FALSE(replay(3).has_value());
  EXPECT_EQ(stored(), 3u);
  EXPECT_FALSE(replay(4).has_value());
  EXPECT_EQ(stored(), 3u);
  EXPECT_TRUE(replay(5)->ok());
  EXPECT_EQ(origin_.plan.faults(), 4u);
}

TEST_F(FaultyStores, ReportThatTheyAreUnreachable) {
  origin_.plan.disconnect();
  EXPECT_EQ(origin_.reach(), Reach::kNone);
  EXPECT_FALSE(replay(1)->ok());
  origin_.plan.reconnect();
  EXPECT_EQ(origin_.reach(), Reach::kPrompt);
}

TEST_F(FaultyStores, FailAtTheGivenRate) {
  origin_.plan.set_rates({.fail = 500});
  for (Count i = 1; i <= 1000; ++i) (void)replay(i);
  EXPECT_GT(origin_.plan.faults(), 400u);
  EXPECT_LT(origin_.plan.faults(), 600u);
}

TEST_F(FaultyStores, IncludeTheBridgeStoreOfTheOrigin) {
  BridgeStore* const store = origin_.bridge_store();
  ASSERT_NE(store, nullptr);
  int messages = 0;
  const Subscription subscription = store->subscribe([&](const BridgeMessage&) { ++messages; });
  const auto due = [&] {
    std::optional<size_t> entries;
    store->read_due({}, WallTime::max(), 10, [&](const auto& found) {
      if (found) entries = found->size();
    });
    return entries;
  };
  const DueTuple entry{.tuple = "a", .kind = Due::kNow, .at = clock_.now().wall};
  origin_.plan.script({Fault::kDrop, Fault::kNone, Fault::kNone, Fault::kFail});
  store->add_due({entry});
  EXPECT_EQ(due(), 0u);
  store->add_due({entry});
  EXPECT_EQ(due(), std::nullopt);
  EXPECT_EQ(due(), 1u);
  store->notify("one");
  EXPECT_EQ(messages, 1);
  origin_.plan.disconnect();
  EXPECT_EQ(due(), std::nullopt);
  inner_->bridge_store()->notify("two");
  EXPECT_EQ(messages, 1);
  origin_.plan.reconnect();
  store->notify("three");
  EXPECT_EQ(messages, 2);
}

TEST_F(FaultyStores, IncludeALedgerInMemory) {
  MemoryLedgerStore store(clock_);
  FaultyLedger ledger(store.connect(), 1);
  const auto publish = [&] {
    bool ok = false;
    ledger.publish(
        "east", {},
        {{.key = {.workspace = "w", .ns = "n", .identifier = "i", .duration = Millis(60'000)},
          .sequence = clock_.now().wall.time_since_epoch().count() / 60'000,
          .region = "east",
          .count = 5,
          .limit_seen = 10}},
        [&](auto at) { ok = at.ok(); });
    return ok;
  };
  ledger.plan.script({Fault::kFail});
  EXPECT_FALSE(publish());
  EXPECT_TRUE(publish());
  EXPECT_EQ(store.rows().size(), 1u);
  store.clear();
  EXPECT_TRUE(store.rows().empty());
  ledger.plan.disconnect();
  EXPECT_FALSE(ledger.reachable());
}

}  // namespace
}  // namespace weir::test
