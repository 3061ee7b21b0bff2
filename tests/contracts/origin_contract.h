// The contract of RegionalOrigin: each implementation, and its faulty twin, passes this suite.
//
// A maker is constructed with its `Clock`, which can advance() unless kTimeIsReal. It provides
// make(); settle(), which waits for pending replies; and if kTimeIsReal also age(), which moves the
// expiry of a cell instead of the clock.

#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "tests/doubles/manual_clock.h"
#include "weir/origin.h"

namespace weir::contracts {

template <typename Maker>
class OriginContract : public ::testing::Test {
 protected:
  static constexpr Component kNode{.incarnation = 1, .generation = 1};
  static constexpr Component kSibling{.incarnation = 2, .generation = 1};
  static constexpr Component kNextGeneration{.incarnation = 1, .generation = 2};

  CellId cell(std::string tuple = "tuple", int64_t sequence = 5) {
    return {std::move(tuple), sequence};
  }

  CellTotals replay(const CellId& id, Component writer, Count total,
                    Millis time_to_live = Millis(60'000)) {
    std::optional<CellTotals> received;
    origin_->replay({{.cell = id,
                      .writer = writer,
                      .total = total,
                      .expires_at = clock_.now().wall + time_to_live}},
                    [&](auto totals) { received = totals.value().at(0); });
    maker_.settle();
    return received.value();
  }
  CellTotals read(const CellId& id, Component reader) {
    std::optional<CellTotals> received;
    origin_->read({{.cell = id, .reader = reader}},
                  [&](auto totals) { received = totals.value().at(0); });
    maker_.settle();
    return received.value();
  }

  size_t retire(const CellId& id, Component writer) {
    std::optional<size_t> count;
    origin_->retire({{.cell = id, .writer = writer}},
                    [&](Result<size_t> retired) { count = retired.value(); });
    maker_.settle();
    return count.value();
  }

  typename Maker::Clock clock_;
  Maker maker_{clock_};
  std::shared_ptr<RegionalOrigin> origin_ = maker_.make();
};
TYPED_TEST_SUITE_P(OriginContract);

TYPED_TEST_P(OriginContract, ReturnsZeroForAnUnknownCell) {
  const CellTotals totals = this->read(this->cell(), this->kNode);
  EXPECT_EQ(totals.mine, 0u);
  EXPECT_EQ(totals.siblings, 0u);
  EXPECT_EQ(totals.regions, nullptr);
}

TYPED_TEST_P(OriginContract, SeparatesOwnCountFromSiblings) {
  this->replay(this->cell(), this->kSibling, 5);
  const CellTotals totals = this->replay(this->cell(), this->kNode, 3);
  EXPECT_EQ(totals.mine, 3u);
  EXPECT_EQ(totals.siblings, 5u);
}

TYPED_TEST_P(OriginContract, CountsAnEarlierGenerationOfTheNodeAsASibling) {
  this->replay(this->cell(), this->kNode, 3);
  const CellTotals totals = this->replay(this->cell(), this->kNextGeneration, 1);
  EXPECT_EQ(totals.mine, 1u);
  EXPECT_EQ(totals.siblings, 3u);
}

TYPED_TEST_P(OriginContract, IgnoresARepeatedReplay) {
  this->replay(this->cell(), this->kNode, 3);
  this->replay(this->cell(), this->kNode, 3);
  EXPECT_EQ(this->read(this->cell(), this->kNode).mine, 3u);
}

TYPED_TEST_P(OriginContract, SeparatesTuplesAndWindows) {
  this->replay(this->cell("a", 5), this->kNode, 3);
  EXPECT_EQ(this->read(this->cell("a", 6), this->kNode).mine, 0u);
  EXPECT_EQ(this->read(this->cell("b", 5), this->kNode).mine, 0u);
  EXPECT_EQ(this->read(this->cell(std::string("a\0x", 3), 5), this->kNode).mine, 0u);
}

TYPED_TEST_P(OriginContract, DropsACellWhenItExpires) {
  // Where time is real, it also goes on by itself, and a cell is kept a little longer.
  constexpr Millis kTick{TypeParam::kTimeIsReal ? 3'600'000 : 1};
  const auto pass = [&](Millis time) {
    if constexpr (TypeParam::kTimeIsReal) {
      this->maker_.age(this->cell(), time);
    } else {
      this->clock_.advance(time);
    }
  };
  this->replay(this->cell(), this->kNode, 3, 1000 * kTick);
  pass(999 * kTick);
  EXPECT_EQ(this->read(this->cell(), this->kNode).mine, 3u);
  pass(TypeParam::kTimeIsReal ? 2 * kTick : kTick);
  EXPECT_EQ(this->read(this->cell(), this->kNode).mine, 0u);
}

TYPED_TEST_P(OriginContract, AnswersInRequestOrder) {
  this->replay(this->cell("a"), this->kNode, 1);
  this->replay(this->cell("b"), this->kNode, 2);
  std::vector<CellTotals> received;
  this->origin_->read({{.cell = this->cell("b"), .reader = this->kNode},
                       {.cell = this->cell("none"), .reader = this->kNode},
                       {.cell = this->cell("a"), .reader = this->kNode}},
                      [&](auto totals) { received = totals.value(); });
  this->maker_.settle();
  ASSERT_EQ(received.size(), 3u);
  EXPECT_EQ(received[0].mine, 2u);
  EXPECT_EQ(received[1].mine, 0u);
  EXPECT_EQ(received[2].mine, 1u);
}

TYPED_TEST_P(OriginContract, AcknowledgesAnExpiredCellWithoutStoringIt) {
  EXPECT_EQ(this->replay(this->cell(), this->kNode, 3, Millis(-1)).mine, 3u);
  EXPECT_EQ(this->read(this->cell(), this->kNode).mine, 0u);
}

TYPED_TEST_P(OriginContract, FoldsARetiredComponentIntoDepartedOnce) {
  this->replay(this->cell(), this->kNode, 3);
  this->replay(this->cell(), this->kSibling, 5);
  EXPECT_EQ(this->retire(this->cell(), this->kNode), 1u);
  EXPECT_EQ(this->retire(this->cell(), this->kNode), 0u);
  EXPECT_EQ(this->retire(this->cell("other"), this->kNode), 0u);
  EXPECT_EQ(this->read(this->cell(), this->kNode).mine, 0u);
  EXPECT_EQ(this->read(this->cell(), this->kNode).siblings, 8u);
  EXPECT_EQ(this->read(this->cell(), this->kSibling).siblings, 3u);
  EXPECT_EQ(this->retire(this->cell(), this->kSibling), 1u);
  EXPECT_EQ(this->read(this->cell(), this->kNextGeneration).siblings, 8u);
}

REGISTER_TYPED_TEST_SUITE_P(OriginContract, ReturnsZeroForAnUnknownCell,
                            SeparatesOwnCountFromSiblings,
                            CountsAnEarlierGenerationOfTheNodeAsASibling, IgnoresARepeatedReplay,
                            SeparatesTuplesAndWindows, DropsACellWhenItExpires,
                            AcknowledgesAnExpiredCellWithoutStoringIt, AnswersInRequestOrder,
                            FoldsARetiredComponentIntoDepartedOnce);

}  // namespace weir::contracts
