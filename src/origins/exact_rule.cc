#include "origins/exact_rule.h"

#include <algorithm>
#include <numeric>

#include "base/wide.h"

namespace weir::origins {

using algorithms::Backlog;
using algorithms::Decision;
using algorithms::Pace;
using base::Wide;

namespace {

constexpr auto kMaxDrainMs = static_cast<uint64_t>(kMaxExactDrain.count());

int64_t ms_of(WallTime time) {
  return time.time_since_epoch().count();
}

ExactDecision relative(const Decision& decision, WallTime now) {
  ExactDecision result{.outcome = decision.outcome,
                       .remaining = decision.remaining,
                       .reset = std::max(decision.reset - now, Millis(0))};
  if (decision.retry_at) result.retry_after = std::max(*decision.retry_at - now, Millis(1));
  return result;
}

bool was_set_back(WallTime clock, WallTime at, Millis duration) {
  return at > clock + duration;
}

// A backlog keeps what was waiting at its last admission.
void follow_clock(const ExactCall& call, WallTime clock, BacklogState& state) {
  if (!was_set_back(clock, state.at, call.duration)) return;
  state.ms -= (state.at - clock).count();
  state.at = clock;
}

// 1.25 times the capacity, rounded up.
Count most_told(Count capacity) {
  return capacity + base::ceil_div(capacity, uint64_t{4});
}

// Pulses that have not drained at `now`.
uint64_t waiting(const BacklogState& state, WallTime now) {
  if (state.ms < ms_of(now)) return 0;
  const Wide pulses =
      Wide{static_cast<uint64_t>(state.ms - ms_of(now))} * state.pace.den + state.pulses;
  return static_cast<uint64_t>(std::min(pulses, Wide{algorithms::kMaxBurstPulses}));
}

// The backlog at the rate of the call, with `now` as its epoch.
Backlog backlog_of(const ExactCall& call, WallTime now, const BacklogState& state,
                   const Pace& pace) {
  Backlog backlog{.epoch = now, .tat = {waiting(state, now)}};
  if (state.version == 0 || state.pace == pace) return backlog;
  const auto rebase = call.across_durations ? algorithms::rebased_in_time : algorithms::rebased;
  const Backlog moved = rebase(now, call.duration, backlog, state.pace, pace);
  const uint64_t pulses =
      moved.tat.since_epoch - algorithms::detail::pulses_at(now, moved.epoch, pace);
  backlog.tat = {static_cast<uint64_t>(std::min(Wide{pulses}, Wide{kMaxDrainMs} * pace.den))};
  return backlog;
}

// What is charged of a cost that was told late: all of it, whether it fits or not.
Count late_charge(const ExactCall& call, Count unreported, Count used) {
  if (!base::mutated(base::Mutation::kLateChargeClipped) || call.asks.empty()) return unreported;
  return std::min(unreported, base::saturating_sub(call.asks.front().capacity, used));
}

// `stamp_back(i, k)` is the stamp of the k-th newest unit at the i-th ask; `admit(cost)` adds
// units.
template <typename StampBack, typename Admit>
std::vector<ExactDecision> decide_log_asks(const ExactCall& call, WallTime now,
                                           const StampBack& stamp_back, const Admit& admit) {
  std::vector<ExactDecision> decisions;
  for (size_t i = 0; i < call.asks.size(); ++i) {
    const ExactAsk& ask = call.asks[i];
    const Decision decision =
        algorithms::decide_log(now, call.duration, {.capacity = ask.capacity, .cost = ask.cost},
                               [&](Count back) { return stamp_back(i, back); });
    if (decision.admitted()) admit(ask.cost);
    decisions.push_back(relative(decision, now));
  }
  return decisions;
}

}  // namespace

ExactClass exact_class(Algorithm algorithm) {
  if (algorithm == Algorithm::kSlidingWindowStrict) return ExactClass::kRing;
  return algorithm == Algorithm::kSlidingLog ? ExactClass::kLog : ExactClass::kBacklog;
}

bool is_strict(const ExactCall& call, const ExactAnswer& answer, std::optional<WallTime> refused) {
  if (call.strict_for <= Millis(0)) return false;
  bool refuses = false;
  for (size_t i = 0; i < answer.decisions.size() && i < call.asks.size(); ++i) {
    const bool denied = answer.decisions[i].outcome == Outcome::kDenied;
    refuses = refuses || (denied && call.asks[i].cost > 0);
  }
  if (refuses) return true;
  // A mark of the future was made before the clock was set back.
  return refused && *refused <= answer.at + call.strict_for &&
         answer.at - *refused < call.strict_for;
}

Count charge_foreign(const ExactCall& call, std::optional<ForeignCharged>& known) {
  if (call.foreign_width <= Millis(0) || call.foreign + call.foreign_last == 0) return 0;
  const int64_t ahead = known ? call.foreign_sequence - known->sequence : 2;
  // A process whose clock is behind, or that was idle.
  if (ahead < 0) return 0;
  const bool knows = ahead < 2;
  const ForeignCharged before{.sequence = call.foreign_sequence,
                              .current = ahead == 0 ? known->current : 0,
                              .last = ahead == 0 ? known->last : (ahead == 1 ? known->current : 0)};
  ForeignCharged after{.sequence = call.foreign_sequence,
                       .current = std::max(before.current, call.foreign),
                       .last = std::max(before.last, call.foreign_last)};
  const Count more = after.current - before.current + after.last - before.last;
  const Count due = knows ? more : std::min(call.foreign_at_first, more);
  const Count charged = std::min(due, call.foreign_most);
  // What this call may not charge is left to the next: its limit may be smaller than the usual one.
  const Count left = base::mutated(base::Mutation::kForeignCutToABurst) ? 0 : due - charged;
  const Count left_of_current = std::min(left, after.current - before.current);
  after.current -= left_of_current;
  after.last -= left - left_of_current;
  if (!base::mutated(base::Mutation::kForeignChargedAgain)) known = after;
  return charged;
}

bool must_mark(const ExactCall& call, const ExactAnswer& answer, std::optional<WallTime> refused) {
  if (!is_strict(call, answer, std::nullopt)) return false;
  return !refused || *refused > answer.at || answer.at - *refused >= call.strict_for / 4;
}

Count unreported_in(const ExactCall& call, Count unreported, WallTime clock, BacklogState state) {
  if (call.capacity == 0) return unreported;
  follow_clock(call, clock, state);
  const Pace pace = algorithms::pace_of(call.limit, call.duration);
  const Backlog backlog = backlog_of(call, std::max(clock, state.at), state, pace);
  const Count units = base::ceil_div(backlog.tat.since_epoch, pace.num);
  return std::min(unreported, base::saturating_sub(most_told(call.capacity), units));
}

ExactAnswer decide(const ExactCall& call, Count unreported, WallTime clock, BacklogState& state) {
  follow_clock(call, clock, state);
  const WallTime now = std::max(clock, state.at);
  const Pace pace = algorithms::pace_of(call.limit, call.duration);
  Backlog backlog = backlog_of(call, now, state, pace);
  unreported = late_charge(call, unreported, base::ceil_div(backlog.tat.since_epoch, pace.num));
  ExactAnswer answer{.at = now,
                     .version = state.version,
                     .changed = unreported > 0,
                     .charged = unreported,
                     .decisions = {}};
  backlog.tat = {static_cast<uint64_t>(
      std::min(Wide{backlog.tat.since_epoch} + Wide{unreported} * pace.num,
               std::min(Wide{algorithms::kMaxBurstPulses}, Wide{kMaxDrainMs} * pace.den)))};
  for (const ExactAsk& ask : call.asks) {
    const auto decision = algorithms::decide_backlog(now, backlog, pace,
                                                     {.capacity = ask.capacity, .cost = ask.cost});
    const bool charges = decision.admitted() && ask.cost > 0;
    const bool converts = state.version > 0 && state.pace != pace && ask.cost > 0;
    if (charges) backlog.tat = decision.tat;
    answer.changed = answer.changed || charges || converts;
    answer.decisions.push_back(relative(decision, now));
  }
  if (!answer.changed) return answer;
  const uint64_t queued = backlog.tat.since_epoch;
  state = {.version = state.version + 1,
           .at = now,
           .pace = pace,
           .ms = ms_of(now) + static_cast<int64_t>(queued / pace.den),
           .pulses = queued % pace.den};
  return answer;
}

ExactAnswer decide(const ExactCall& call, Count unreported, WallTime clock, RingState& state) {
  if (was_set_back(clock, state.at, call.duration)) {
    state.at = clock;
    state.cells.clear();
  }
  const WallTime now = std::max(clock, state.at);
  const auto at = algorithms::position_of(now, algorithms::ring_width(call.duration));
  const int64_t oldest = at.sequence - algorithms::kRingParts;
  algorithms::RingCounts counts{};
  for (const auto& [sequence, count] : state.cells) {
    if (sequence < oldest || sequence > at.sequence) continue;
    counts[static_cast<size_t>(sequence - oldest)] = count;
  }
  unreported =
      late_charge(call, unreported, std::accumulate(counts.begin(), counts.end(), Count{0}));
  ExactAnswer answer{.at = now,
                     .version = state.version,
                     .changed = unreported > 0,
                     .charged = unreported,
                     .decisions = {}};
  counts.back() = base::saturating_add(counts.back(), unreported);
  for (const ExactAsk& ask : call.asks) {
    const Decision decision =
        algorithms::decide_ring(at, counts, {.capacity = ask.capacity, .cost = ask.cost});
    if (decision.admitted() && ask.cost > 0) {
      counts.back() += ask.cost;
      answer.changed = true;
    }
    answer.decisions.push_back(relative(decision, now));
  }
  if (!answer.changed) return answer;
  ++state.version;
  state.at = now;
  state.cells.clear();
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) state.cells.emplace_back(oldest + static_cast<int64_t>(i), counts[i]);
  }
  return answer;
}

ExactAnswer decide(const ExactCall& call, Count unreported, WallTime clock, LogState& state) {
  if (was_set_back(clock, state.at, call.duration)) {
    state.at = clock;
    state.left = state.total;
    state.entries.clear();
  }
  const WallTime now = std::max(clock, state.at);
  auto& entries = state.entries;
  while (!entries.empty() && !algorithms::in_window(now, call.duration, entries.front().stamp)) {
    state.left = entries.front().last;
    entries.pop_front();
  }
  const auto stamp_back = [&](size_t, Count back) {
    if (back > state.total - state.left) return algorithms::kNoStamp;
    const auto found = std::lower_bound(
        entries.begin(), entries.end(), state.total - back + 1,
        [](const LogState::Entry& entry, Count unit) { return entry.last < unit; });
    return found->stamp;
  };
  unreported = late_charge(call, unreported, state.total - state.left);
  ExactAnswer answer{.at = now, .version = state.version, .charged = unreported, .decisions = {}};
  const auto admit = [&](Count cost) {
    if (cost == 0) return;
    answer.changed = true;
    state.total += cost;
    if (entries.empty() || entries.back().stamp != now) entries.push_back({.stamp = now});
    entries.back().last = state.total;
  };
  admit(unreported);
  answer.decisions = decide_log_asks(call, now, stamp_back, admit);
  if (!answer.changed) return answer;
  ++state.version;
  state.at = now;
  return answer;
}

ExactAnswer decide(const ExactCall& call, Count unreported, WallTime now, const LogSummary& log) {
  Count used = log.used;
  WallTime newest = log.newest;
  const auto stamp_back = [&](size_t i, Count back) {
    if (back > used) return algorithms::kNoStamp;
    if (back == 1) return newest;
    const ExactAsk& ask = call.asks[i];
    const bool asked = ask.cost <= ask.capacity && back == ask.capacity - ask.cost + 1;
    // Of the others only counts that they are in the window.
    return asked ? log.must_have_left[i] : now;
  };
  ExactAnswer answer{.at = now, .version = log.version, .charged = unreported, .decisions = {}};
  const auto admit = [&](Count cost) {
    if (cost == 0) return;
    answer.changed = true;
    used += cost;
    newest = now;
  };
  admit(unreported);
  answer.decisions = decide_log_asks(call, now, stamp_back, admit);
  return answer;
}

WallTime empty_at(const BacklogState& state) {
  return WallTime(Millis(state.ms + 1));
}

WallTime empty_at(const RingState& state, Millis duration) {
  return state.at + (algorithms::kRingCells + 1) * algorithms::ring_width(duration);
}

WallTime empty_at(const LogState& state, Millis duration) {
  return state.at + duration;
}

DrainTime drain_time(Count cost, const Pace& pace) {
  const Wide pulses = Wide{cost} * pace.num;
  const Wide ms = pulses / pace.den;
  if (ms > kMaxDrainMs) return {.ms = kMaxDrainMs + 1};
  return {.ms = static_cast<uint64_t>(ms), .pulses = static_cast<uint64_t>(pulses % pace.den)};
}

}  // namespace weir::origins
