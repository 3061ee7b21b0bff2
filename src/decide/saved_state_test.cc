// A limiter that restores a saved state decides as the saving one would have.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/doubles/manual_clock.h"
#include "weir/limiter.h"

namespace weir {
namespace {

using doubles::ManualClock;

constexpr Algorithm kSavedAlgorithms[] = {Algorithm::kGcra, Algorithm::kTokenBucket,
                                          Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog};

Options saved_options(uint64_t seed, size_t capacity = 1000) {
  return {.capacity = capacity, .seed = seed};
}

Request saved_request(Algorithm algorithm, std::string_view identifier, Count limit = 100,
                      Count cost = 1) {
  return {.ns = "api",
          .identifier = identifier,
          .limit = limit,
          .duration = Millis(10'000),
          .cost = cost,
          .algorithm = algorithm};
}

std::vector<std::string> records_of(Limiter& limiter, Instant now, Saving saving = Saving::kAll) {
  std::vector<std::string> records;
  const SaveReport report =
      limiter.save(now, saving, [&](std::string_view record) { records.emplace_back(record); });
  EXPECT_EQ(report.saved, records.size());
  return records;
}

bool same(const Verdict& a, const Verdict& b) {
  return a.outcome == b.outcome && a.remaining == b.remaining && a.reset == b.reset &&
         a.retry_after == b.retry_after;
}

RC_GTEST_PROP(SavedState, RestoresALimiterThatDecidesAsTheFirstWouldHave, ()) {
  ManualClock clock;
  Limiter first = Limiter::create(clock, saved_options(1)).value();
  const auto draw = [&] {
    const Algorithm algorithm = *rc::gen::elementOf(
        std::vector<Algorithm>(std::begin(kSavedAlgorithms), std::end(kSavedAlgorithms)));
    static const std::string kNames[] = {"a", "b", std::string(80, 'c')};
    Request request = saved_request(algorithm, kNames[*rc::gen::inRange(0, 3)],
                                    *rc::gen::inRange(1, 40), *rc::gen::inRange(0, 12));
    // Else a tuple could take over usage from another one when it expires, which the first limiter
    // need not notice.
    if (algorithm == Algorithm::kSlidingWindowStrict) request.ns = "rings";
    if (algorithm == Algorithm::kSlidingLog) request.ns = "logs";
    request.across_durations = algorithm == Algorithm::kGcra && *rc::gen::arbitrary<bool>();
    return request;
  };
  const auto steps = *rc::gen::inRange(1, 60);
  for (int i = 0; i < steps; ++i) {
    clock.advance(Millis(*rc::gen::inRange(0, 900)));
    (void)first.check(draw());
  }
  Limiter second = Limiter::create(clock, saved_options(2)).value();
  for (const std::string& record : records_of(first, clock.now())) {
    RC_ASSERT(second.restore(clock.now(), record));
  }
  for (int i = 0; i < 40; ++i) {
    clock.advance(Millis(*rc::gen::inRange(0, 900)));
    const Request request = draw();
    RC_ASSERT(same(*first.check(request), *second.check(request)));
  }
}

TEST(SavedState, IsWrittenAgainOnlyIfItChanged) {
  ManualClock clock;
  Limiter limiter = Limiter::create(clock, saved_options(1)).value();
  for (const Algorithm algorithm : kSavedAlgorithms) {
    ASSERT_TRUE(limiter.check(saved_request(algorithm, to_string(algorithm)))->admitted());
  }
  EXPECT_EQ(records_of(limiter, clock.now(), Saving::kChanged).size(), 4u);
  EXPECT_EQ(records_of(limiter, clock.now(), Saving::kChanged).size(), 0u);
  for (const Algorithm algorithm : kSavedAlgorithms) {
    ASSERT_TRUE(limiter.check(saved_request(algorithm, to_string(algorithm)))->admitted());
    EXPECT_EQ(records_of(limiter, clock.now(), Saving::kChanged).size(), 1u)
        << to_string(algorithm);
  }
  EXPECT_EQ(records_of(limiter, clock.now(), Saving::kAll).size(), 4u);
  clock.advance(Millis(60'000));
  EXPECT_EQ(records_of(limiter, clock.now(), Saving::kAll).size(), 0u);  // everything has expired
}

TEST(SavedState, OmitsWindowsThatTheLedgerHas) {
  ManualClock clock;
  Limiter limiter = Limiter::create(clock, saved_options(1)).value();
  ASSERT_TRUE(limiter.check(saved_request(Algorithm::kSlidingWindow, "a"))->admitted());
  ASSERT_TRUE(limiter.check(saved_request(Algorithm::kFixedWindow, "b"))->admitted());
  EXPECT_TRUE(records_of(limiter, clock.now()).empty());
}

// The stricter of the two states holds.
TEST(SavedState, MergesWithAnExistingTupleByTheStricterState) {
  for (const Algorithm algorithm : kSavedAlgorithms) {
    for (const auto& [saved, there] : {std::pair{70, 20}, std::pair{20, 70}}) {
      for (const Count limit : {100, 90}) {  // the limit may have changed since
        ManualClock clock;
        Limiter first = Limiter::create(clock, saved_options(1)).value();
        ASSERT_TRUE(first.check(saved_request(algorithm, "a", 100, saved))->admitted());
        Limiter second = Limiter::create(clock, saved_options(2)).value();
        ASSERT_TRUE(second.check(saved_request(algorithm, "a", limit, there))->admitted());
        for (const std::string& record : records_of(first, clock.now())) {
          EXPECT_TRUE(second.restore(clock.now(), record));
        }
        EXPECT_EQ(second.check(saved_request(algorithm, "a", limit, 0))->remaining, limit - 70)
            << to_string(algorithm) << " " << saved << " " << there << " " << limit;
      }
    }
  }
}

TEST(SavedState, IsCountedInTheSketchIfTheTableIsFull) {
  ManualClock clock;
  Limiter first = Limiter::create(clock, saved_options(1, 1000)).value();
  for (int i = 0; i < 800; ++i) {
    const Algorithm algorithm = kSavedAlgorithms[i % 4];
    ASSERT_TRUE(first.check(saved_request(algorithm, std::to_string(i), 100, 60))->admitted());
  }
  Limiter second = Limiter::create(clock, saved_options(2, 64)).value();
  for (const std::string& record : records_of(first, clock.now())) {
    EXPECT_TRUE(second.restore(clock.now(), record));
  }
  for (int i = 0; i < 800; ++i) {
    const Algorithm algorithm = kSavedAlgorithms[i % 4];
    EXPECT_FALSE(second.check(saved_request(algorithm, std::to_string(i), 100, 41))->admitted());
  }
}

TEST(SavedState, DrainsWhileNoProcessRuns) {
  for (const Algorithm algorithm : kSavedAlgorithms) {
    ManualClock clock;
    Limiter first = Limiter::create(clock, saved_options(1)).value();
    ASSERT_TRUE(first.check(saved_request(algorithm, "a", 100, 100))->admitted());
    const auto records = records_of(first, clock.now());
    clock.advance(Millis(30'000));
    Limiter second = Limiter::create(clock, saved_options(2)).value();
    for (const std::string& record : records) EXPECT_TRUE(second.restore(clock.now(), record));
    EXPECT_EQ(second.check(saved_request(algorithm, "a", 100, 0))->remaining, 100u);
  }
}

// Records come from our own disk, but disks fail.
RC_GTEST_PROP(SavedState, OfRandomBytesIsRefusedOrHarmless, ()) {
  ManualClock clock;
  Limiter first = Limiter::create(clock, saved_options(1)).value();
  for (const Algorithm algorithm : kSavedAlgorithms) {
    (void)first.check(saved_request(algorithm, to_string(algorithm), 100, 30));
  }
  Limiter second = Limiter::create(clock, saved_options(2)).value();
  for (std::string record : records_of(first, clock.now())) {
    for (int i = 0; i < 3; ++i) {
      const size_t at = *rc::gen::inRange<size_t>(0, record.size());
      record[at] = *rc::gen::arbitrary<char>();
    }
    record.resize(*rc::gen::inRange<size_t>(0, record.size() + 1));
    (void)second.restore(clock.now(), record);
  }
  for (const Algorithm algorithm : kSavedAlgorithms) {
    (void)second.check(saved_request(algorithm, to_string(algorithm), 100, 30));
  }
  (void)records_of(second, clock.now());
}

// A thread that saves does not disturb threads that charge, and in the end misses nothing.
TEST(SavedState, IsSavedWhileThreadsCharge) {
  ManualClock clock;
  Limiter limiter = Limiter::create(clock, saved_options(1)).value();
  std::map<std::string, std::string> last;
  const auto note = [&](std::string_view record) {
    last[std::string(record.substr(0, 28))] = record;  // length, header and two names
  };
  std::atomic<int> running{2};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        for (const Algorithm algorithm : kSavedAlgorithms) {
          (void)limiter.check(saved_request(algorithm, "a", 9000));
        }
      }
      --running;
    });
  }
  while (running > 0) (void)limiter.save(clock.now(), Saving::kChanged, note);
  for (std::thread& thread : threads) thread.join();
  (void)limiter.save(clock.now(), Saving::kChanged, note);
  Limiter second = Limiter::create(clock, saved_options(2)).value();
  for (const auto& [name, record] : last) EXPECT_TRUE(second.restore(clock.now(), record));
  for (const Algorithm algorithm : kSavedAlgorithms) {
    const Request peek = saved_request(algorithm, "a", 9000, 0);
    EXPECT_EQ(second.check(peek)->remaining, limiter.check(peek)->remaining)
        << to_string(algorithm);
  }
}

}  // namespace
}  // namespace weir
