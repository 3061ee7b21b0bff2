// How an origin decides requests on a tuple whose whole state it keeps. The Lua scripts of the
// Redis origin change the state by the same rules; the decisions are computed here for both.
//
// A state has one clock, that of the origin. Time does not run backwards within a tuple: a call is
// decided at the time of the last admission if the clock is behind it. If the clock was set back by
// more than a duration, a ring and a log start again empty, and a backlog keeps what was waiting at
// its last admission.
//
// Pure.

#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/backlog.h"
#include "algorithms/sliding_log.h"
#include "algorithms/strict_ring.h"
#include "base/mutation.h"
#include "base/wide.h"
#include "weir/origin.h"

namespace weir::origins {

enum class ExactClass : uint8_t { kBacklog, kRing, kLog };
[[nodiscard]] ExactClass exact_class(Algorithm algorithm);

// gcra and token_bucket. The theoretical arrival time is `ms` of the clock of the origin and
// `pulses` of 1/den ms.
struct BacklogState {
  uint64_t version = 0;
  WallTime at{};  // of the last admission
  algorithms::Pace pace{};
  int64_t ms = 0;
  uint64_t pulses = 0;  // less than pace.den
};

struct RingState {
  uint64_t version = 0;
  WallTime at{};
  std::vector<std::pair<int64_t, Count>> cells{};  // sub-cells with a count, oldest first
};

// Units are numbered from 1. All units of one millisecond are one entry.
struct LogState {
  struct Entry {
    WallTime stamp{};
    Count last = 0;  // the number of its last unit
  };
  uint64_t version = 0;
  WallTime at{};
  Count total = 0;              // units admitted
  Count left = 0;               // units that have left the window
  std::deque<Entry> entries{};  // of the other units, oldest first
};

// What the origin has to charge of the writer's own admissions. `told`: up to where its last call
// that changed the tuple was charged; 0: none is remembered.
[[nodiscard]] inline Count unreported(const ExactCall& call, Count told) {
  if (base::mutated(base::Mutation::kToldChargedAgain)) return call.own;
  return base::saturating_sub(call.own, std::max(call.acked, told));
}
// How much of that a backlog takes: see ExactCall::capacity.
[[nodiscard]] Count unreported_in(const ExactCall& call, Count unreported, WallTime clock,
                                  BacklogState state);
// What was charged for other regions, in windows of one width.
struct ForeignCharged {
  int64_t sequence = 0;  // of the newest window
  Count current = 0;
  Count last = 0;
};
// What is to be charged of what the call says; raises `known`, which is empty if nothing is known
// of this width.
[[nodiscard]] Count charge_foreign(const ExactCall& call, std::optional<ForeignCharged>& known);
// A state is kept for as long as the origin must know what it has charged for other regions.
[[nodiscard]] inline Millis foreign_kept(const ExactCall& call) {
  return call.foreign + call.foreign_last > 0 ? 2 * call.foreign_width : Millis(0);
}

// Charges `unreported`, then decides a call at the time `clock`. If it changes the state, the
// version grows by one. A log also drops what has left its window.
[[nodiscard]] ExactAnswer decide(const ExactCall& call, Count unreported, WallTime clock,
                                 BacklogState& state);
[[nodiscard]] ExactAnswer decide(const ExactCall& call, Count unreported, WallTime clock,
                                 RingState& state);
[[nodiscard]] ExactAnswer decide(const ExactCall& call, Count unreported, WallTime clock,
                                 LogState& state);

// Whether a writer must ask about every request, after a refusal at the time `refused` or in the
// answer itself.
[[nodiscard]] bool is_strict(const ExactCall& call, const ExactAnswer& answer,
                             std::optional<WallTime> refused);
// A mark is renewed after a part of the time for which it matters.
[[nodiscard]] bool must_mark(const ExactCall& call, const ExactAnswer& answer,
                             std::optional<WallTime> refused);

// From then on the state is as good as none.
[[nodiscard]] WallTime empty_at(const BacklogState& state);
[[nodiscard]] WallTime empty_at(const RingState& state, Millis duration);
[[nodiscard]] WallTime empty_at(const LogState& state, Millis duration);

// The log as the Redis origin reads it: not the stamps, but those that decisions need.
struct LogSummary {
  uint64_t version = 0;
  WallTime at{};
  Count used = 0;  // units in the window
  WallTime newest = algorithms::kNoStamp;
  std::vector<WallTime> must_have_left{};  // for each ask that is denied: the stamp of its last
                                           // unit that must leave; kNoStamp for the others
};
// `now` is the time of the decision. The summary is from before `unreported` was charged.
[[nodiscard]] ExactAnswer decide(const ExactCall& call, Count unreported, WallTime now,
                                 const LogSummary& log);

// An amount of cost as the time in which it drains; at most kMaxExactDrain and one ms.
struct DrainTime {
  uint64_t ms = 0;
  uint64_t pulses = 0;
};
[[nodiscard]] DrainTime drain_time(Count cost, const algorithms::Pace& pace);

}  // namespace weir::origins
