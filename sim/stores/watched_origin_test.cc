// How a simulated origin comes to have less than it acknowledged.

#include "sim/stores/watched_origin.h"

#include <gtest/gtest.h>

#include "tests/doubles/manual_clock.h"

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

  void note_published(WatchedOrigin& origin, Count total) {
    origin.endpoint_of(0)->note_published(
        {{.cell = cell_, .total = total, .expires_at = clock_.now().wall + Millis(60'000)}});
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

TEST_F(WatchedOriginTest, PublishedCountBelongsToNoComponent) {
  const auto origin = origin_with(Writing::kSet);
  note_published(*origin, 4);
  EXPECT_EQ(replay(*origin, kOne, 5).published, 4u);
  EXPECT_EQ(read(*origin, kTwo).published, 4u);
  EXPECT_EQ(read(*origin, kTwo).siblings, 5u);
  EXPECT_EQ(origin->components(cell_), (Components{{kOne, 5}}));
  EXPECT_EQ(written_, 1);
  EXPECT_EQ(origin->component_history(cell_, kOne).size(), 1u);
}

TEST_F(WatchedOriginTest, KeepsTheLastPublishedCountOnlyIfItWritesAsRedisDoes) {
  const auto raises = origin_with(Writing::kRaise);
  note_published(*raises, 8);
  note_published(*raises, 3);
  EXPECT_EQ(read(*raises, kOne).published, 8u);
  const auto sets = origin_with(Writing::kSet);
  note_published(*sets, 8);
  note_published(*sets, 3);
  EXPECT_EQ(read(*sets, kOne).published, 3u);
}

TEST_F(WatchedOriginTest, LosesAndRestoresThePublishedCountWithTheRest) {
  const auto origin = origin_with(Writing::kSet);
  replay(*origin, kOne, 5);
  note_published(*origin, 5);
  const MonoTime then = clock_.now().mono;
  clock_.advance(Millis(1));
  replay(*origin, kOne, 7);
  note_published(*origin, 7);
  replay(*origin, kOne, 6);  // late: what others wrote stays
  EXPECT_EQ(read(*origin, kOne).published, 7u);
  origin->restore(then, Loss::kOldSnapshot);
  EXPECT_EQ(read(*origin, kOne).published, 5u);
  origin->forget_all();
  EXPECT_EQ(read(*origin, kOne).published, 0u);
  note_published(*origin, 7);
  clock_.advance(Millis(65'000));
  EXPECT_EQ(read(*origin, kOne).published, 0u);
}

}  // namespace
}  // namespace weir::sim
