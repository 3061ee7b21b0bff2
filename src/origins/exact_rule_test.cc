#include "origins/exact_rule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "origins/in_process_origin.h"
#include "tests/contracts/exact_history.h"
#include "tests/doubles/manual_clock.h"
#include "tests/effort.h"

namespace weir::origins {
namespace {

constexpr Algorithm kAlgorithms[] = {Algorithm::kGcra, Algorithm::kTokenBucket,
                                     Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog};

ExactCall call_of(Algorithm algorithm, Count cost, uint64_t number = 1) {
  return {.tuple = "tuple",
          .algorithm = algorithm,
          .limit = 10,
          .duration = Millis(1000),
          .writer = {.incarnation = 1},
          .number = number,
          .asks = {{.cost = cost, .capacity = 10}}};
}

ExactAnswer decide(InProcessOrigin& origin, const ExactCall& call) {
  ExactAnswer received;
  origin.decide({call}, [&](auto answers) { received = answers->at(0); });
  return received;
}

// The state is deleted and begins again at version 0 if all has left and drained; no pause here is
// so long.
TEST(ExactRule, EqualsTheAlgorithmsOnRandomHistories) {
  for (const Algorithm algorithm : kAlgorithms) {
    SCOPED_TRACE(to_string(algorithm));
    doubles::ManualClock clock;
    InProcessOrigin origin(clock);
    std::deque<contracts::ExactClient> clients;
    std::vector<const contracts::ExactClient*> all;
    for (uint64_t i = 0; i < 3; ++i) {
      all.push_back(&clients.emplace_back(*origin.exact_store(), algorithm, i + 1));
    }
    uint64_t random = 1;
    const uint64_t rounds = generated_cases(6000);
    for (uint64_t i = 0; i < rounds; ++i) {
      clients[base::split_mix(random) % 3].run();
      const uint64_t most = base::split_mix(random) % 50 == 0 ? 1500 : 20;
      clock.advance(Millis(static_cast<int64_t>(base::split_mix(random) % most)));
    }
    EXPECT_GT(contracts::check_histories(all), rounds / 10);
  }
}

TEST(ExactRule, ForgetsAStateThatIsEmpty) {
  for (const Algorithm algorithm : kAlgorithms) {
    doubles::ManualClock clock;
    InProcessOrigin origin(clock);
    EXPECT_EQ(decide(origin, call_of(algorithm, 10)).version, 0u);
    clock.advance(Millis(4000));
    EXPECT_EQ(decide(origin, call_of(algorithm, 0, 2)).version, 1u);
    clock.advance(Millis(20'000));
    EXPECT_EQ(decide(origin, call_of(algorithm, 0, 3)).version, 0u);
    // The first call would be repeated too late.
    EXPECT_TRUE(decide(origin, call_of(algorithm, 1)).changed);
  }
}

TEST(ExactRule, ReleasesNothingIfTheClockStepsBackALittle) {
  for (const Algorithm algorithm : kAlgorithms) {
    SCOPED_TRACE(to_string(algorithm));
    doubles::ManualClock clock;
    InProcessOrigin origin(clock);
    const WallTime at = decide(origin, call_of(algorithm, 10)).at;
    clock.step_wall(-Millis(900));
    const ExactAnswer answer = decide(origin, call_of(algorithm, 1, 2));
    EXPECT_EQ(answer.decisions[0].outcome, Outcome::kDenied);
    EXPECT_EQ(answer.at, at);
  }
}

TEST(ExactRule, DeniesForAFullBurstAtMostIfTheClockWasSetBackFar) {
  for (const Algorithm algorithm : kAlgorithms) {
    SCOPED_TRACE(to_string(algorithm));
    doubles::ManualClock clock;
    InProcessOrigin origin(clock);
    (void)decide(origin, call_of(algorithm, 10));
    clock.step_wall(-Millis(3'600'000));
    const bool is_backlog = exact_class(algorithm) == ExactClass::kBacklog;
    const ExactAnswer answer = decide(origin, call_of(algorithm, 1, 2));
    EXPECT_EQ(answer.decisions[0].outcome, is_backlog ? Outcome::kDenied : Outcome::kAdmitted);
    clock.advance(Millis(1000));
    EXPECT_EQ(decide(origin, call_of(algorithm, 9, 3)).decisions[0].outcome, Outcome::kAdmitted);
  }
}

// What processes admitted by themselves, and when the origin was told of it.
struct Late {
  int64_t admitted = 0;  // ms
  int64_t told = 0;
  uint64_t writer = 0;
  Count cost = 0;
};

// Several items are late at any time. In hundredths of a unit, one of which drains in a
// millisecond.
RC_GTEST_PROP(ExactRule, ABacklogThatIsToldLateIsNeverTooSmallAndTooLargeByAtMostTheDelay, ()) {
  constexpr Count kCapacity = 100'000;
  const int64_t longest = *rc::gen::inRange<int64_t>(1, 1000);
  std::vector<Late> items;
  for (int i = 0, count = *rc::gen::inRange(2, 40); i < count; ++i) {
    const int64_t admitted = *rc::gen::inRange<int64_t>(0, 3000);
    items.push_back({.admitted = admitted,
                     .told = admitted + *rc::gen::inRange<int64_t>(0, longest + 1),
                     .writer = *rc::gen::inRange<uint64_t>(1, 4),
                     .cost = *rc::gen::inRange<Count>(1, 12)});
  }
  std::sort(items.begin(), items.end(),
            [](const Late& a, const Late& b) { return a.told < b.told; });
  // What has not drained at `now` of the items that the origin knows, had it known them at once.
  const auto exact = [&](size_t known, int64_t now) {
    std::vector<Late> by_time(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(known));
    std::sort(by_time.begin(), by_time.end(),
              [](const Late& a, const Late& b) { return a.admitted < b.admitted; });
    int64_t waiting = 0;
    int64_t at = 0;
    for (const Late& each : by_time) {
      waiting = std::max<int64_t>(0, waiting - (each.admitted - at)) +
                100 * static_cast<int64_t>(each.cost);
      at = each.admitted;
    }
    return std::max<int64_t>(0, waiting - (now - at));
  };
  doubles::ManualClock clock;
  InProcessOrigin origin(clock);
  std::map<uint64_t, Count> own;
  int64_t now = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    clock.advance(Millis(items[i].told - std::exchange(now, items[i].told)));
    ExactCall call = call_of(Algorithm::kGcra, 0, i + 1);
    call.writer.incarnation = items[i].writer;
    call.own = own[items[i].writer] += items[i].cost;
    call.asks[0].capacity = kCapacity;
    const auto used = static_cast<int64_t>(kCapacity - decide(origin, call).decisions[0].remaining);
    const int64_t least = exact(i + 1, now);
    RC_ASSERT(100 * used >= least);
    RC_ASSERT(100 * (used - 1) < least + longest);
  }
}

// Calls of three writers arrive late, in another order, repeatedly or never; so do their answers.
RC_GTEST_PROP(ExactRule, WhatIsToldIsChargedOnceInAnyOrderOfCalls, ()) {
  struct Writer {
    Count own = 0;
    Count acked = 0;
    uint64_t number = 0;
    std::vector<ExactCall> sent;
  };
  const Algorithm algorithm =
      *rc::gen::elementOf(std::vector<Algorithm>(std::begin(kAlgorithms), std::end(kAlgorithms)));
  doubles::ManualClock clock;
  InProcessOrigin origin(clock);
  std::map<uint64_t, Writer> writers;
  const auto call_by = [&](uint64_t id, Writer& writer) {
    ExactCall call = call_of(algorithm, 0, ++writer.number);
    call.duration = Millis(3'600'000);
    call.limit = 1;
    call.writer.incarnation = id;
    call.own = writer.own;
    call.acked = writer.acked;
    call.asks[0].capacity = 10'000;
    return call;
  };
  Count told = 0;
  std::map<uint64_t, uint64_t> newest;  // that the origin has
  std::map<uint64_t, Count> charged;
  for (int i = 0, steps = *rc::gen::inRange(1, 60); i < steps; ++i) {
    const uint64_t id = *rc::gen::inRange<uint64_t>(1, 4);
    Writer& writer = writers[id];
    if (writer.sent.empty() || *rc::gen::inRange(0, 3) == 0) {
      writer.own += *rc::gen::inRange<Count>(0, 9);
      writer.sent.push_back(call_by(id, writer));
      continue;
    }
    const ExactCall& call = *rc::gen::elementOf(writer.sent);
    const ExactAnswer answer = decide(origin, call);
    charged[id] = std::max(charged[id], call.number > newest[id] ? call.own : 0);
    newest[id] = std::max(newest[id], call.number);
    if (!answer.decisions.empty() && *rc::gen::arbitrary<bool>()) {
      writer.acked = std::max(writer.acked, call.own);
    }
  }
  for (const auto& [id, all] : charged) told += all;
  const ExactCall peek = call_by(9, writers[9]);
  RC_ASSERT(decide(origin, peek).decisions[0].remaining == 10'000 - told);
}

}  // namespace
}  // namespace weir::origins
