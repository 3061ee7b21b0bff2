// The sync between regions when wall clocks are set.

#include <gtest/gtest.h>

#include <algorithm>

#include "global/region_sync_fixture_test.h"

namespace weir::global {
namespace {

// Tags of words repeat after 2^19 windows. The counts of a tuple that was idle for that long are
// not taken for counts of the present window.
TEST_F(RegionSyncTest, DoesNotPublishACountOf524288WindowsAgo) {
  duration_ = Millis(100);
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(1000));
  ask_times(east, 60);
  pass(Millis(200));
  const auto newest = [&] {
    int64_t sequence = 0;
    for (const LedgerRow& each : store_->contents()) {
      sequence = std::max(sequence, each.sequence);
    }
    return sequence;
  };
  const int64_t before = newest();
  ASSERT_GT(before, 0);
  clock_.step_wall(duration_ * (int64_t{1} << 19) - Millis(200));
  pass(Millis(3000));
  EXPECT_LE(newest(), before);
  EXPECT_EQ(foreign(west), 0U);
}

// It has a lease for six hours, from a row of a window in six hours. As long as it relies on that
// lease and publishes no other row, the others must know of it.
TEST_F(RegionSyncTest, KeepsTheBoundAfterTheClockOfARegionWasHoursAhead) {
  duration_ = Millis(3'600'000);
  TestRegion& west = add("west");
  TestRegion& south = add("south");
  ManualClock clock;
  auto east =
      Limiter::create(
          clock,
          {.ledger = store_->another_client(), .region = "east", .capacity = 1024, .seed = 3})
          .value();
  const auto pass_in_all = [&](Millis time) {
    for (Millis passed{0}; passed < time; passed += Millis(10)) {
      clock.advance(Millis(10));
      east.run_replay(clock.now(), executor_);
      east.run_sync(clock.now());
      pass(Millis(10));
    }
  };
  const auto ask_east = [&](int times) {
    int64_t admitted = 0;
    for (int i = 0; i < times; ++i) {
      admitted += east.check(clock.now(), request())->admitted() ? 1 : 0;
    }
    return admitted;
  };
  pass_in_all(Millis(25'000));
  const Millis ahead = 6 * duration_;
  clock.step_wall(ahead);
  ask_east(60);
  pass_in_all(Millis(3000));
  clock.step_wall(-ahead);
  ASSERT_EQ(store_->contents().size(), 1U);
  ASSERT_GT(store_->contents()[0].leased_until, clock.now().wall + ahead);
  pass_in_all(Millis(25'000));
  ASSERT_NEAR(west.limiter->sync_stats().bound, 1.35, 0.001);
  // Each less than the rule lets it keep back if another region has a quarter of the limit.
  int64_t admitted = ask_east(31);
  admitted += ask_times(south, 11);
  pass_in_all(Millis(1000));
  ASSERT_EQ(admitted, 42);
  for (int i = 0; i < 110; ++i) {
    admitted += ask(west).admitted() ? 1 : 0;
    pass_in_all(Millis(300));
  }
  EXPECT_LE(admitted, 135);
}

// Other regions use the wall clock: if all clocks are set ahead together, the lease ends for them.
TEST_F(RegionSyncTest, EndsItsLeaseWhenTheWallClockWasSetAhead) {
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(1000));
  ask_times(east, 60);
  pass(Millis(1000));
  ASSERT_GT(foreign(west), 0U);
  const uint64_t presences = east.limiter->sync_stats().presence;
  clock_.step_wall(Millis(3'600'000));
  pass(Millis(3000));
  ask_times(east, 60);
  pass(Millis(1000));
  EXPECT_GT(east.limiter->sync_stats().presence, presences);
  EXPECT_GT(foreign(west), 0U);
}

// While the clock was wrong, imported rows seemed expired or too early.
TEST_F(RegionSyncTest, DoesAFullReadAfterTheWallClockWasSet) {
  TestRegion& east = add("east");
  pass(Millis(10'000));
  for (const Millis step : {Millis(3'600'000), Millis(-3'600'000)}) {
    const uint64_t reads = east.limiter->sync_stats().full_reads;
    pass(Millis(6000));
    ASSERT_EQ(east.limiter->sync_stats().full_reads, reads);
    clock_.step_wall(step);
    pass(Millis(6000));
    EXPECT_GT(east.limiter->sync_stats().full_reads, reads);
  }
}

// While the clock is behind, tuples of the present are ahead of it.
TEST_F(RegionSyncTest, PublishesARefusalFromJustBeforeTheClockWasSetBack) {
  TestRegion& east = add("east");
  add("west");
  pass(Millis(6000));
  ask_times(east, 101);
  clock_.step_wall(Millis(-3'600'000));
  pass(Millis(1000));
  ASSERT_EQ(rows(east), 0U);
  clock_.step_wall(Millis(3'600'000));
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 100U);
}

// A tuple of a future time does not replace the cells of the present.
TEST_F(RegionSyncTest, ImportsCountsForATupleThatWasUsedWhileTheClockWasAhead) {
  duration_ = Millis(2000);
  TestRegion& east = add("east");
  pass(Millis(1000));
  clock_.step_wall(Millis(3'600'000));
  ask_times(east, 60);
  pass(Millis(1000));
  clock_.step_wall(Millis(-3'600'000));
  pass(Millis(8000));
  write_for_north(30, {identifier_});
  pass(Millis(500));
  EXPECT_EQ(foreign(east), 30U);
  EXPECT_EQ(ask(east).evidence.foreign, 30U);
}

}  // namespace
}  // namespace weir::global
