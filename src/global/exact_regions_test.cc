// Regions whose origins keep the state of a tuple: what each admits reaches the others.

#include <gtest/gtest.h>

#include <memory>
#include <utility>

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

INSTANTIATE_TEST_SUITE_P(Each, ExactRegions,
                         testing::Values(Algorithm::kGcra, Algorithm::kTokenBucket,
                                         Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace weir::global
