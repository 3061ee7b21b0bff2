#include "memory/sketch.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "memory/table_fixture_test.h"

namespace weir::memory {
namespace {

Step ask(Sketch& sketch, uint64_t hash, const Request& request, WallTime now = kNoon) {
  return sketch.decide(hash, query_of(now, request), Effect::kConsume);
}

RC_GTEST_PROP(Sketch, NeverAdmitsMoreThanTheLimitWhateverElseIsCounted, ()) {
  Sketch sketch(1024);
  const auto limit = *rc::gen::inRange<int64_t>(1, 20);
  const auto algorithm = static_cast<Algorithm>(*rc::gen::inRange(0, kAlgorithmCount));
  std::map<uint64_t, int64_t> admitted;
  const base::KeyedHash hash(3);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t user = *rc::gen::inRange<uint64_t>(0, 30);
    const uint64_t hashed = hash(&user, 1, 0);
    if (ask(sketch, hashed, request_for("u", limit, algorithm)).decision.admitted()) {
      ++admitted[user];
    }
  }
  for (const auto& [user, count] : admitted) RC_ASSERT(count <= limit);
}

TEST(Sketch, StopsFewOthersUnderAFloodOfTenTimesItsCapacity) {
  constexpr size_t kCapacity = 4096;
  Sketch sketch(kCapacity);
  const base::KeyedHash hash(3);
  for (uint64_t i = 0; i < 10 * kCapacity; ++i) {
    (void)ask(sketch, hash(&i, 1, 0), request_for("flood", 100));
  }
  int stopped = 0;
  for (uint64_t i = 1'000'000; i < 1'001'000; ++i) {
    if (!ask(sketch, hash(&i, 1, 0), request_for("newcomer", 100)).decision.admitted()) ++stopped;
  }
  EXPECT_EQ(stopped, 0);
}

TEST(Sketch, HoldsATupleUntilItsWindowsAreOver) {
  Sketch sketch(1024);
  const Request request = request_for("alice");
  const auto holds = [&](WallTime now) { return sketch.holds(42, query_of(now, request)); };
  EXPECT_FALSE(holds(kNoon));
  ASSERT_TRUE(ask(sketch, 42, request).decision.admitted());
  EXPECT_TRUE(holds(kNoon));
  EXPECT_TRUE(holds(kNoon + Millis(119'999)));
  EXPECT_FALSE(holds(kNoon + Millis(120'000)));
}

TEST(Sketch, TakesBackWhatABatchCharged) {
  Sketch sketch(1024);
  Request request = request_for("alice");
  request.cost = 6;
  const Step step = ask(sketch, 42, request);
  ASSERT_TRUE(step.decision.admitted());
  EXPECT_FALSE(ask(sketch, 42, request).decision.admitted());
  sketch.take_back(42, query_of(kNoon, request), step.sequence);
  EXPECT_FALSE(sketch.holds(42, query_of(kNoon, request)));
}

TEST(Sketch, KeepsWindowsOfDifferentLengthsApartAndTheRestOnTheStrictSide) {
  Sketch sketch(1024);
  int64_t limit_reached = 0;
  for (int64_t seconds = 1; seconds <= 20; ++seconds) {
    Request request = request_for("alice", 1);
    request.duration = Millis(seconds * 1000);
    // Seven durations have a page each; the others share one, where the first of them
    // uses up the limit for all.
    if (!ask(sketch, 42, request).decision.admitted()) ++limit_reached;
  }
  EXPECT_EQ(limit_reached, 20 - 8);
}

TEST(Sketch, AnswersARetryTimeThatIsKept) {
  Sketch sketch(1024);
  for (const Algorithm algorithm :
       {Algorithm::kSlidingWindow, Algorithm::kFixedWindow, Algorithm::kGcra,
        Algorithm::kSlidingLog, Algorithm::kSlidingWindowStrict}) {
    const auto hash = static_cast<uint64_t>(algorithm) << 40;
    const Request request = request_for("alice", 3, algorithm);
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE(ask(sketch, hash, request, kNoon + Millis(7)).decision.admitted());
    const Step refused = ask(sketch, hash, request, kNoon + Millis(7));
    ASSERT_TRUE(refused.decision.retry_at.has_value());
    const auto look = [&](WallTime now) {
      return sketch.decide(hash, query_of(now, request), Effect::kOnlyLook).decision.admitted();
    };
    EXPECT_FALSE(look(*refused.decision.retry_at - Millis(1))) << to_string(algorithm);
    EXPECT_TRUE(look(*refused.decision.retry_at)) << to_string(algorithm);
  }
}

}  // namespace
}  // namespace weir::memory
