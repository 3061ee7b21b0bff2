#include "global/row_budget.h"

#include <gtest/gtest.h>

#include <map>

namespace weir::global {
namespace {

MonoTime at(int64_t ms) {
  return MonoTime(Millis(1'000'000 + ms));
}

int take_all(RowBudget& budget) {
  int taken = 0;
  for (; budget.has_rows(1); ++taken) budget.take(1);
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

TEST(RowBudget, PaysLaterForRowsThatWereKnownTooLate) {
  RowBudget budget;
  budget.refill(at(0), 100);
  budget.take(150);
  EXPECT_FALSE(budget.has_rows(1));
  EXPECT_DOUBLE_EQ(budget.used(), 1);
  budget.refill(at(500), 100);
  EXPECT_FALSE(budget.has_rows(1));
  budget.refill(at(1000), 100);
  EXPECT_EQ(take_all(budget), 50);
}

TEST(RowBudget, DoublesTheAllowanceOfAFloodingNamespaceAndHalvesItAfterwards) {
  const Tenant quiet{.workspace = "one", .ns = "quiet"};
  const Tenant flood{.workspace = "one", .ns = "flood"};
  const auto doublings = [](uint32_t times, const Tenant& tenant) {
    return std::map<Tenant, uint32_t>{{tenant, times}};
  };
  RowBudget budget;
  budget.note_wait(at(0), quiet, RowBudget::kMaxWait);
  EXPECT_TRUE(budget.doublings().empty());
  budget.note_wait(at(0), flood, RowBudget::kMaxWait + Nanos(1));
  EXPECT_EQ(budget.doublings(), doublings(1, flood));
  budget.note_wait(at(100), flood, Millis(5000));  // too soon after the first doubling
  EXPECT_EQ(budget.doublings(), doublings(1, flood));
  budget.note_wait(at(600), flood, Millis(5000));
  EXPECT_EQ(budget.doublings(), doublings(2, flood));
  EXPECT_FALSE(budget.halve_idle(at(5000)));
  EXPECT_TRUE(budget.halve_idle(at(10'600)));
  EXPECT_EQ(budget.doublings(), doublings(1, flood));
  EXPECT_FALSE(budget.halve_idle(at(10'700)));
  EXPECT_TRUE(budget.halve_idle(at(20'700)));
  EXPECT_TRUE(budget.doublings().empty());
}

TEST(RowBudget, DoesNotDoubleForTheSameNamespaceOfAnotherWorkspace) {
  RowBudget budget;
  const Tenant flood{.workspace = "one", .ns = "api"};
  budget.note_wait(at(0), flood, Millis(5000));
  EXPECT_EQ(budget.doublings(), (std::map<Tenant, uint32_t>{{flood, 1}}));
}

TEST(RowBudget, DoublesUpToALimitAndKeepsNoNamespaceThatFitsAgain) {
  RowBudget budget;
  const Tenant flood{.workspace = "one", .ns = "flood"};
  int64_t now = 0;
  for (; now < 20'000; now += 500) budget.note_wait(at(now), flood, Millis(5000));
  EXPECT_EQ(budget.doublings(), (std::map<Tenant, uint32_t>{{flood, kMaxDoublings}}));
  uint32_t halved = 0;
  for (; now < 200'000; now += 500) halved += budget.halve_idle(at(now)) ? 1 : 0;
  EXPECT_EQ(halved, kMaxDoublings);
  EXPECT_TRUE(budget.doublings().empty());
  // It is like a new one: nothing that was kept of it delays the next doubling.
  for (; now < 220'000; now += 500) {
    (void)budget.halve_idle(at(now));
    RowBudget again = budget;
    again.note_wait(at(now), flood, Millis(5000));
    EXPECT_EQ(again.doublings(), (std::map<Tenant, uint32_t>{{flood, 1}})) << now;
  }
}

}  // namespace
}  // namespace weir::global
