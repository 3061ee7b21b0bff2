// The backlog decides exactly as a token bucket, at any rate, to the tick.

#include "algorithms/rates_test.h"

namespace weir::algorithms {
namespace {

// The usual token bucket in exact fractions: a token is `duration` parts, a millisecond adds
// `limit` parts, and the capacity is `burst` tokens.
class TokenBucket {
 public:
  TokenBucket(const Rate& rate, WallTime now)
      : rate_(rate), part_(static_cast<uint64_t>(rate.duration.count())), filled_(now) {
    parts_ = capacity();
  }

  Decision decide(WallTime now, Count cost) {
    const auto elapsed = static_cast<uint64_t>((now - filled_).count());
    parts_ = std::min(capacity(), parts_ + base::Wide{rate_.limit} * elapsed);
    filled_ = now;

    Decision decision;
    const base::Wide asked = base::Wide{cost} * part_;
    if (cost > rate_.burst) {
      decision.outcome = Outcome::kNever;
    } else if (parts_ >= asked) {
      decision.outcome = Outcome::kAdmitted;
      parts_ -= asked;
    } else {
      decision.outcome = Outcome::kDenied;
      decision.retry_at = now + until_refilled(asked - parts_);
    }
    decision.remaining = static_cast<Count>(parts_ / part_);
    decision.reset = now + until_refilled(capacity() - parts_);
    return decision;
  }

 private:
  [[nodiscard]] base::Wide capacity() const { return base::Wide{rate_.burst} * part_; }
  [[nodiscard]] Millis until_refilled(base::Wide parts) const {
    return Millis(static_cast<int64_t>((parts + rate_.limit - 1) / rate_.limit));
  }

  Rate rate_;
  base::Wide part_;
  base::Wide parts_ = 0;
  WallTime filled_;
};

void assert_same(const Decision& decided, const Decision& expected) {
  RC_ASSERT(decided.outcome == expected.outcome);
  RC_ASSERT(decided.remaining == expected.remaining);
  RC_ASSERT(decided.reset == expected.reset);
  RC_ASSERT(decided.retry_at == expected.retry_at);
}

// Compares both; after a denial sometimes at the retry time and one tick before.
void compare(const Rate& rate, WallTime now, const std::vector<Arrival>& traffic) {
  constexpr WallTime kFarAhead{Millis(int64_t{1} << 61)};
  TokenBucket bucket(rate, now);
  StoredBacklog backlog(rate, now);
  size_t denials = 0;
  for (const Arrival& arrival : traffic) {
    now += arrival.after;
    const Decision decided = backlog.decide(now, arrival.cost);
    assert_same(decided, bucket.decide(now, arrival.cost));
    if (!decided.retry_at || ++denials % 2 == 0 || *decided.retry_at > kFarAhead) continue;
    for (const WallTime then : {*decided.retry_at - Millis(1), *decided.retry_at}) {
      now = then;
      const Decision again = backlog.decide(now, arrival.cost);
      RC_ASSERT(again.admitted() == (then == *decided.retry_at));
      assert_same(again, bucket.decide(now, arrival.cost));
    }
  }
}

RC_GTEST_PROP(TokenBucket, DecidesAsGcraAtEveryRate, ()) {
  for (int round = 0; round < 3; ++round) {
    const Rate rate = *any_rate();
    compare(rate, *any_time(), *any_traffic(2 * rate.duration, rate.burst));
  }
}

RC_GTEST_PROP(TokenBucket, DecidesAsGcraAtRatesThatDoNotDivide, ()) {
  // Small rates, where every fraction of a tick matters.
  for (int round = 0; round < 3; ++round) {
    const Rate rate{.limit = *between(1, 300),
                    .duration = *millis_between(kMinDuration, Millis(1500)),
                    .burst = *between(1, 20)};
    const Millis interval(1 + rate.duration.count() / static_cast<int64_t>(rate.limit));
    compare(rate, *any_time(), *any_traffic(8 * interval, rate.burst));
  }
}

RC_GTEST_PROP(TokenBucket, AdmitsAtMostTheBurstAndTheRefillBetweenAnyTwoInstants, ()) {
  const Rate rate{.limit = *between(1, 300),
                  .duration = *millis_between(kMinDuration, Millis(1500)),
                  .burst = *between(1, 20)};
  WallTime now = *any_time();
  StoredBacklog backlog(rate, now);
  std::vector<std::pair<WallTime, Count>> admitted;
  for (const Arrival& arrival : *any_traffic(rate.duration, rate.burst)) {
    now += arrival.after;
    if (backlog.decide(now, arrival.cost).admitted()) admitted.emplace_back(now, arrival.cost);
  }
  for (size_t first = 0; first < admitted.size(); ++first) {
    Count sum = 0;
    for (size_t last = first; last < admitted.size(); ++last) {
      sum += admitted[last].second;
      const auto span =
          static_cast<uint64_t>((admitted[last].first - admitted[first].first).count());
      const auto duration = static_cast<uint64_t>(rate.duration.count());
      RC_ASSERT(sum <= rate.burst + base::mul_div(span, rate.limit, duration));
    }
  }
}

TEST(TokenBucket, KeepsAThirdOfATokenExactly) {
  // 3 per second: a token every 333 1/3 ms. No fraction is lost while the bucket is not full.
  StoredBacklog backlog({.limit = 3, .duration = Millis(1000), .burst = 3}, tick(0));
  ASSERT_TRUE(backlog.decide(tick(0), 3).admitted());
  for (const int64_t due : {334, 667, 1000, 1334, 1667, 2000}) {
    EXPECT_FALSE(backlog.decide(tick(due - 1), 1).admitted()) << due;
    EXPECT_TRUE(backlog.decide(tick(due), 1).admitted()) << due;
  }
}

TEST(TokenBucket, SpacesRequestsByTheIntervalWhenTheBurstIsOne) {
  StoredBacklog backlog({.limit = 10, .duration = Millis(1000), .burst = 1}, tick(0));
  ASSERT_TRUE(backlog.decide(tick(0), 1).admitted());
  EXPECT_EQ(backlog.decide(tick(0), 1).retry_at, tick(100));
  EXPECT_FALSE(backlog.decide(tick(99), 1).admitted());
  EXPECT_TRUE(backlog.decide(tick(100), 1).admitted());
  // 50 ms late: the next is due 100 ms from now, because the capacity is one token.
  EXPECT_TRUE(backlog.decide(tick(250), 1).admitted());
  EXPECT_FALSE(backlog.decide(tick(349), 1).admitted());
  EXPECT_TRUE(backlog.decide(tick(350), 1).admitted());
}

TEST(TokenBucket, IsResetAtTheFirstTickOfAFullBucket) {
  const Rate rate{.limit = 3, .duration = Millis(1000), .burst = 3};
  StoredBacklog backlog(rate, tick(0));
  EXPECT_EQ(backlog.peek(tick(0), 0).reset, tick(0));
  EXPECT_EQ(backlog.decide(tick(0), 2).reset, tick(667));
  EXPECT_EQ(tokens_at(tick(666), backlog.backlog, rate.pace(), rate.burst), 2u);
  EXPECT_EQ(tokens_at(tick(667), backlog.backlog, rate.pace(), rate.burst), 3u);
}

TEST(TokenBucket, LetsAPeekPassWithNoTokenLeft) {
  StoredBacklog backlog({.limit = 10, .duration = Millis(1000), .burst = 5}, tick(0));
  ASSERT_TRUE(backlog.decide(tick(0), 5).admitted());
  EXPECT_TRUE(backlog.peek(tick(0), 0).admitted());
  EXPECT_EQ(backlog.peek(tick(0), 0).remaining, 0u);
  EXPECT_FALSE(backlog.peek(tick(0), 1).admitted());
}

TEST(TokenBucket, NeverAdmitsACostBeyondTheBurstAndReturnsNoRetryTime) {
  StoredBacklog backlog({.limit = 10, .duration = Millis(1000), .burst = 5}, tick(0));
  EXPECT_EQ(backlog.peek(tick(0), 6).outcome, Outcome::kNever);
  EXPECT_EQ(backlog.peek(tick(0), 6).retry_at, std::nullopt);
  EXPECT_EQ(backlog.peek(tick(0), 6).remaining, 5u);
  EXPECT_TRUE(backlog.peek(tick(0), 5).admitted());
}

RC_GTEST_PROP(TokenBucket, CountsTheTokensThatWouldPassNow, ()) {
  for (int round = 0; round < 20; ++round) {
    const Rate rate = *any_rate();
    WallTime now = *any_time();
    StoredBacklog backlog(rate, now);
    (void)backlog.decide(now, *between(1, rate.burst));
    now += *millis_between(Millis(0), rate.duration);
    const Decision decision = backlog.decide(now, *any_cost(rate.burst));
    RC_ASSERT(!backlog.peek(now, decision.remaining + 1).admitted());
    RC_ASSERT(backlog.peek(now, decision.remaining).admitted());
    RC_ASSERT(decision.remaining == tokens_at(now, backlog.backlog, rate.pace(), rate.burst));
  }
}

}  // namespace
}  // namespace weir::algorithms
