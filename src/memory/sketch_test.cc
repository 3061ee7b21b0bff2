#include "memory/sketch.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "memory/table_fixture_test.h"

namespace weir::memory {
namespace {

CellDecision ask(Sketch& sketch, uint64_t hash, const Request& request, WallTime now = kNoon) {
  return sketch.decide({.hash = hash}, query_of(now, request), Effect::kConsume);
}

uint64_t hash_of(uint64_t number) {
  return base::KeyedHash(3)(&number, 1, 0);
}

Request lasting(Millis duration, Count limit, Algorithm algorithm = Algorithm::kSlidingWindow) {
  Request request = request_for("alice", limit, algorithm);
  request.duration = duration;
  return request;
}

RC_GTEST_PROP(Sketch, NeverAdmitsMoreThanTheLimitOfATuple, ()) {
  Sketch sketch(1024);
  const auto limit = *rc::gen::inRange<Count>(1, 20);
  const auto algorithm = static_cast<Algorithm>(*rc::gen::inRange(0, kAlgorithmCount));
  std::map<uint64_t, Count> admitted;
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

TEST(Sketch, DeniesNoNewTupleUnderAFloodOfTenTimesItsCapacity) {
  constexpr size_t kCapacity = 4096;
  Sketch sketch(kCapacity);
  const base::KeyedHash hash(3);
  for (uint64_t i = 0; i < 10 * kCapacity; ++i) {
    (void)ask(sketch, hash(&i, 1, 0), request_for("flood", 100));
  }
  int denied = 0;
  for (uint64_t i = 1'000'000; i < 1'001'000; ++i) {
    if (!ask(sketch, hash(&i, 1, 0), request_for("newcomer", 100)).decision.admitted()) ++denied;
  }
  EXPECT_EQ(denied, 0);
}

TEST(Sketch, HoldsATupleUntilItsWindowsAreOver) {
  Sketch sketch(1024);
  const Request request = request_for("alice");
  const auto holds = [&](WallTime now) {
    return sketch.holds({.hash = 42}, query_of(now, request));
  };
  EXPECT_FALSE(holds(kNoon));
  ASSERT_TRUE(ask(sketch, 42, request).decision.admitted());
  EXPECT_TRUE(holds(kNoon));
  EXPECT_TRUE(holds(kNoon + Millis(119'999)));
  EXPECT_FALSE(holds(kNoon + Millis(120'000)));
}

// 400 in ten years is 5 in the largest window, of 2^32 ms.
TEST(Sketch, CountsDurationsBeyondItsLargestWindowAtALowerRate) {
  Sketch sketch(1024);
  const Request often = lasting(kMaxAnyDuration, 400, Algorithm::kGcra);
  int admitted = 0;
  WallTime now = kNoon;
  for (int day = 0; day < 3653; ++day, now += Millis(86'400'000)) {
    for (int i = 0; i < 3; ++i) {
      admitted += ask(sketch, 42, often, now).decision.admitted() ? 1 : 0;
    }
  }
  EXPECT_GT(admitted, 100);
  EXPECT_LE(admitted, 400);
  // Less than one per window admits nothing, but a retry is possible.
  const CellDecision seldom = ask(sketch, 43, lasting(kMaxAnyDuration, 1, Algorithm::kGcra));
  EXPECT_EQ(seldom.decision.outcome, Outcome::kDenied);
  EXPECT_EQ(seldom.decision.retry_at, kNoon + kMaxAnyDuration);
}

TEST(Sketch, RefundsTheChargeOfABatch) {
  Sketch sketch(1024);
  Request request = request_for("alice");
  request.cost = 6;
  const CellDecision result = ask(sketch, 42, request);
  ASSERT_TRUE(result.decision.admitted());
  EXPECT_FALSE(ask(sketch, 42, request).decision.admitted());
  sketch.refund({.hash = 42}, query_of(kNoon, request), result.sequence);
  EXPECT_FALSE(sketch.holds({.hash = 42}, query_of(kNoon, request)));
}

TEST(Sketch, SeparatesDurationsWithTheirOwnPageAndIsStricterForTheRest) {
  Sketch sketch(1024);
  int64_t limit_reached = 0;
  for (int64_t seconds = 1; seconds <= 20; ++seconds) {
    Request request = request_for("alice", 1);
    request.duration = Millis(seconds * 1000);
    // Seven durations have their own page; the others share the pages of 8, 16 and 32 seconds,
    // where the first of them uses up the limit for all.
    if (!ask(sketch, 42, request).decision.admitted()) ++limit_reached;
  }
  EXPECT_EQ(limit_reached, 20 - 7 - 3);
}

TEST(Sketch, AdmitsAtTheRetryTimeAndNotOneTickBefore) {
  Sketch sketch(1024);
  for (const Algorithm algorithm :
       {Algorithm::kSlidingWindow, Algorithm::kFixedWindow, Algorithm::kGcra,
        Algorithm::kSlidingLog, Algorithm::kSlidingWindowStrict}) {
    const auto hash = static_cast<uint64_t>(algorithm) << 40;
    const Request request = request_for("alice", 3, algorithm);
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE(ask(sketch, hash, request, kNoon + Millis(7)).decision.admitted());
    const CellDecision denied = ask(sketch, hash, request, kNoon + Millis(7));
    ASSERT_TRUE(denied.decision.retry_at.has_value());
    const auto peek = [&](WallTime now) {
      return sketch.decide({.hash = hash}, query_of(now, request), Effect::kPeek)
          .decision.admitted();
    };
    EXPECT_FALSE(peek(*denied.decision.retry_at - Millis(1))) << to_string(algorithm);
    EXPECT_TRUE(peek(*denied.decision.retry_at)) << to_string(algorithm);
  }
}

TEST(Sketch, KeepsTheCountOfATupleWhoseDurationGetsItsOwnPage) {
  Sketch sketch(1024);
  for (int64_t i = 0; i < 7; ++i) {
    ASSERT_TRUE(ask(sketch, hash_of(i), lasting(Millis(2000 + i), 10)).decision.admitted());
  }
  const Request hourly = lasting(Millis(3'600'000), 10);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(ask(sketch, 42, hourly).decision.admitted());
  // The pages of the short durations are free now.
  const WallTime later = kNoon + Millis(5000);
  EXPECT_FALSE(ask(sketch, 42, hourly, later).decision.admitted());
  EXPECT_TRUE(ask(sketch, hash_of(99), hourly, later).decision.admitted());
  EXPECT_FALSE(ask(sketch, 42, hourly, later).decision.admitted());
}

TEST(Sketch, HoldsNoTupleForLongerThanTwoWindowsOfItsClass) {
  Sketch sketch(1024);
  for (uint64_t i = 0; i < 20'000; ++i) {
    const Millis duration((1000 + 100 * static_cast<int64_t>(i % 9)) * 3600);
    (void)ask(sketch, hash_of(i), lasting(duration, 10));
  }
  const WallTime later = kNoon + Millis(2 * 8 * 3'600'000);
  for (uint64_t i = 0; i < 1000; ++i) {
    const Millis duration((1000 + 100 * static_cast<int64_t>(i % 9)) * 3600);
    const Query query = query_of(later, lasting(duration, 10));
    ASSERT_FALSE(sketch.holds({.hash = hash_of(1'000'000 + i)}, query));
  }
}

TEST(Sketch, DeniesNoTupleOfAnotherGroupUnderAnyFlood) {
  constexpr size_t kCapacity = 4096;
  Sketch sketch(kCapacity);
  const Query query = query_of(kNoon, request_for("u", 5));
  for (uint64_t i = 0; i < 50 * kCapacity; ++i) {
    (void)sketch.decide({.hash = hash_of(i), .group = hash_of(1)}, query, Effect::kConsume);
  }
  for (uint64_t group = 2; group < 200; ++group) {
    const Sketch::Subject newcomer{.hash = hash_of(1'000'000'000 + group), .group = hash_of(group)};
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(sketch.decide(newcomer, query, Effect::kConsume).decision.admitted()) << group;
    }
    ASSERT_FALSE(sketch.decide(newcomer, query, Effect::kConsume).decision.admitted()) << group;
  }
}

TEST(Sketch, DoesNotCountAnOldWindowInANewOne) {
  Sketch sketch(1024);
  const Request request = request_for("alice", 3, Algorithm::kFixedWindow);
  for (int64_t window = 0; window < 2000; ++window) {
    const WallTime now = kNoon + window * Millis(60'000);
    const uint64_t user = window % 256 == 0 ? 42 : hash_of(static_cast<uint64_t>(window));
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(ask(sketch, user, request, now).decision.admitted());
    ASSERT_FALSE(ask(sketch, user, request, now).decision.admitted());
  }
}

TEST(Sketch, IsResetWhenTheClockWasSetBackFar) {
  Sketch sketch(1024);
  const Request request = request_for("alice", 3);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ask(sketch, 42, request, kNoon + Millis(3'600'000)).decision.admitted());
  }
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(ask(sketch, 42, request).decision.admitted());
  EXPECT_FALSE(ask(sketch, 42, request).decision.admitted());
}

// A tuple that was counted while the clock was hours ahead may move into the table again.
TEST(Sketch, HoldsNoTupleByCountsOfAClockThatWasSetBack) {
  Sketch sketch(1024);
  const Request request = request_for("alice");
  ASSERT_TRUE(ask(sketch, hash_of(1), request, kNoon + Millis(3'600'000)).decision.admitted());
  EXPECT_FALSE(sketch.holds({.hash = hash_of(1)}, query_of(kNoon, request)));
  // A thread with a slightly older time is not such a clock.
  ASSERT_TRUE(ask(sketch, hash_of(2), request, kNoon).decision.admitted());
  EXPECT_TRUE(sketch.holds({.hash = hash_of(2)}, query_of(kNoon - Millis(10'000), request)));
}

// CL.THROTTLE may change the period of a key from one call to the next.
TEST(Sketch, UsesTheCountsOfAllPagesForATupleWhoseDurationChanges) {
  Sketch sketch(1024);
  const Sketch::Subject subject{.hash = 42, .across_durations = true};
  const auto passes = [&](Millis duration) {
    const Query query = query_of(kNoon, lasting(duration, 3, Algorithm::kGcra));
    return sketch.decide(subject, query, Effect::kConsume).decision.admitted();
  };
  EXPECT_TRUE(passes(Millis(10'000)));
  EXPECT_TRUE(passes(Millis(20'000)));
  EXPECT_TRUE(passes(Millis(40'000)));
  EXPECT_FALSE(passes(Millis(80'000)));
  EXPECT_TRUE(sketch.holds(subject, query_of(kNoon, lasting(Millis(160'000), 3))));
}

}  // namespace
}  // namespace weir::memory
