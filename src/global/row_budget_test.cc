#include "global/row_budget.h"

#include <gtest/gtest.h>

namespace weir::limiter {
namespace {

MonoTime at(int64_t ms) {
  return MonoTime(Millis(1'000'000 + ms));
}

int take_all(RowBudget& budget) {
  int taken = 0;
  while (budget.take()) ++taken;
  return taken;
}

TEST(RowBudget, GivesASecondsRowsAtOnceAndThenAsManyAsTimeBrings) {
  RowBudget budget;
  budget.refill(at(0), 100);
  EXPECT_EQ(take_all(budget), 100);
  EXPECT_DOUBLE_EQ(budget.used(), 1);
  budget.refill(at(250), 100);
  EXPECT_EQ(take_all(budget), 25);
  budget.refill(at(60'000), 100);
  EXPECT_DOUBLE_EQ(budget.used(), 0);
  EXPECT_EQ(take_all(budget), 100);
}

TEST(RowBudget, GivesARowNowAndThenHoweverSmallItIs) {
  RowBudget budget;
  budget.refill(at(0), 0.5);
  EXPECT_EQ(take_all(budget), 1);
  budget.refill(at(1000), 0.5);
  EXPECT_EQ(take_all(budget), 0);
  budget.refill(at(2000), 0.5);
  EXPECT_EQ(take_all(budget), 1);
}

TEST(RowBudget, DoublesWhatANamespaceThatFloodsMayHideAndHalvesItAfterwards) {
  RowBudget budget;
  budget.refill(at(0), 10);
  budget.note_waiting(at(0), "quiet", 10);
  budget.note_waiting(at(0), "flood", 11);
  EXPECT_EQ(budget.doubled("quiet"), 0U);
  EXPECT_EQ(budget.doubled("flood"), 1U);
  budget.note_waiting(at(100), "flood", 500);  // it takes a while to see what the first did
  EXPECT_EQ(budget.doubled("flood"), 1U);
  budget.note_waiting(at(600), "flood", 500);
  EXPECT_EQ(budget.doubled("flood"), 2U);
  EXPECT_EQ(budget.most_doubled(), 2U);
  EXPECT_FALSE(budget.relent(at(5000)));
  EXPECT_TRUE(budget.relent(at(10'600)));
  EXPECT_EQ(budget.doubled("flood"), 1U);
  EXPECT_FALSE(budget.relent(at(10'700)));
  EXPECT_TRUE(budget.relent(at(20'700)));
  EXPECT_EQ(budget.most_doubled(), 0U);
}

}  // namespace
}  // namespace weir::limiter
