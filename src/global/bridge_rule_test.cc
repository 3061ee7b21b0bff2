#include "global/bridge_rule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/windows.h"
#include "global/shared_tuples.h"
#include "memory/publish_watch.h"

namespace weir::global {
namespace {

constexpr Millis kWidth{60'000};
constexpr int64_t kCurrent = 28'000'000;
constexpr Count kRuleLimit = 100;

memory::TupleKey rule_key() {
  static const base::KeyedHash hash(7);
  return {{.workspace = "w", .ns = "api", .identifier = "x", .limit = 1, .duration = kWidth}, hash};
}

WallTime in_window(int64_t sequence, Millis offset) {
  return WallTime(sequence * kWidth) + offset;
}

RegionCount region_count(const std::string& region, int64_t sequence, Count count,
                         WallTime leased_until = {}) {
  return {.region = region,
          .sequence = sequence,
          .count = count,
          .limit_seen = kRuleLimit,
          .leased_until = leased_until};
}

Regions three_regions() {
  return {.rules = {}, .count = 3, .complete = true};
}

class BridgeRuleTest : public testing::Test {
 protected:
  [[nodiscard]] OriginTuple tuple(Millis offset = Millis(30'000)) const {
    return {rule_key().encoded(), counts_, "here", in_window(kCurrent, offset), regions_};
  }
  void set_counts(Count current, Count last = 0) {
    counts_.windows = {{.sequence = kCurrent + 1},
                       {.sequence = kCurrent, .total = current, .limit_seen = kRuleLimit},
                       {.sequence = kCurrent - 1, .total = last, .limit_seen = kRuleLimit}};
  }

  Regions regions_ = three_regions();
  TupleCounts counts_;
};

TEST_F(BridgeRuleTest, ReadsTheWindowsThatMayStillChange) {
  EXPECT_EQ(windows_at(in_window(kCurrent, Millis(0)), kWidth),
            (std::vector<int64_t>{kCurrent + 1, kCurrent, kCurrent - 1}));
  EXPECT_EQ(windows_at(in_window(kCurrent, kWidth - Millis(1)), kWidth),
            (std::vector<int64_t>{kCurrent + 1, kCurrent, kCurrent - 1}));
}

TEST_F(BridgeRuleTest, AsksForThePresenceOfARegionThatUsedUpItsAllowance) {
  set_counts(11);  // a quarter of the limit, divided among the two others, is 12
  EXPECT_FALSE(tuple().has_reason());
  set_counts(12);
  EXPECT_EQ(tuple().reason(kCurrent), PublishReason::kPresence);
  counts_.regions = {region_count("here", kCurrent, 12, in_window(kCurrent + 1, Millis(0)))};
  EXPECT_FALSE(tuple().has_reason());
  // The lease must reach the end of the window.
  counts_.regions[0].leased_until -= Millis(1);
  EXPECT_EQ(tuple().reason(kCurrent), PublishReason::kPresence);
}

TEST_F(BridgeRuleTest, AsksForACountThatAnotherRegionDoesNotKnow) {
  set_counts(60);
  counts_.regions = {region_count("here", kCurrent, 12, in_window(kCurrent + 1, Millis(0)))};
  EXPECT_FALSE(tuple().has_reason());
  counts_.regions.push_back(region_count("there", kCurrent, 20));
  EXPECT_EQ(tuple().reason(kCurrent), PublishReason::kContended);
  // A lease on the window is as good as a count.
  counts_.regions[1] = region_count("there", kCurrent - 5, 0, in_window(kCurrent + 1, Millis(0)));
  EXPECT_EQ(tuple().reason(kCurrent), PublishReason::kContended);
  counts_.regions[1].leased_until -= Millis(1);
  EXPECT_FALSE(tuple().has_reason());
}

TEST_F(BridgeRuleTest, AssumesAnotherRegionAsLongAsRowsMayBeMissing) {
  set_counts(60);
  counts_.regions = {region_count("here", kCurrent, 12, in_window(kCurrent + 1, Millis(0)))};
  EXPECT_FALSE(tuple().has_reason());
  regions_.complete = false;
  EXPECT_EQ(tuple().reason(kCurrent), PublishReason::kContended);
}

TEST_F(BridgeRuleTest, AsksForTheRestOfAWindowAfterItsEnd) {
  set_counts(0, 8);
  counts_.regions = {region_count("there", kCurrent - 1, 20)};
  EXPECT_EQ(tuple().reason(kCurrent - 1), PublishReason::kRollOver);
  EXPECT_TRUE(tuple().has_reason());
  counts_.regions.push_back(region_count("here", kCurrent - 1, 4));
  EXPECT_FALSE(tuple().has_reason());
}

TEST_F(BridgeRuleTest, UsesTheSmallestLimitOfAllRegionsInBothWindows) {
  set_counts(60);
  counts_.windows[1].limit_seen = 1000;
  counts_.windows[2].limit_seen = 0;
  EXPECT_FALSE(tuple().has_reason());
  for (const int64_t sequence : {kCurrent, kCurrent - 1}) {
    counts_.regions = {region_count("there", sequence, 0)};
    EXPECT_EQ(tuple().reason(kCurrent), PublishReason::kPresence);
  }
  counts_.regions = {region_count("there", kCurrent - 2, 0)};
  EXPECT_FALSE(tuple().has_reason());
  // The limit of a row is the one that this region saw.
  EXPECT_EQ(tuple().limit_seen(), 1000U);
}

TEST_F(BridgeRuleTest, AsksForNothingWhereThisRegionSawNoLimit) {
  counts_.windows = {{.sequence = kCurrent}};
  counts_.regions = {{.region = "there", .sequence = kCurrent, .count = 500, .limit_seen = 0}};
  EXPECT_FALSE(tuple().has_reason());
  EXPECT_FALSE(tuple().is_contended());
}

TEST_F(BridgeRuleTest, WidensTheAllowanceOfANamespaceWithTooManyRows) {
  set_counts(12);
  EXPECT_TRUE(tuple().has_reason());
  regions_.doublings[{.workspace = "w", .ns = "other"}] = 3;
  EXPECT_TRUE(tuple().has_reason());
  regions_.doublings[{.workspace = "w", .ns = "api"}] = 1;
  EXPECT_FALSE(tuple().has_reason());
  set_counts(25);
  EXPECT_TRUE(tuple().has_reason());
}

TEST_F(BridgeRuleTest, IsContendedIfAnotherRegionCountsAndSomeIsUnpublished) {
  set_counts(5);
  EXPECT_FALSE(tuple().is_contended());
  counts_.regions = {region_count("there", kCurrent, 1)};
  EXPECT_TRUE(tuple().is_contended());
  counts_.regions.push_back(region_count("here", kCurrent, 5));
  EXPECT_FALSE(tuple().is_contended());
}

// The origin may have lost counts that the ledger has.
TEST_F(BridgeRuleTest, CountsAtLeastWhatWasPublished) {
  set_counts(5);
  counts_.regions = {region_count("here", kCurrent, 40)};
  EXPECT_EQ(tuple().counted(kCurrent), 40U);
  EXPECT_EQ(tuple().published(kCurrent), 40U);
  EXPECT_EQ(tuple().counted(kCurrent - 1), 0U);
}

// One tuple as a process knows it, by the same counts.
CellUsage usage_on_a_process(const SharedTuple& entry, const TupleCounts& counts, int64_t sequence,
                             WallTime now, Algorithm algorithm, const Regions& regions) {
  const auto own = [&](int64_t of) {
    for (const auto& window : counts.windows) {
      if (window.sequence == of) return window.total;
    }
    return Count{0};
  };
  const auto all = [&](int64_t of) {
    const SharedWindow* const window = entry.find(of);
    return own(of) + (window == nullptr ? 0 : window->foreign_sum());
  };
  Count limit = kRuleLimit;
  for (const int64_t of : {kCurrent, kCurrent - 1}) {
    if (entry.find(of) == nullptr) continue;
    limit = memory::smaller_limit(limit, entry.find(of)->remote_limit);
  }
  const bool over = sequence < kCurrent;
  Count used = all(kCurrent);
  if (algorithm == Algorithm::kSlidingWindow) {
    used += algorithms::carried_over(algorithms::position_of(now, kWidth), all(kCurrent - 1));
  }
  const SharedWindow* const window = entry.find(sequence);
  const uint32_t present = entry.regions(sequence);
  const uint32_t doublings = regions.doublings_of({.workspace = "w", .ns = "api"});
  return {.counted = own(sequence),
          .published = window == nullptr ? 0 : window->published,
          .limit = limit,
          .remaining = over ? 0 : base::saturating_sub(limit, used),
          .allowance = unpublished_allowance(limit, regions.rules, regions.count, doublings),
          .regions = regions.complete ? present : std::max(present, 2U),
          .leased = over || entry.is_leased(sequence),
          .over = over,
          .doublings = doublings};
}

RC_GTEST_PROP(BridgeRule, HasAReasonWheneverAProcessThatKnowsTheSameHasOne, ()) {
  const Regions regions{
      .rules = {.policy = *rc::gen::element(PublishPolicy::kBounded, PublishPolicy::kFloor)},
      .count = *rc::gen::inRange(1U, 12U),
      .complete = *rc::gen::arbitrary<bool>(),
      .doublings = {{{.workspace = "w", .ns = "api"}, *rc::gen::inRange(0U, 4U)}}};
  const WallTime now = in_window(kCurrent, Millis(*rc::gen::inRange(0, 60'000)));
  TupleCounts counts;
  for (const int64_t sequence : {kCurrent, kCurrent - 1}) {
    counts.windows.push_back({.sequence = sequence,
                              .total = *rc::gen::inRange<Count>(0, 150),
                              .limit_seen = kRuleLimit});
  }
  SharedTuples shared("here", nullptr);
  const base::MutexLock lock(shared.mutex());
  SharedTuple* const entry = shared.obtain(rule_key());
  for (const char* region : {"here", "there", "third"}) {
    const WallTime leased_until =
        in_window(kCurrent + *rc::gen::inRange(-1, 3), Millis(*rc::gen::element(0, 1)));
    for (const int64_t sequence : {kCurrent, kCurrent - 1}) {
      if (*rc::gen::arbitrary<bool>()) continue;
      // A region publishes no more than it counted.
      const size_t index = sequence == kCurrent ? 0 : 1;
      const Count most = region == std::string("here") ? counts.windows[index].total : 150;
      RegionCount count =
          region_count(region, sequence, *rc::gen::inRange<Count>(0, most + 1), leased_until);
      if (region != std::string("here")) count.limit_seen = *rc::gen::inRange<Count>(50, 200);
      counts.regions.push_back(count);
      (void)shared.merge(*entry, kCurrent, count);
    }
  }
  const OriginTuple tuple(rule_key().encoded(), counts, "here", now, regions);
  for (const int64_t sequence : {kCurrent, kCurrent - 1}) {
    const auto on_process = [&](Algorithm algorithm) {
      return publish_reason(usage_on_a_process(*entry, counts, sequence, now, algorithm, regions),
                            regions.rules);
    };
    RC_ASSERT(tuple.reason(sequence) == on_process(Algorithm::kSlidingWindow));
    if (on_process(Algorithm::kFixedWindow) != PublishReason::kNone) {
      RC_ASSERT(tuple.reason(sequence) != PublishReason::kNone);
      RC_ASSERT(tuple.has_reason());
    }
  }
}

}  // namespace
}  // namespace weir::global
