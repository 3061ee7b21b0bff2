#include "global/publish_rule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>

namespace weir::global {
namespace {

constexpr SyncRules kRules{};

CellUsage lone_region(Count counted) {
  return {.counted = counted, .limit = 100, .remaining = 100 - counted, .allowance = 25};
}

CellUsage contended(Count counted, Count published, Count remaining) {
  return {.counted = counted,
          .published = published,
          .limit = 100,
          .remaining = remaining,
          .allowance = 25,
          .regions = 2,
          .leased = true};
}

// What a region leaves unpublished is less than its allowance. It was rounded up to 1 before it was
// doubled: a limit of 2 in 6 regions then had more than the bound says.
TEST(PublishRule, ADoubledAllowanceIsWithinTheReportedShareOfAnyLimit) {
  const SyncRules rules;
  for (Count limit = 1; limit <= 60; ++limit) {
    for (uint32_t regions = 2; regions <= 30; ++regions) {
      for (uint32_t doublings = 0; doublings <= kMaxDoublings; ++doublings) {
        const Count left = unpublished_allowance(limit, rules, regions, doublings) - 1;
        const uint64_t permille = uint64_t{rules.unpublished_permille} << doublings;
        EXPECT_LE(left * 1000 * (regions - 1), limit * permille)
            << limit << ' ' << regions << ' ' << doublings;
      }
    }
  }
  const Count usual = unpublished_allowance(1'000'000, rules, 2);
  EXPECT_EQ(unpublished_allowance(1'000'000, rules, 2, 1), 2 * usual);
}

TEST(PublishRule, PublishesAPresenceOnceTheAllowanceIsUsed) {
  EXPECT_EQ(publish_reason(lone_region(24), kRules), PublishReason::kNone);
  EXPECT_EQ(publish_reason(lone_region(25), kRules), PublishReason::kPresence);
  EXPECT_EQ(publish_threshold(lone_region(3), kRules), 25U);
}

TEST(PublishRule, ALoneRegionWithALeasePublishesNothingMore) {
  CellUsage usage = lone_region(99);
  usage.published = 25;
  usage.leased = true;
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kNone);
  EXPECT_EQ(publish_threshold(usage, kRules), kNeverPublish);
}

TEST(PublishRule, PublishesThePresenceAgainAfterTheLease) {
  CellUsage usage = lone_region(30);
  usage.published = 30;
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kPresence);
}

TEST(PublishRule, PublishesBeforeOtherRegionsCouldUseTheRemainder) {
  // (60 + 10) / 2 regions.
  EXPECT_EQ(publish_reason(contended(34, 0, 60), kRules), PublishReason::kNone);
  EXPECT_EQ(publish_reason(contended(35, 0, 60), kRules), PublishReason::kContended);
  EXPECT_EQ(publish_reason(contended(4, 0, 0), kRules), PublishReason::kNone);
  EXPECT_EQ(publish_reason(contended(5, 0, 0), kRules), PublishReason::kContended);
}

TEST(PublishRule, PublishesASmallLimitWithoutSlackUnitByUnit) {
  const CellUsage usage{
      .counted = 1, .published = 0, .limit = 1, .remaining = 0, .regions = 2, .leased = true};
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kContended);
}

TEST(PublishRule, PublishesTheFirstRefusal) {
  CellUsage usage = lone_region(100);
  usage.published = 25;
  usage.leased = true;
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kNone);
  usage.refused = true;
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kExhaustion);
}

TEST(PublishRule, PublishesLaterRefusalsIfTheCountGrewMuch) {
  CellUsage usage = lone_region(100);
  usage.leased = usage.refused = usage.refusal_published = true;
  usage.published = 51;
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kNone);
  usage.published = 50;
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kExhaustion);
}

TEST(PublishRule, ALoneRegionPublishesARefusalOnceHalfTheLimitIsUsed) {
  // One of several exhausted windows: the carried count of the last one denies.
  CellUsage usage = lone_region(49);
  usage.leased = usage.refused = true;
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kNone);
  usage.counted = 50;
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kExhaustion);
  // If other regions count here, they should know at once.
  usage.counted = 1;
  usage.regions = 2;
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kExhaustion);
}

// "A cold oversized request propagates nothing."
TEST(PublishRule, ARefusalWithoutACountPublishesNothing) {
  CellUsage usage = lone_region(0);
  usage.refused = true;
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kNone);
  usage.regions = 2;  // for which the first refusal is worth a row
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kNone);
  usage.counted = 1;
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kExhaustion);
}

TEST(PublishRule, PublishesAnEndedWindowIfOtherRegionsCountInIt) {
  CellUsage usage = contended(5, 0, 0);
  usage.over = true;
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kRollOver);
  usage.counted = 4;
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kNone);
  EXPECT_EQ(publish_threshold(usage, kRules), 5U);
  usage.regions = 1;
  usage.counted = 99;
  EXPECT_EQ(publish_reason(usage, kRules), PublishReason::kNone);
}

TEST(PublishRule, TheFloorPolicyPublishesEveryGrowthFromHalfTheLimitOn) {
  const SyncRules rules{.policy = PublishPolicy::kFloor};
  EXPECT_EQ(publish_reason(lone_region(49), rules), PublishReason::kNone);
  EXPECT_EQ(publish_threshold(lone_region(49), rules), 50U);
  EXPECT_NE(publish_reason(lone_region(50), rules), PublishReason::kNone);
  CellUsage usage = lone_region(50);
  usage.published = 50;
  EXPECT_EQ(publish_reason(usage, rules), PublishReason::kNone);
}

TEST(PublishRule, DividesTheAllowanceAmongTheOtherRegions) {
  EXPECT_EQ(unpublished_allowance(100, kRules, 1), 25U);
  EXPECT_EQ(unpublished_allowance(100, kRules, 2), 25U);
  EXPECT_EQ(unpublished_allowance(100, kRules, 6), 5U);
  EXPECT_EQ(unpublished_allowance(100, kRules, 30), 1U);
  EXPECT_EQ(unpublished_allowance(1, kRules, 2), 1U);
  EXPECT_EQ(unpublished_allowance(100, kRules, 6, 2), 20U);
  EXPECT_EQ(unpublished_allowance(100, kRules, 6, 9), 100U);  // at most the limit
}

RC_GTEST_PROP(PublishRule, FiresExactlyAtThePublishThreshold, ()) {
  const auto up_to = [](Count most) { return *rc::gen::inRange<Count>(0, most + 1); };
  CellUsage usage;
  usage.limit = 1 + up_to(300);
  usage.counted = up_to(300);
  usage.published = up_to(300);
  usage.remaining = up_to(usage.limit);
  usage.regions = static_cast<uint32_t>(1 + up_to(9));
  usage.allowance = unpublished_allowance(usage.limit, kRules, static_cast<uint32_t>(2 + up_to(9)));
  usage.leased = up_to(1) == 1;
  usage.over = up_to(1) == 1;
  SyncRules rules;
  rules.policy = up_to(3) == 0 ? PublishPolicy::kFloor : PublishPolicy::kBounded;
  RC_PRE(publish_reason(usage, rules) == PublishReason::kNone);

  const Count at = publish_threshold(usage, rules);
  RC_ASSERT(at > usage.counted);
  for (Count more = 1; more < 700; ++more) {
    CellUsage later = usage;
    later.counted += more;
    if (!later.over) later.remaining = base::saturating_sub(usage.remaining, more);
    const bool fires = publish_reason(later, rules) != PublishReason::kNone;
    RC_ASSERT(fires == (later.counted >= at));
    if (fires) break;
  }
}

}  // namespace
}  // namespace weir::global
