// The pages of a sketch stay within the byte budget, and no count is lost for lack of a page.

#include <gtest/gtest.h>

#include "memory/sketch.h"
#include "memory/table_fixture_test.h"

namespace weir::memory {
namespace {

Query sketch_query(Millis duration, WallTime at = kNoon) {
  Request request = request_for("any", 5);
  request.duration = duration;
  return query_of(at, request);
}

Sketch::Subject sketch_subject(uint64_t number) {
  return {.hash = number * 0x9e3779b97f4a7c15ULL, .group = number * 0xc2b2ae3d27d4eb4fULL};
}

// Far more durations than pages, of many classes, in no order.
constexpr int64_t kDurations[] = {1000, 700,        60'000, 61'000,        100, 3'600'000,
                                  5000, 86'400'000, 250,    2'592'000'000, 900, 30'000};

int admitted_of(Sketch& sketch, uint64_t tuple, const Query& query, int tries) {
  int admitted = 0;
  for (int i = 0; i < tries; ++i) {
    admitted += sketch.decide(sketch_subject(tuple), query, Effect::kConsume).decision.admitted();
  }
  return admitted;
}

TEST(SketchMemory, CountsEveryDurationWithinTheBudgetAndLosesNone) {
  ByteBudget budget(Sketch::bytes_for(1024, 3));
  Sketch sketch(1024, &budget, 2);
  uint64_t tuple = 1;
  for (const int64_t ms : kDurations) {
    const Query query = sketch_query(Millis(ms));
    EXPECT_FALSE(sketch.holds(sketch_subject(tuple), query)) << ms;
    EXPECT_EQ(admitted_of(sketch, tuple, query, 10), 5) << ms;
    EXPECT_TRUE(sketch.holds(sketch_subject(tuple), query)) << ms;
    EXPECT_LE(budget.used(), budget.limit());
    ++tuple;
  }
  EXPECT_EQ(budget.used(), budget.limit());
  // All limits are still used up.
  tuple = 1;
  for (const int64_t ms : kDurations) {
    EXPECT_EQ(admitted_of(sketch, tuple, sketch_query(Millis(ms)), 3), 0) << ms;
    ++tuple;
  }
}

TEST(SketchMemory, ReusesAnExpiredPageForAnotherDuration) {
  ByteBudget budget(Sketch::bytes_for(1024, 2));
  Sketch sketch(1024, &budget, 2);
  EXPECT_EQ(admitted_of(sketch, 1, sketch_query(Millis(1000)), 10), 5);
  for (int i = 1; i <= 20; ++i) {
    const Millis duration(1000 * (i + 1));
    const WallTime now = kNoon + i * Millis(100'000);
    EXPECT_EQ(admitted_of(sketch, 1, sketch_query(duration, now), 10), 5) << i;
    // On its own page: it expires after two of its windows.
    EXPECT_LE(sketch.live_until(), now + 2 * duration) << i;
  }
  EXPECT_EQ(budget.used(), budget.limit());
}

}  // namespace
}  // namespace weir::memory
