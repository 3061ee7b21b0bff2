// Regions whose origins, or whose only processes, keep the state of a tuple: what each admits
// reaches the others.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "global/region_sync_fixture_test.h"
#include "origins/in_process_origin.h"

namespace weir::global {
namespace {

class ExactRegions : public RegionSyncTest, public testing::WithParamInterface<Algorithm> {
 protected:
  void SetUp() override {
    algorithm_ = GetParam();
    duration_ = Millis(600'000);
    east_ = &add("east", east_origin_.another_endpoint());
    east_two_ = &add("east", east_origin_.another_endpoint());
    west_ = &add("west", west_origin_.another_endpoint());
    pass(Millis(8000));
  }
  // What the origin of the region has left. A backlog of 100 in ten minutes drains one in 6 s.
  Count left(TestRegion& region) { return ask(region, 0).remaining; }

  const origins::InProcessOrigin east_origin_{clock_};
  const origins::InProcessOrigin west_origin_{clock_};
  TestRegion* east_ = nullptr;
  TestRegion* east_two_ = nullptr;
  TestRegion* west_ = nullptr;
};

TEST_P(ExactRegions, LearnWhatTheOthersHaveAdmitted) {
  EXPECT_EQ(ask_times(*east_, 40), 40);
  EXPECT_EQ(ask_times(*east_two_, 30), 30);
  EXPECT_TRUE(ask(*west_).admitted()) << "it knows nothing yet";
  pass(Millis(2000));
  EXPECT_GE(left(*west_), 29U);
  EXPECT_LE(left(*west_), 32U);
  EXPECT_EQ(ask_times(*west_, 20), 20);
  pass(Millis(3000));
  // Not published yet: less than the publish rule lets a region keep.
  EXPECT_LE(left(*east_), 20U);
  EXPECT_LE(left(*east_two_), 20U);
  EXPECT_GE(left(*east_), 8U);
}

// 300 requests of one identifier with idempotency keys wrote 300 rows that no region uses.
TEST_P(ExactRegions, PublishNothingOfIdempotencyKeys) {
  const uint64_t before = rows(*east_) + rows(*east_two_);
  for (int i = 0; i < 300; ++i) {
    const std::string key = "key-" + std::to_string(i);
    const Request used{.workspace = kServerWorkspace,
                       .ns = kIdempotencyNamespace,
                       .identifier = key,
                       .limit = 1,
                       .duration = Millis(60'000),
                       .algorithm = algorithm_,
                       .consistency = Consistency::kExact};
    east_->limiter->check_async(clock_.now(), used, executor_, [&](const Result<Verdict>& verdict) {
      EXPECT_TRUE(verdict->admitted());
    });
    executor_.run();
  }
  pass(Millis(5000));
  EXPECT_EQ(rows(*east_) + rows(*east_two_), before);
  // They count in the region.
  EXPECT_EQ(ask_times(*east_, 100), 100);
  pass(Millis(5000));
  EXPECT_GT(rows(*east_) + rows(*east_two_), before);
}

TEST_P(ExactRegions, CountNothingTwice) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(ask_times(*east_, 2), 2);
    EXPECT_EQ(ask_times(*east_two_, 2), 2);
    EXPECT_EQ(ask_times(*west_, 2), 2);
    pass(Millis(1000));
  }
  pass(Millis(5000));
  // 60 of 100; a few drained.
  for (TestRegion* region : {east_, east_two_, west_}) {
    EXPECT_GE(left(*region), 40U);
    EXPECT_LE(left(*region), 65U);
  }
}

TEST_P(ExactRegions, TogetherAdmitLittleMoreThanTheLimit) {
  int64_t admitted = 0;
  for (int i = 0; i < 100; ++i) {
    for (TestRegion* region : {east_, east_two_, west_}) admitted += ask_times(*region, 1);
    pass(Millis(100));
  }
  EXPECT_GE(admitted, 100);
  EXPECT_LE(admitted, 120);
}

// Nobody asked here before: the first request reads what the others have admitted.
TEST_P(ExactRegions, AFirstRequestReadsTheCountsOfTheOthers) {
  EXPECT_EQ(ask_times(*east_, 80), 80);
  pass(Millis(20'000));
  (void)ask(*west_);
  pass(Millis(1000));
  EXPECT_LE(left(*west_), 23U);
}

// A limit of 5 charges 5 at a time; what is left must not be forgotten.
TEST_P(ExactRegions, ARequestWithASmallLimitForgetsNothing) {
  (void)ask(*west_);
  pass(Millis(1000));
  EXPECT_EQ(ask_times(*east_, 80), 80);
  limit_ = 5;
  for (int i = 0; i < 30; ++i) {
    (void)ask(*west_);
    pass(Millis(100));
  }
  limit_ = 100;
  EXPECT_LE(ask_times(*west_, 100), 24);
}

TEST_P(ExactRegions, AFirstBatchReadsTheCountsOfTheOthers) {
  EXPECT_EQ(ask_times(*east_, 80), 80);
  pass(Millis(20'000));
  Request other = request();
  other.identifier = "bob";
  const std::vector<Request> requests{request(50), other};
  std::optional<Outcome> outcome;
  west_->limiter->check_all_async(
      clock_.now(), requests, executor_,
      [&](const Result<BatchVerdict>& verdict) { outcome = verdict->outcome; });
  executor_.run();
  EXPECT_EQ(outcome, Outcome::kDenied);
}

// Each region publishes what it has taken over: together it must be what was used.
TEST_P(ExactRegions, TakeTheirOwnPartOverToAWindow) {
  EXPECT_EQ(ask_times(*east_, 20), 20);
  EXPECT_EQ(ask_times(*east_two_, 20), 20);
  EXPECT_EQ(ask_times(*west_, 20), 20);
  pass(Millis(5000));
  algorithm_ = Algorithm::kFixedWindow;
  for (TestRegion* region : {east_, east_two_, west_}) EXPECT_TRUE(ask(*region).admitted());
  pass(Millis(5000));
  for (TestRegion* region : {east_, east_two_, west_}) EXPECT_GE(left(*region), 35U);
  EXPECT_LE(left(*west_), 47U);
  // Less of the west than the publish rule lets a region keep.
  EXPECT_LE(left(*east_), 60U);
  EXPECT_LE(left(*east_two_), 60U);
}

// Also what another process has admitted, and no region has published.
TEST_P(ExactRegions, TakeThePartOfAllTheirProcessesOverToAWindow) {
  EXPECT_EQ(ask_times(*east_, 10), 10);
  EXPECT_EQ(ask_times(*east_two_, 10), 10);
  pass(Millis(2000));
  algorithm_ = Algorithm::kFixedWindow;
  EXPECT_TRUE(ask(*east_).admitted());
  EXPECT_LE(left(*east_), 80U);
  EXPECT_GE(left(*east_), 79U);
}

// What a region takes over into a state of its origin is not published.
TEST_P(ExactRegions, TakeAllThatIsKnownOverFromAWindow) {
  const Algorithm to = std::exchange(algorithm_, Algorithm::kFixedWindow);
  EXPECT_EQ(ask_times(*east_, 20), 20);
  EXPECT_EQ(ask_times(*east_two_, 20), 20);
  EXPECT_EQ(ask_times(*west_, 20), 20);
  pass(Millis(5000));
  algorithm_ = to;
  for (TestRegion* region : {east_, east_two_, west_}) EXPECT_TRUE(ask(*region).admitted());
  pass(Millis(5000));
  for (TestRegion* region : {east_, east_two_, west_}) EXPECT_GE(left(*region), 35U);
  EXPECT_LE(left(*west_), 47U);
  // Less of the west than the publish rule lets a region keep.
  EXPECT_LE(left(*east_), 62U);
  EXPECT_LE(left(*east_two_), 62U);
}

// Each process is a region of its own.
class RegionsWithoutOrigin : public RegionSyncTest, public testing::WithParamInterface<Algorithm> {
 protected:
  void SetUp() override {
    algorithm_ = GetParam();
    duration_ = Millis(600'000);
    for (const char* name : {"east", "west", "north"}) add(name);
    pass(Millis(8000));
  }
  TestRegion& east() { return *regions_[0]; }
  TestRegion& west() { return *regions_[1]; }
  TestRegion& north() { return *regions_[2]; }
  Count left(TestRegion& region) { return ask(region, 0).remaining; }
};

TEST_P(RegionsWithoutOrigin, LearnWhatTheOthersHaveAdmitted) {
  EXPECT_EQ(ask_times(east(), 70), 70);
  EXPECT_TRUE(ask(west()).admitted()) << "it knows nothing yet";
  pass(Millis(2000));
  EXPECT_GE(left(west()), 29U);
  EXPECT_LE(left(west()), 32U);
  EXPECT_EQ(ask_times(west(), 20), 20);
  pass(Millis(3000));
  EXPECT_LE(left(east()), 20U);
  EXPECT_GE(left(east()), 8U);
}

TEST_P(RegionsWithoutOrigin, CountNothingTwice) {
  for (int i = 0; i < 10; ++i) {
    for (const auto& region : regions_) EXPECT_EQ(ask_times(*region, 2), 2);
    pass(Millis(1000));
  }
  pass(Millis(5000));
  // 60 of 100; a few drained.
  for (const auto& region : regions_) {
    EXPECT_GE(left(*region), 40U);
    EXPECT_LE(left(*region), 65U);
  }
}

TEST_P(RegionsWithoutOrigin, TogetherAdmitLittleMoreThanTheLimit) {
  int64_t admitted = 0;
  for (int i = 0; i < 100; ++i) {
    for (const auto& region : regions_) admitted += ask_times(*region, 1);
    pass(Millis(100));
  }
  EXPECT_GE(admitted, 100);
  EXPECT_LE(admitted, 130);
}

// Nobody asked here before, and a peek changes nothing.
TEST_P(RegionsWithoutOrigin, AFirstRequestCountsWhatTheOthersHaveAdmitted) {
  EXPECT_EQ(ask_times(east(), 80), 80);
  pass(Millis(20'000));
  const uint64_t tuples = west().limiter->stats().tuples;
  EXPECT_LE(left(west()), 23U);
  EXPECT_EQ(west().limiter->stats().tuples, tuples);
  EXPECT_LE(ask_times(west(), 100), 23);
}

TEST_P(RegionsWithoutOrigin, BatchesCountToo) {
  const auto ask_batch = [&](TestRegion& region, Count cost) {
    return region.limiter->check_all(clock_.now(), std::vector<Request>{request(cost)}).value();
  };
  EXPECT_EQ(ask_batch(east(), 80).outcome, Outcome::kAdmitted);
  pass(Millis(2000));
  EXPECT_EQ(ask_batch(west(), 50).outcome, Outcome::kDenied);
  EXPECT_EQ(ask_batch(west(), 10).outcome, Outcome::kAdmitted);
  pass(Millis(2000));
  EXPECT_EQ(ask_batch(north(), 20).outcome, Outcome::kDenied);
}

TEST_P(RegionsWithoutOrigin, GroupsOfRequestsCountToo) {
  const std::vector<Request> requests(32, request());
  const auto ask_group = [&](TestRegion& region) {
    std::vector<Result<Verdict>> verdicts(requests.size());
    region.limiter->check_each(clock_.now(), requests, verdicts);
    return std::count_if(verdicts.begin(), verdicts.end(),
                         [](const Result<Verdict>& verdict) { return verdict->admitted(); });
  };
  EXPECT_EQ(ask_group(east()) + ask_group(east()), 64);
  pass(Millis(2000));
  EXPECT_EQ(ask_group(west()), 32);
  EXPECT_LE(ask_group(west()), 8);
  EXPECT_EQ(west().limiter->check(clock_.now(), request(8)).value().outcome, Outcome::kDenied);
}

// Each region publishes what it has taken over: together it must be what was used.
TEST_P(RegionsWithoutOrigin, TakeTheirOwnPartOverToAWindow) {
  EXPECT_EQ(ask_times(east(), 50), 50);
  EXPECT_EQ(ask_times(west(), 5), 5);
  pass(Millis(5000));
  EXPECT_LE(left(west()), 46U) << "it knows of the east";
  algorithm_ = Algorithm::kFixedWindow;
  for (const auto& region : regions_) EXPECT_TRUE(ask(*region).admitted());
  pass(Millis(5000));
  for (const auto& region : regions_) {
    EXPECT_GE(left(*region), 40U);
    EXPECT_LE(left(*region), 50U);
  }
}

// A state that has drained was charged what the others had admitted. It is not charged again.
TEST_P(RegionsWithoutOrigin, AnExpiredStateIsNotChargedAgain) {
  duration_ = Millis(2000);
  EXPECT_EQ(ask_times(east(), 60), 60);
  pass(Millis(500));
  (void)ask(west());
  // In the windows of the usage tuple the count is still known, for up to 4 s.
  pass(Millis(2200));
  (void)west().limiter->run_sweep(clock_.now(), 4096);
  EXPECT_GE(ask_times(west(), 100), 99);
}

// A limit of 5 charges 5 at a time; what is left must not be forgotten.
TEST_P(RegionsWithoutOrigin, ARequestWithASmallLimitForgetsNothing) {
  (void)ask(west());
  pass(Millis(1000));
  EXPECT_EQ(ask_times(east(), 80), 80);
  pass(Millis(3000));
  limit_ = 5;
  (void)ask(west());
  (void)ask(west(), 0);
  limit_ = 1;
  (void)ask(west(), 2);
  (void)ask(west(), 0);
  limit_ = 100;
  for (int i = 0; i < 20; ++i) (void)ask(west(), 0);
  EXPECT_LE(ask_times(west(), 100), 20);
}

// Without it, every restart would deny what others have admitted once more.
TEST_P(RegionsWithoutOrigin, ARestoredStateIsNotChargedAgain) {
  EXPECT_EQ(ask_times(east(), 40), 40);
  EXPECT_EQ(ask_times(west(), 10), 10);
  pass(Millis(3000));
  EXPECT_TRUE(ask(west()).admitted());
  const Count before = left(west());
  EXPECT_LE(before, 50U);
  std::vector<std::string> records;
  (void)west().limiter->save(clock_.now(), Saving::kAll,
                             [&](std::string_view record) { records.emplace_back(record); });
  west().limiter.reset();
  TestRegion& again = add("west");
  for (const std::string& record : records) {
    EXPECT_TRUE(again.limiter->restore(clock_.now(), record));
  }
  pass(Millis(5000));
  EXPECT_TRUE(ask(again).admitted());
  EXPECT_GE(left(again), before - 3);
}

// The others used it up by the former duration, and this region never asked.
TEST_P(RegionsWithoutOrigin, AChangedDurationCountsWhatTheOthersHaveAdmitted) {
  EXPECT_EQ(ask_times(east(), 99), 99);
  pass(Millis(5000));
  PastDurations past{.changed = clock_.now().wall, .count = 1};
  past.durations[0] = duration_;
  Request changed = request();
  changed.duration = Millis(1'200'000);
  changed.past = &past;
  int64_t admitted = 0;
  for (int i = 0; i < 100; ++i) {
    admitted += west().limiter->check(clock_.now(), changed).value().admitted() ? 1 : 0;
  }
  EXPECT_LE(admitted, 3);
}

TEST_P(RegionsWithoutOrigin, ARelaxedRequestIsOfThisProcessAlone) {
  Request relaxed = request(80);
  relaxed.consistency = Consistency::kRelaxed;
  EXPECT_TRUE(east().limiter->check(clock_.now(), relaxed).value().admitted());
  pass(Millis(3000));
  EXPECT_EQ(left(west()), 100U);
}

TEST_P(RegionsWithoutOrigin, CannotResetWhatOthersCountToo) {
  EXPECT_EQ(ask_times(east(), 40), 40);
  const auto refused = east().limiter->reset(clock_.now(), request());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kShared);
  Request relaxed = request();
  relaxed.consistency = Consistency::kRelaxed;
  EXPECT_TRUE(east().limiter->reset(clock_.now(), relaxed).ok());
}

// Others have admitted more than a whole limit while the ledger was away: the state drains it all.
TEST_P(RegionsWithoutOrigin, ChargeWhatDoesNotFit) {
  for (const auto& region : regions_) region->ledger->cut();
  for (const auto& region : regions_) EXPECT_EQ(ask_times(*region, 100), 100);
  for (const auto& region : regions_) region->ledger->restore();
  pass(Millis(20'000));
  for (const auto& region : regions_) EXPECT_EQ(ask_times(*region, 5), 0);
  // A backlog of 300 units; the other states forget a unit after ten minutes.
  pass(Millis(610'000));
  const bool drains = algorithm_ == Algorithm::kGcra || algorithm_ == Algorithm::kTokenBucket;
  for (const auto& region : regions_) {
    if (drains) {
      EXPECT_EQ(left(*region), 0U) << region->region;
    } else {
      EXPECT_GE(left(*region), 95U) << region->region;
    }
  }
}

using OnlyRegion = RegionSyncTest;
TEST_F(OnlyRegion, CanResetItsCounts) {
  algorithm_ = Algorithm::kGcra;
  duration_ = Millis(600'000);
  TestRegion& alone = add("alone");
  pass(Millis(8000));
  ASSERT_EQ(alone.limiter->sync_stats().regions, 1U);
  EXPECT_EQ(ask_times(alone, 40), 40);
  EXPECT_EQ(alone.limiter->reset(clock_.now(), request()).value(), true);
  EXPECT_EQ(ask_times(alone, 100), 100);
}

const auto kEach = testing::Values(Algorithm::kGcra, Algorithm::kTokenBucket,
                                   Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog);
std::string algorithm_in(const testing::TestParamInfo<Algorithm>& test) {
  return std::string(to_string(test.param));
}
INSTANTIATE_TEST_SUITE_P(Each, ExactRegions, kEach, algorithm_in);
INSTANTIATE_TEST_SUITE_P(Each, RegionsWithoutOrigin, kEach, algorithm_in);

}  // namespace
}  // namespace weir::global
