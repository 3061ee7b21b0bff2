// What one exact limiter would answer to the calls of an ExactStore: the pure functions of
// src/algorithms on states that are as simple as possible.
//
// A history of concurrent calls has one order: by version, and among the calls of one version the
// one that changed the state comes last. check() replays a history in that order.
//
// One thread at a time.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/backlog.h"
#include "algorithms/sliding_log.h"
#include "algorithms/strict_ring.h"
#include "weir/origin.h"

namespace weir::contracts {

class ExactModel {
 public:
  // `charged`: what the writer had admitted by itself.
  [[nodiscard]] std::vector<ExactDecision> decide(const ExactCall& call, Count charged,
                                                  WallTime now) {
    constexpr Count kAnyCapacity = Count{1} << 40;
    if (charged > 0) (void)decide_one(call, now, {.capacity = kAnyCapacity, .cost = charged});
    std::vector<ExactDecision> decisions;
    for (const ExactAsk& each : call.asks) {
      const algorithms::Ask ask{.capacity = each.capacity, .cost = each.cost};
      const algorithms::Decision decision = decide_one(call, now, ask);
      ExactDecision relative{.outcome = decision.outcome,
                             .remaining = decision.remaining,
                             .reset = decision.reset - now};
      if (decision.retry_at) relative.retry_after = *decision.retry_at - now;
      decisions.push_back(relative);
    }
    return decisions;
  }

 private:
  algorithms::Decision decide_one(const ExactCall& call, WallTime now, algorithms::Ask ask) {
    switch (call.algorithm) {
      case Algorithm::kSlidingWindowStrict: return decide_ring(call, now, ask);
      case Algorithm::kSlidingLog: return decide_log(call, now, ask);
      default: return decide_backlog(call, now, ask);
    }
  }

  algorithms::Decision decide_backlog(const ExactCall& call, WallTime now, algorithms::Ask ask) {
    const algorithms::Pace pace = algorithms::pace_of(call.limit, call.duration);
    algorithms::Backlog moved = backlog_.value_or(algorithms::empty_backlog(now, call.duration));
    if (backlog_) {
      const auto rebase = call.across_durations ? algorithms::rebased_in_time : algorithms::rebased;
      moved = rebase(now, call.duration, *backlog_, pace_, pace);
    }
    const auto decision = algorithms::decide_backlog(now, moved, pace, ask);
    // A denial changes nothing, unless it brings another rate.
    const bool converts = backlog_ && pace_ != pace;
    if (ask.cost == 0 || (!decision.admitted() && !converts)) return decision;
    backlog_ = {.epoch = moved.epoch, .tat = decision.admitted() ? decision.tat : moved.tat};
    pace_ = pace;
    return decision;
  }

  algorithms::Decision decide_ring(const ExactCall& call, WallTime now, algorithms::Ask ask) {
    const auto at = algorithms::position_of(now, algorithms::ring_width(call.duration));
    algorithms::RingCounts counts{};
    for (int i = 0; i < algorithms::kRingCells; ++i) {
      counts[static_cast<size_t>(i)] = cells_[at.sequence - algorithms::kRingParts + i];
    }
    const auto decision = algorithms::decide_ring(at, counts, ask);
    if (decision.admitted()) cells_[at.sequence] += ask.cost;
    return decision;
  }

  algorithms::Decision decide_log(const ExactCall& call, WallTime now, algorithms::Ask ask) {
    const auto stamp_back = [&](Count back) {
      return back > stamps_.size() ? algorithms::kNoStamp : stamps_[stamps_.size() - back];
    };
    const auto decision = algorithms::decide_log(now, call.duration, ask, stamp_back);
    if (decision.admitted()) stamps_.insert(stamps_.end(), ask.cost, now);
    return decision;
  }

  std::optional<algorithms::Backlog> backlog_;
  algorithms::Pace pace_{};
  std::map<int64_t, Count> cells_;
  std::vector<WallTime> stamps_;
};

struct ExactEvent {
  ExactCall call;
  ExactAnswer answer;
};

// Replays the calls of one tuple. Returns the number of calls that changed its state.
inline uint64_t check_history(std::vector<ExactEvent> events) {
  std::stable_sort(events.begin(), events.end(), [](const ExactEvent& a, const ExactEvent& b) {
    return std::pair(a.answer.version, a.answer.changed) <
           std::pair(b.answer.version, b.answer.changed);
  });
  ExactModel model;
  uint64_t version = 0;
  for (const ExactEvent& event : events) {
    SCOPED_TRACE("version " + std::to_string(version) + ", limit " +
                 std::to_string(event.call.limit) + ", duration " +
                 std::to_string(event.call.duration.count()) + ", at " +
                 std::to_string(event.answer.at.time_since_epoch().count()));
    EXPECT_EQ(event.answer.version, version);
    const auto expected = model.decide(event.call, event.answer.charged, event.answer.at);
    EXPECT_EQ(event.answer.decisions.size(), expected.size());
    if (::testing::Test::HasFailure()) return version;
    for (size_t i = 0; i < expected.size(); ++i) {
      const ExactDecision& actual = event.answer.decisions[i];
      EXPECT_EQ(static_cast<int>(actual.outcome), static_cast<int>(expected[i].outcome));
      EXPECT_EQ(actual.remaining, expected[i].remaining);
      EXPECT_EQ(actual.reset.count(), expected[i].reset.count());
      EXPECT_EQ(actual.retry_after, expected[i].retry_after);
    }
    if (event.answer.changed) ++version;
  }
  return version;
}

}  // namespace weir::contracts
