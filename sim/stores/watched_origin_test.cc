// How a simulated origin comes to have less than it acknowledged.

#include "sim/stores/watched_origin.h"

#include <gtest/gtest.h>

#include "tests/contracts/bridge_contract.h"
#include "tests/doubles/manual_clock.h"

namespace weir::contracts {

struct WatchedMaker {
  using Clock = doubles::ManualClock;
  explicit WatchedMaker(const Clock& clock)
      : origin(
            clock, sim::Writing::kRaise, sim::PlantedBug::kNone, [](const sim::OriginWrite&) {},
            Millis(0)) {}
  [[nodiscard]] std::shared_ptr<RegionalOrigin> make() { return origin.endpoint_of(0); }
  [[nodiscard]] std::shared_ptr<RegionalOrigin> another() { return origin.endpoint_of(1); }
  void settle() {}
  void await_subscribers(int) {}
  template <typename Condition>
  void await(const Condition& reached) {
    EXPECT_TRUE(reached());
  }
  sim::WatchedOrigin origin;
};

INSTANTIATE_TYPED_TEST_SUITE_P(WatchedOrigin, BridgeContract, WatchedMaker);

}  // namespace weir::contracts

namespace weir::sim {
namespace {

class WatchedOriginTest : public ::testing::Test {
 protected:
  static constexpr Component kOne{.incarnation = 1, .generation = 1};
  static constexpr Component kTwo{.incarnation = 2, .generation = 1};

  std::unique_ptr<WatchedOrigin> origin_with(Writing writing) {
    return std::make_unique<WatchedOrigin>(clock_, writing, PlantedBug::kNone,
                                           [this](const OriginWrite&) { ++written_; });
  }
  CellTotals replay(WatchedOrigin& origin, const Component& writer, Count total) {
    CellTotals received;
    origin.endpoint_of(0)->replay({{.cell = cell_,
                                    .writer = writer,
                                    .total = total,
                                    .expires_at = clock_.now().wall + Millis(60'000)}},
                                  [&](const auto& totals) { received = totals->at(0); });
    return received;
  }

  CellTotals read(WatchedOrigin& origin, const Component& reader) {
    CellTotals received;
    origin.endpoint_of(0)->read({{.cell = cell_, .reader = reader}},
                                [&](const auto& totals) { received = totals->at(0); });
    return received;
  }

  doubles::ManualClock clock_;
  CellId cell_{"tuple", 5};
  int written_ = 0;
};

TEST_F(WatchedOriginTest, LateWriteLowersACountOnlyIfItWritesAsRedisDoes) {
  const auto raises = origin_with(Writing::kRaise);
  replay(*raises, kOne, 5);
  EXPECT_EQ(replay(*raises, kOne, 3).mine, 5u);
  const auto sets = origin_with(Writing::kSet);
  replay(*sets, kOne, 5);
  replay(*sets, kTwo, 2);
  EXPECT_EQ(replay(*sets, kOne, 3).mine, 3u);
  EXPECT_EQ(replay(*sets, kTwo, 2).siblings, 3u);
  EXPECT_EQ(sets->repaired(Loss::kLateWrite), 0u);
  replay(*sets, kOne, 6);
  EXPECT_EQ(sets->repaired(Loss::kLateWrite), 1u);
  EXPECT_EQ(written_, 7);
}

TEST_F(WatchedOriginTest, GoesBackToAnEarlierState) {
  const auto origin = origin_with(Writing::kSet);
  replay(*origin, kOne, 5);
  const MonoTime then = clock_.now().mono;
  clock_.advance(Millis(1));
  replay(*origin, kOne, 7);
  replay(*origin, kTwo, 1);
  origin->restore(then, Loss::kOldSnapshot);
  EXPECT_EQ(origin->components(cell_), (Components{{kOne, 5}}));
  EXPECT_EQ(replay(*origin, kOne, 7).siblings, 0u);
  EXPECT_EQ(origin->repaired(Loss::kOldSnapshot), 1u);
  origin->restore(then - Millis(1), Loss::kOldSnapshot);
  EXPECT_TRUE(origin->components(cell_).empty());
}

TEST_F(WatchedOriginTest, RecordsTheHistoryOfAComponent) {
  const auto origin = origin_with(Writing::kRaise);
  replay(*origin, kOne, 5);
  replay(*origin, kOne, 5);  // no change
  origin->forget_all();
  replay(*origin, kOne, 6);
  const std::vector<ComponentValue>& entry = origin->component_history(cell_, kOne);
  ASSERT_EQ(entry.size(), 3u);
  EXPECT_EQ(entry[1].count, 0u);
  EXPECT_EQ(entry[1].max_before, 5u);
  EXPECT_EQ(entry[2].count, 6u);
}

TEST_F(WatchedOriginTest, KnowsTheLeastThatAReadHasSeenSince) {
  const auto origin = origin_with(Writing::kSet);
  replay(*origin, kOne, 5);
  clock_.advance(Millis(1));
  const MonoTime since = clock_.now().mono;
  EXPECT_EQ(origin->least_others_since(cell_, kTwo, since), 5u);
  clock_.advance(Millis(1));
  replay(*origin, kOne, 8);
  EXPECT_EQ(origin->least_others_since(cell_, kTwo, since), 5u);
  EXPECT_EQ(origin->least_others_since(cell_, kTwo, clock_.now().mono), 8u);
  clock_.advance(Millis(1));
  replay(*origin, kOne, 2);
  EXPECT_EQ(origin->least_others_since(cell_, kTwo, since), 2u);
  EXPECT_EQ(origin->least_others_since(cell_, kOne, since), 0u);
}

// What other regions count on the tuple, as the bridge writes it.
class BridgeDataTest : public WatchedOriginTest {
 protected:
  void raise(Count count) {
    store().update_tuples({{.tuple = cell_.tuple,
                            .counts = {{.region = "eu", .sequence = 5, .count = count}},
                            .kept_until = clock_.now().wall + Millis(60'000),
                            .sequences = {}}},
                          [](const auto&) {});
  }
  [[nodiscard]] Count known() {
    const auto counts = origin_->bridge().counts(cell_.tuple);
    return counts.empty() ? 0 : counts[0].count;
  }
  [[nodiscard]] BridgeStore& store() { return *endpoint_->bridge_store(); }
  [[nodiscard]] std::vector<DueTuple> due() {
    std::vector<DueTuple> due;
    store().read_due({}, clock_.now().wall + Millis(1'000'000), 100,
                     [&](const auto& entries) { due = *entries; });
    return due;
  }
  void replay_due(Count total) {
    endpoint_->replay({{.cell = cell_,
                        .writer = kOne,
                        .total = total,
                        .expires_at = clock_.now().wall + Millis(60'000),
                        .limit_seen = 10,
                        .due = Due::kNow}},
                      [](const auto&) {});
  }
  BridgeGrant acquire(const std::string& holder) {
    BridgeGrant grant;
    store().acquire(holder, Millis(1000), [&](const auto& received) { grant = *received; });
    return grant;
  }

  std::unique_ptr<WatchedOrigin> origin_ = origin_with(Writing::kRaise);
  std::shared_ptr<RegionalOrigin> endpoint_ = origin_->endpoint_of(0);
};

TEST_F(BridgeDataTest, IsLostAndRestoredWithTheRest) {
  raise(3);
  replay_due(1);
  EXPECT_TRUE(acquire("one").ours);
  store().save("one", "", "state", [](const auto&) {});
  store().keep_record("record", [](const auto&) {});
  const MonoTime then = clock_.now().mono;
  clock_.advance(Millis(1));
  raise(5);
  store().remove_due(due());
  store().save("one", "state", "newer", [](const auto&) {});
  origin_->restore(then, Loss::kOldSnapshot);
  EXPECT_EQ(known(), 3u);
  EXPECT_EQ(origin_->bridge().records().size(), 1u);
  EXPECT_EQ(due().size(), 1u);
  EXPECT_EQ(acquire("one").state, "state");
  origin_->forget_all();
  EXPECT_EQ(known(), 0u);
  EXPECT_TRUE(origin_->bridge().records().empty());
  EXPECT_TRUE(due().empty());
  EXPECT_TRUE(acquire("two").ours);
  EXPECT_EQ(acquire("two").state, "");
  EXPECT_EQ(origin_->bridge().limit_seen(cell_), 0u);
}

TEST_F(BridgeDataTest, RecordsTheHistoryOfCounts) {
  raise(3);
  const MonoTime then = clock_.now().mono;
  clock_.advance(Millis(1));
  raise(5);
  EXPECT_EQ(origin_->bridge().counts_at(cell_.tuple, then)->counts[0].count, 3u);
  EXPECT_EQ(origin_->bridge().counts_at(cell_.tuple, clock_.now().mono)->counts[0].count, 5u);
  EXPECT_EQ(origin_->bridge().counts_at(cell_.tuple, then - Millis(1)), nullptr);
}

TEST_F(BridgeDataTest, ReplayGivesADueEntryALaterTime) {
  replay_due(1);
  const std::vector<DueTuple> read = due();
  ASSERT_EQ(read.size(), 1u);
  clock_.advance(Millis(1));
  replay_due(2);
  store().remove_due(read);
  ASSERT_EQ(due().size(), 1u);
  EXPECT_GT(due()[0].at, read[0].at);
  store().remove_due(due());
  EXPECT_TRUE(due().empty());
}

TEST_F(BridgeDataTest, EvictionLosesCountsOfOneTupleAndIsReported) {
  Random random(1);
  EXPECT_FALSE(origin_->evict_region_counts(random));
  raise(3);
  EXPECT_EQ(acquire("one").evicted, 0u);
  EXPECT_TRUE(origin_->evict_region_counts(random));
  EXPECT_EQ(known(), 0u);
  EXPECT_EQ(acquire("one").evicted, 1u);
}

TEST_F(BridgeDataTest, LeaseEndsWithTime) {
  EXPECT_TRUE(acquire("one").ours);
  EXPECT_FALSE(acquire("two").ours);
  clock_.advance(Millis(1000));
  EXPECT_TRUE(acquire("two").ours);
  EXPECT_FALSE(acquire("one").ours);
}

}  // namespace
}  // namespace weir::sim
