#include "algorithms/backlog.h"

#include <algorithm>

namespace weir::algorithms {

using detail::pulses_at;
using detail::tick_at_or_after;
using detail::waiting;

BacklogDecision decide_backlog(WallTime now, const Backlog& backlog, const Pace& pace, Ask ask) {
  BacklogDecision decision;
  if (admit_backlog(now, backlog, pace, ask, decision)) return decision;
  const uint64_t here = pulses_at(now, backlog.epoch, pace);
  const uint64_t full = ask.capacity * pace.num;
  const uint64_t queued = waiting(here, backlog.tat);
  decision.remaining = base::saturating_sub(full, queued) / pace.num;
  decision.reset = tick_at_or_after(backlog.epoch, here + queued, pace);
  if (ask.cost > ask.capacity) {
    decision.outcome = Outcome::kNever;
    return decision;
  }
  decision.outcome = Outcome::kDenied;
  const uint64_t asked = ask.cost * pace.num;
  decision.retry_at = tick_at_or_after(backlog.epoch, here + queued + asked - full, pace);
  return decision;
}

Pulses charged(WallTime now, const Backlog& backlog, const Pace& pace, Count cost) {
  const uint64_t here = pulses_at(now, backlog.epoch, pace);
  const uint64_t queued = waiting(here, backlog.tat);
  const base::Wide after = base::Wide{queued} + base::Wide{cost} * pace.num;
  return {here +
          std::max(queued, static_cast<uint64_t>(std::min(after, base::Wide{kMaxBurstPulses})))};
}

Count backlog_at(WallTime now, const Backlog& backlog, const Pace& pace) {
  return base::ceil_div(waiting(pulses_at(now, backlog.epoch, pace), backlog.tat), pace.num);
}

namespace {

// Pulses of the former pace that have not drained at `now`.
uint64_t queued_at(WallTime now, const Backlog& from, const Pace& from_pace) {
  // Before its epoch a backlog has not drained at all. Wide, because an epoch is advanced exactly
  // when pulses from it no longer fit, and an admission of the tick before has not drained yet.
  const Millis elapsed = std::max(now, from.epoch) - from.epoch;
  const base::Wide drained = base::Wide{static_cast<uint64_t>(elapsed.count())} * from_pace.den;
  return drained < from.tat.since_epoch ? from.tat.since_epoch - static_cast<uint64_t>(drained) : 0;
}

// queued * to / from pulses of the new pace, rounded up to the strict side and capped at the
// largest burst of a request.
Backlog scaled(WallTime now, Millis duration, uint64_t queued, uint64_t from, uint64_t to,
               const Pace& to_pace) {
  const base::Wide pulses = (base::Wide{queued} * to + from - 1) / from;
  const base::Wide cut = std::min(pulses, base::Wide{kMaxBurstPulses});
  Backlog backlog = empty_backlog(now, duration);
  backlog.tat = {pulses_at(now, backlog.epoch, to_pace) + static_cast<uint64_t>(cut)};
  return backlog;
}

}  // namespace

Backlog rebased(WallTime now, Millis duration, const Backlog& from, const Pace& from_pace,
                const Pace& to_pace) {
  const uint64_t queued = queued_at(now, from, from_pace);
  return scaled(now, duration, queued, from_pace.num, to_pace.num, to_pace);
}

Backlog rebased_in_time(WallTime now, Millis duration, const Backlog& from, const Pace& from_pace,
                        const Pace& to_pace) {
  const uint64_t queued = queued_at(now, from, from_pace);
  return scaled(now, duration, queued, from_pace.den, to_pace.den, to_pace);
}

Backlog cut_to_burst(WallTime now, const Backlog& backlog, const Pace& pace, Count burst) {
  const uint64_t full = pulses_at(now, backlog.epoch, pace) + burst * pace.num;
  return {.epoch = backlog.epoch, .tat = {std::min(backlog.tat.since_epoch, full)}};
}

Count tokens_at(WallTime now, const Backlog& backlog, const Pace& pace, Count burst) {
  return base::saturating_sub(burst, backlog_at(now, backlog, pace));
}

}  // namespace weir::algorithms
