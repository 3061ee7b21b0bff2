// The state of each algorithm for one key. The arithmetic is that of src/algorithms; this file
// only stores the counts.
//
// Each class has admit(now, cost): decides, and charges the cost if it admits. `now` never
// decreases. One thread at a time.

#pragma once

#include <algorithm>
#include <vector>

#include "algorithms/backlog.h"
#include "algorithms/sliding_log.h"
#include "algorithms/strict_ring.h"
#include "algorithms/windows.h"
#include "lab/traffic.h"

namespace weir::lab {

// Counts of two adjacent windows.
class TwoCells {
 public:
  // The counts at this position. Windows between the last position and this one are empty.
  [[nodiscard]] const algorithms::WindowCounts& at(const algorithms::Position& position) {
    if (position.sequence != sequence_) {
      counts_ = {.previous = position.sequence == sequence_ + 1 ? counts_.current : 0};
      sequence_ = position.sequence;
    }
    return counts_;
  }
  // After at() for the same position.
  void charge(Count cost) { counts_.current += cost; }

 private:
  int64_t sequence_ = 0;
  algorithms::WindowCounts counts_{};
};

// Both windows differ in the decision only.
template <auto& kDecide>
class Windows {
 public:
  explicit Windows(const Limit& limit) : limit_(limit) {}
  bool admit(WallTime now, Count cost) {
    const auto at = algorithms::position_of(now, limit_.duration);
    const auto ask = algorithms::Ask{.capacity = limit_.limit, .cost = cost};
    const bool admitted = kDecide(at, cells_.at(at), ask).admitted();
    if (admitted) cells_.charge(cost);
    return admitted;
  }

 private:
  Limit limit_;
  TwoCells cells_;
};
using FixedWindow = Windows<algorithms::decide_fixed>;
using SlidingWindow = Windows<algorithms::decide_sliding>;

class StrictWindow {
 public:
  explicit StrictWindow(const Limit& limit) : limit_(limit) {}
  bool admit(WallTime now, Count cost) {
    const auto at = algorithms::position_of(now, algorithms::ring_width(limit_.duration));
    advance_to(at.sequence);
    const auto ask = algorithms::Ask{.capacity = limit_.limit, .cost = cost};
    const bool admitted = algorithms::decide_ring(at, counts_, ask).admitted();
    if (admitted) counts_.back() += cost;
    return admitted;
  }

 private:
  void advance_to(int64_t sequence) {
    const auto steps = std::min<int64_t>(sequence - newest_, algorithms::kRingCells);
    for (int64_t step = 0; step < steps; ++step) {
      std::shift_left(counts_.begin(), counts_.end(), 1);
      counts_.back() = 0;
    }
    newest_ = sequence;
  }

  Limit limit_;
  int64_t newest_ = 0;  // the sub-cell of counts_.back()
  algorithms::RingCounts counts_{};
};

class SlidingLog {
 public:
  explicit SlidingLog(const Limit& limit) : limit_(limit) {}
  bool admit(WallTime now, Count cost) {
    const auto ask = algorithms::Ask{.capacity = limit_.limit, .cost = cost};
    const auto decision = algorithms::decide_log(now, limit_.duration, ask, [this](Count back) {
      return back > stamps_.size() ? algorithms::kNoStamp : stamps_[stamps_.size() - back];
    });
    if (!decision.admitted()) return false;
    stamps_.insert(stamps_.end(), cost, now);
    // A decision reads limit + 1 stamps. Dropping the older half at a time keeps this cheap.
    const size_t needed = limit_.limit + 1;
    if (stamps_.size() > 2 * needed) {
      stamps_.erase(stamps_.begin(), stamps_.end() - static_cast<ptrdiff_t>(needed));
    }
    return true;
  }

 private:
  Limit limit_;
  std::vector<WallTime> stamps_;  // of each unit, the newest last
};

// gcra and token_bucket: one arithmetic, two names.
class Backlog {
 public:
  explicit Backlog(const Limit& limit)
      : limit_(limit), pace_(algorithms::pace_of(limit.limit, limit.duration)) {}
  bool admit(WallTime now, Count cost) {
    if (!algorithms::reaches(backlog_.epoch, now, pace_)) {
      backlog_ = algorithms::rebased(now, limit_.duration, backlog_, pace_, pace_);
    }
    const auto ask = algorithms::Ask{.capacity = limit_.burst, .cost = cost};
    const auto decision = algorithms::decide_backlog(now, backlog_, pace_, ask);
    if (decision.admitted()) backlog_.tat = decision.tat;
    return decision.admitted();
  }

 private:
  Limit limit_;
  algorithms::Pace pace_;
  algorithms::Backlog backlog_{};
};

}  // namespace weir::lab
