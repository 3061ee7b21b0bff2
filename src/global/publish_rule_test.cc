#include "global/publish_rule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>

namespace weir::limiter {
namespace {

constexpr SyncRules kRules{};

Holding alone(Count counted) {
  return {.counted = counted, .limit = 100, .remaining = 100 - counted, .hidden = 25};
}

Holding contended(Count counted, Count published, Count remaining) {
  return {.counted = counted,
          .published = published,
          .limit = 100,
          .remaining = remaining,
          .hidden = 25,
          .regions = 2,
          .leased = true};
}

TEST(PublishRule, SaysThatItIsHereOnceEnoughIsCounted) {
  EXPECT_EQ(rule_of(alone(24), kRules), Publish::kNothing);
  EXPECT_EQ(rule_of(alone(25), kRules), Publish::kPresence);
  EXPECT_EQ(publish_at(alone(3), kRules), 25U);
}

TEST(PublishRule, ALoneRegionThatIsKnownTellsNothingMore) {
  Holding holding = alone(99);
  holding.published = 25;
  holding.leased = true;
  EXPECT_EQ(rule_of(holding, kRules), Publish::kNothing);
  EXPECT_EQ(publish_at(holding, kRules), kNeverPublish);
}

TEST(PublishRule, TheEndOfALeaseIsTheEndOfBeingKnown) {
  Holding holding = alone(30);
  holding.published = 30;
  EXPECT_EQ(rule_of(holding, kRules), Publish::kPresence);
}

TEST(PublishRule, WhereOthersCountItTellsBeforeTheyCouldUseWhatRemains) {
  // (60 + 10) / 2 regions.
  EXPECT_EQ(rule_of(contended(34, 0, 60), kRules), Publish::kNothing);
  EXPECT_EQ(rule_of(contended(35, 0, 60), kRules), Publish::kContended);
  EXPECT_EQ(rule_of(contended(4, 0, 0), kRules), Publish::kNothing);
  EXPECT_EQ(rule_of(contended(5, 0, 0), kRules), Publish::kContended);
}

TEST(PublishRule, ASmallLimitWithoutSlackIsAckedUnitByUnit) {
  const Holding holding{
      .counted = 1, .published = 0, .limit = 1, .remaining = 0, .regions = 2, .leased = true};
  EXPECT_EQ(rule_of(holding, kRules), Publish::kContended);
}

TEST(PublishRule, TheFirstRefusalIsAcked) {
  Holding holding = alone(100);
  holding.published = 25;
  holding.leased = true;
  EXPECT_EQ(rule_of(holding, kRules), Publish::kNothing);
  holding.refused = true;
  EXPECT_EQ(rule_of(holding, kRules), Publish::kExhaustion);
}

TEST(PublishRule, LaterRefusalsAreAckedIfThereIsMuchMore) {
  Holding holding = alone(100);
  holding.leased = holding.refused = holding.refused_before = true;
  holding.published = 51;
  EXPECT_EQ(rule_of(holding, kRules), Publish::kNothing);
  holding.published = 50;
  EXPECT_EQ(rule_of(holding, kRules), Publish::kExhaustion);
}

TEST(PublishRule, ALoneRegionTellsOfARefusalOnceTheWindowIsHalfFull) {
  // One in a row of full windows: what refuses is the last one.
  Holding holding = alone(49);
  holding.leased = holding.refused = true;
  EXPECT_EQ(rule_of(holding, kRules), Publish::kNothing);
  holding.counted = 50;
  EXPECT_EQ(rule_of(holding, kRules), Publish::kExhaustion);
  // Where others count, they should know at once.
  holding.counted = 1;
  holding.regions = 2;
  EXPECT_EQ(rule_of(holding, kRules), Publish::kExhaustion);
}

// "A cold oversized request propagates nothing."
TEST(PublishRule, ARefusalThatConsumedNothingTellsNothing) {
  Holding holding = alone(0);
  holding.refused = true;
  EXPECT_EQ(rule_of(holding, kRules), Publish::kNothing);
}

TEST(PublishRule, AWindowThatIsOverIsAckedIfOthersCountInIt) {
  Holding holding = contended(5, 0, 0);
  holding.over = true;
  EXPECT_EQ(rule_of(holding, kRules), Publish::kRollOver);
  holding.counted = 4;
  EXPECT_EQ(rule_of(holding, kRules), Publish::kNothing);
  EXPECT_EQ(publish_at(holding, kRules), 5U);
  holding.regions = 1;
  holding.counted = 99;
  EXPECT_EQ(rule_of(holding, kRules), Publish::kNothing);
}

TEST(PublishRule, TheFloorTellsFromHalfTheLimitOnWhateverGrew) {
  const SyncRules rules{.policy = PublishPolicy::kFloor};
  EXPECT_EQ(rule_of(alone(49), rules), Publish::kNothing);
  EXPECT_EQ(publish_at(alone(49), rules), 50U);
  EXPECT_NE(rule_of(alone(50), rules), Publish::kNothing);
  Holding holding = alone(50);
  holding.published = 50;
  EXPECT_EQ(rule_of(holding, rules), Publish::kNothing);
}

TEST(PublishRule, WhatMayBeHiddenIsDividedAmongTheOthers) {
  EXPECT_EQ(hidden_of(100, kRules, 1), 25U);
  EXPECT_EQ(hidden_of(100, kRules, 2), 25U);
  EXPECT_EQ(hidden_of(100, kRules, 6), 5U);
  EXPECT_EQ(hidden_of(100, kRules, 30), 1U);
  EXPECT_EQ(hidden_of(1, kRules, 2), 1U);
  EXPECT_EQ(hidden_of(100, kRules, 6, 2), 20U);
  EXPECT_EQ(hidden_of(100, kRules, 6, 9), 100U);  // no more than all of it
}

RC_GTEST_PROP(PublishRule, IsReachedExactlyWherePublishAtSays, ()) {
  const auto up_to = [](Count most) { return *rc::gen::inRange<Count>(0, most + 1); };
  Holding holding;
  holding.limit = 1 + up_to(300);
  holding.counted = up_to(300);
  holding.published = up_to(300);
  holding.remaining = up_to(holding.limit);
  holding.regions = static_cast<uint32_t>(1 + up_to(9));
  holding.hidden = hidden_of(holding.limit, kRules, static_cast<uint32_t>(2 + up_to(9)));
  holding.leased = up_to(1) == 1;
  holding.over = up_to(1) == 1;
  SyncRules rules;
  rules.policy = up_to(3) == 0 ? PublishPolicy::kFloor : PublishPolicy::kBounded;
  RC_PRE(rule_of(holding, rules) == Publish::kNothing);

  const Count at = publish_at(holding, rules);
  RC_ASSERT(at > holding.counted);
  for (Count more = 1; more < 700; ++more) {
    Holding later = holding;
    later.counted += more;
    if (!later.over) later.remaining = base::saturating_sub(holding.remaining, more);
    const bool fires = rule_of(later, rules) != Publish::kNothing;
    RC_ASSERT(fires == (later.counted >= at));
    if (fires) break;
  }
}

}  // namespace
}  // namespace weir::limiter
