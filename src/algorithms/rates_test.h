// Rates for tests of the backlog, and a cell that stores a backlog.

#pragma once

#include "algorithms/backlog.h"
#include "algorithms/random_cases_test.h"

namespace weir::algorithms {

struct Rate {
  Count limit = 1;
  Millis duration{0};
  Count burst = 1;

  [[nodiscard]] Pace pace() const { return pace_of(limit, duration); }
  friend std::ostream& operator<<(std::ostream& out, const Rate& rate) {
    return out << rate.limit << " per " << rate.duration.count() << " ms, burst " << rate.burst;
  }
};

// Any valid rate.
[[nodiscard]] rc::Gen<Rate> any_rate();

// A backlog with its rate: admissions charge it, and its epoch is advanced when pulses since the
// epoch no longer fit.
struct StoredBacklog {
  Rate rate{};
  Backlog backlog{};

  StoredBacklog(const Rate& at, WallTime now)
      : rate(at), backlog(empty_backlog(now, at.duration)) {}

  [[nodiscard]] BacklogDecision peek(WallTime now, Count cost) const {
    return decide_backlog(now, backlog, rate.pace(), {.capacity = rate.burst, .cost = cost});
  }
  BacklogDecision decide(WallTime now, Count cost) {
    const Pace pace = rate.pace();
    if (!reaches(backlog.epoch, now, pace)) {
      backlog = rebased(now, rate.duration, backlog, pace, pace);
    }
    const BacklogDecision decision = peek(now, cost);
    if (decision.admitted()) backlog.tat = decision.tat;
    return decision;
  }
  // Another limit or burst from now on.
  void change(WallTime now, const Rate& to) {
    backlog = rebased(now, to.duration, backlog, rate.pace(), to.pace());
    rate = to;
  }
};

}  // namespace weir::algorithms
