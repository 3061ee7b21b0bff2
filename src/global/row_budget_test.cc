#include "global/row_budget.h"

#include <gtest/gtest.h>

namespace weir::global {
namespace {

MonoTime at(int64_t ms) {
  return MonoTime(Millis(1'000'000 + ms));
}

int take_all(RowBudget& budget) {
  int taken = 0;
  while (budget.take()) ++taken;
  return taken;
}

TEST(RowBudget, GrantsTheRowsOfASecondAtOnceAndThenByElapsedTime) {
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

TEST(RowBudget, GrantsARowNowAndThenHoweverSmallItIs) {
  RowBudget budget;
  budget.refill(at(0), 0.5);
  EXPECT_EQ(take_all(budget), 1);
  budget.refill(at(1000), 0.5);
  EXPECT_EQ(take_all(budget), 0);
  budget.refill(at(2000), 0.5);
  EXPECT_EQ(take_all(budget), 1);
}

TEST(RowBudget, DoublesTheAllowanceOfAFloodingNamespaceAndHalvesItAfterwards) {
  RowBudget budget;
  budget.refill(at(0), 10);
  budget.note_waiting(at(0), "quiet", 10);
  budget.note_waiting(at(0), "flood", 11);
  EXPECT_EQ(budget.doublings("quiet"), 0U);
  EXPECT_EQ(budget.doublings("flood"), 1U);
  budget.note_waiting(at(100), "flood", 500);  // too soon after the first doubling
  EXPECT_EQ(budget.doublings("flood"), 1U);
  budget.note_waiting(at(600), "flood", 500);
  EXPECT_EQ(budget.doublings("flood"), 2U);
  EXPECT_EQ(budget.max_doublings(), 2U);
  EXPECT_FALSE(budget.halve_idle(at(5000)));
  EXPECT_TRUE(budget.halve_idle(at(10'600)));
  EXPECT_EQ(budget.doublings("flood"), 1U);
  EXPECT_FALSE(budget.halve_idle(at(10'700)));
  EXPECT_TRUE(budget.halve_idle(at(20'700)));
  EXPECT_EQ(budget.max_doublings(), 0U);
}

}  // namespace
}  // namespace weir::global
