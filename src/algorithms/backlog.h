// GCRA and the token bucket: two descriptions of one backlog.
//
// The state is the theoretical arrival time: the instant at which all that was
// admitted has drained at the configured rate. One unit of cost drains in
// T = duration / limit. A request passes if after it no more than `burst` units are
// waiting to drain:
//
//   max(now, tat) + cost * T <= now + burst * T
//
// which for cost 1 is now >= tat - (burst - 1) * T; equality passes. The token bucket is
// equivalent: tokens = burst - backlog, and the bucket must contain `cost` tokens.
//
// T is rarely a whole number of milliseconds, and rounding it would change the rate.
// So a Pace counts time in pulses of 1/den ms, where duration/limit = num/den in
// lowest terms: a unit of cost is then exactly num pulses, a millisecond exactly den,
// and only the results are rounded, once, up to the next tick.
//
// No overflow: validation admits only requests with max(limit, burst) * num <= 2^61, so
// a full burst, and a whole duration (limit * num pulses), fit. A tat is kept as pulses
// since an epoch; when `reaches` is false the epoch must be advanced, so that always
// now + burst * num <= 2^62 + 2^61 < 2^63.

#pragma once

#include <numeric>

#include "algorithms/decision.h"
#include "base/inline.h"
#include "base/wide.h"

namespace weir::algorithms {

inline constexpr uint64_t kMaxPulses = uint64_t{1} << 62;
inline constexpr uint64_t kMaxBurstPulses = uint64_t{1} << 61;

// A rate in lowest terms: one unit of cost takes num/den milliseconds to drain.
struct Pace {
  uint64_t num = 1;  // pulses to a unit of cost
  uint64_t den = 1;  // pulses to a millisecond
  friend bool operator==(const Pace&, const Pace&) = default;
};

[[nodiscard]] inline Pace pace_of(Count limit, Millis duration) {
  const auto span = static_cast<uint64_t>(duration.count());
  const uint64_t shared = std::gcd(limit, span);
  return {.num = span / shared, .den = limit / shared};
}

// Whether pulses of this pace are exact for the request; if not, validation rejects it.
[[nodiscard]] inline bool representable(const Pace& pace, Count limit, Count burst) {
  return base::Wide{limit > burst ? limit : burst} * pace.num <= kMaxBurstPulses;
}

// Limits and bursts up to this are representable at any duration up to kMaxDuration.
inline constexpr Count kAlwaysRepresentable = Count{1} << 29;
static_assert(base::Wide{kAlwaysRepresentable} * uint64_t{kMaxDuration.count()} <= kMaxBurstPulses);

// A point in time as pulses of one pace since an epoch on the wall clock.
struct Pulses {
  uint64_t since_epoch = 0;
};

struct Backlog {
  WallTime epoch{};
  Pulses tat{};
};

struct BacklogDecision : Decision {
  Pulses tat{};  // the state after an admission
};

// An empty backlog. The epoch is a duration in the past, so that a clock may step that far back.
[[nodiscard]] inline Backlog empty_backlog(WallTime now, Millis duration) {
  return {.epoch = now - duration, .tat = {}};
}

// Whether `now` can be expressed in pulses since the epoch. If not, rebase first.
[[nodiscard]] inline bool reaches(WallTime epoch, WallTime now, const Pace& pace) {
  return now >= epoch &&
         base::Wide{static_cast<uint64_t>((now - epoch).count())} * pace.den <= kMaxPulses;
}

// decide_backlog() for a request that passes; else false, and `decision` is undefined. Needs
// reaches(), too.
[[nodiscard]] bool admit_backlog(WallTime now, const Backlog& backlog, const Pace& pace, Ask ask,
                                 BacklogDecision& decision);

// Needs reaches(). A tat further ahead than a full burst can only come from a clock that stepped
// back or a burst that was lowered. It is not capped here: a denial does not change the state, so
// a cap would admit nothing earlier and only return a retry time that fails.
[[nodiscard]] BacklogDecision decide_backlog(WallTime now, const Backlog& backlog, const Pace& pace,
                                             Ask ask);

// Units of cost that have not drained yet, rounded up.
[[nodiscard]] Count backlog_at(WallTime now, const Backlog& backlog, const Pace& pace);

// The same backlog from an epoch near `now` at another pace, so that the units waiting
// to drain stay the same when a limit changes; rounded up. Needs no reaches().
[[nodiscard]] Backlog rebased(WallTime now, Millis duration, const Backlog& from,
                              const Pace& from_pace, const Pace& to_pace);

// The same, but the time until the backlog is empty stays the same.
[[nodiscard]] Backlog rebased_in_time(WallTime now, Millis duration, const Backlog& from,
                                      const Pace& from_pace, const Pace& to_pace);

// The backlog capped at a full burst, for a clock that was set back by more than a duration: the
// drained amount is unknown then, and no client should wait longer than that.
[[nodiscard]] Backlog cut_to_burst(WallTime now, const Backlog& backlog, const Pace& pace,
                                   Count burst);

// The state after a cost that is charged whether it fits or not. It stays representable.
[[nodiscard]] Pulses charged(WallTime now, const Backlog& backlog, const Pace& pace, Count cost);

// The backlog as a token bucket: the whole tokens at `now`.
[[nodiscard]] Count tokens_at(WallTime now, const Backlog& backlog, const Pace& pace, Count burst);

namespace detail {

inline uint64_t pulses_at(WallTime now, WallTime epoch, const Pace& pace) {
  return static_cast<uint64_t>((now - epoch).count()) * pace.den;
}

// Pulses from now until the backlog is empty.
inline uint64_t waiting(uint64_t now, Pulses tat) {
  return base::saturating_sub(tat.since_epoch, now);
}

inline WallTime tick_at_or_after(WallTime epoch, uint64_t pulses, const Pace& pace) {
  return epoch + Millis(static_cast<int64_t>(base::ceil_div(pulses, pace.den)));
}

}  // namespace detail

WEIR_HOT_INLINE bool admit_backlog(WallTime now, const Backlog& backlog, const Pace& pace, Ask ask,
                                   BacklogDecision& decision) {
  if (ask.cost > ask.capacity) return false;  // and might overflow as pulses
  const uint64_t here = detail::pulses_at(now, backlog.epoch, pace);
  const uint64_t full = ask.capacity * pace.num;
  const uint64_t after = detail::waiting(here, backlog.tat) + ask.cost * pace.num;
  if (after > full) return false;
  decision.outcome = Outcome::kAdmitted;
  decision.remaining = base::divide(full - after, pace.num);
  decision.tat = {here + after};
  decision.reset = detail::tick_at_or_after(backlog.epoch, decision.tat.since_epoch, pace);
  return true;
}

}  // namespace weir::algorithms
