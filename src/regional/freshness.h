// When the origin must be read before a decision, and for how long a read stays fresh.
//
// hot[5] of a window tuple:
//
//   bits 24-63  until (monotonic ms): no read starts before
//   bits 1-23   the difference between that time and the start of the read (ms)
//   bit 0       the last read failed: nothing is fresh, and no read starts until then
//   bit 1       after a failed read: see needs_regions()
//
// A failed read makes nothing fresh. A read stays fresh for a while, and for less if the siblings,
// at the rate observed, could use half of the remaining limit sooner. If replays fail for as long
// as a read stays fresh, the origin counts as lost, even if it answers reads.

#pragma once

#include <algorithm>
#include <optional>

#include "base/wide.h"
#include "memory/lifecycle.h"
#include "memory/tuple_meta.h"
#include "memory/window_cells.h"
#include "regional/allowance.h"
#include "weir/time.h"

namespace weir::regional {

// The time without reads of a tuple after a failed one.
inline constexpr Millis kReadPause{300};

enum class ReadRequirement : uint8_t {
  kNothing,  // fresh
  kRefused,  // the known counts deny already, and counts only grow
  kCold,     // never read
  kStale,
  kAsk,      // the origin must decide; see steps.h
  kDegrade,  // one of these is due, but the last one failed just now or the next one would
};

[[nodiscard]] inline bool is_read(ReadRequirement requirement) {
  return requirement == ReadRequirement::kCold || requirement == ReadRequirement::kStale;
}

// The basis of a decision that does not wait for the read it requires.
[[nodiscard]] inline Basis basis_without_reading(ReadRequirement requirement) {
  return requirement == ReadRequirement::kNothing || requirement == ReadRequirement::kRefused
             ? Basis::kLocal
             : Basis::kDegraded;
}

[[nodiscard]] inline Nanos fresh_for(Millis duration, Millis longest) {
  return std::min<Nanos>(longest, Nanos(duration) / 10);
}

// For how long a read that begins now may stay fresh. While this process cannot replay, its
// siblings cannot either: the counts at the origin are as old as the first message that failed.
[[nodiscard]] inline Millis longest_while_failing(std::optional<MonoTime> failing_since,
                                                  MonoTime began, Millis duration, Millis longest) {
  if (!failing_since) return longest;
  const Nanos left = *failing_since + fresh_for(duration, longest) - began;
  return std::clamp(std::chrono::floor<Millis>(left), Millis(0), longest);
}

// The word of hot[5].
struct Freshness {
  static constexpr int kUntilShift = 24;
  static constexpr uint64_t kSpanMask = (uint64_t{1} << (kUntilShift - 1)) - 1;

  uint64_t word = 0;

  [[nodiscard]] static uint64_t millis(MonoTime time) {
    return static_cast<uint64_t>(time.time_since_epoch() / Millis(1));
  }
  [[nodiscard]] static Freshness read(MonoTime began, Nanos fresh) {
    const auto span = static_cast<uint64_t>(fresh / Millis(1));
    return {(millis(began) + span) << kUntilShift | (span & kSpanMask) << 1};
  }
  [[nodiscard]] static Freshness failed(MonoTime now, Freshness before) {
    return {millis(now + kReadPause) << kUntilShift | 1 | (before.needs_regions() ? 2 : 0)};
  }

  [[nodiscard]] bool never() const { return word == 0; }
  // With a ledger: no read of the counts of the other regions has succeeded since the tuple was
  // created, or since the messages that replace such reads were missed.
  [[nodiscard]] bool needs_regions() const { return never() || (has_failed() && (word & 2) != 0); }
  [[nodiscard]] bool has_failed() const { return (word & 1) != 0; }
  [[nodiscard]] bool lasts(MonoTime now) const { return millis(now) < word >> kUntilShift; }
  [[nodiscard]] bool is_fresh(MonoTime now) const { return lasts(now) && !has_failed(); }
  // When the read began. Only valid if it did not fail.
  [[nodiscard]] MonoTime began() const {
    const uint64_t at = (word >> kUntilShift) - (word >> 1 & kSpanMask);
    return MonoTime(Millis(static_cast<int64_t>(at)));
  }
};

[[nodiscard]] inline Freshness freshness_of(const memory::WindowCells& cells) {
  return {cells.fresh_until().load(std::memory_order_acquire)};
}

// The same for all reads of a process.
struct ReadRules {
  Millis longest{0};
  bool available = true;  // the origin answers within the deadline
  bool regions = false;   // reads also return the counts of the other regions
};

// A fixed window starts empty and ignores the last window. So a tuple that was read in the last
// window is as fresh as one read at the start of this one.
[[nodiscard]] inline bool fresh_from_start(const memory::WindowCells& cells,
                                           const memory::Query& query, Millis longest) {
  if (query.algorithm != Algorithm::kFixedWindow) return false;
  const algorithms::Position at = algorithms::position_of(query.now, query.duration);
  if (!cells.in_tag_range(at.sequence - 1)) return false;
  const memory::Tagged last{cells.siblings(at.sequence - 1).load(std::memory_order_acquire)};
  if (last.word == 0 || !last.is_of(at.sequence - 1)) return false;
  Nanos fresh = fresh_for(query.duration, longest);
  if (last.count() > 0) {
    const auto width = static_cast<uint64_t>(Nanos(query.duration).count());
    const uint64_t half = base::mul_div(query.limit, width, 2 * last.count());
    fresh = std::min(fresh, Nanos(static_cast<int64_t>(std::min(half, width))));
  }
  return Nanos(at.offset) < fresh;
}

// Whether the counts in memory are recent enough for a decision.
[[nodiscard]] inline ReadRequirement read_requirement(const memory::WindowCells& cells,
                                                      const memory::Query& query, MonoTime now,
                                                      const ReadRules& rules) {
  const Freshness freshness = freshness_of(cells);
  if (freshness.lasts(now)) {
    return freshness.has_failed() ? ReadRequirement::kDegrade : ReadRequirement::kNothing;
  }
  if (!(rules.regions && freshness.needs_regions()) &&
      fresh_from_start(cells, query, rules.longest)) {
    return ReadRequirement::kNothing;
  }
  if (!rules.available) return ReadRequirement::kDegrade;
  return freshness.never() ? ReadRequirement::kCold : ReadRequirement::kStale;
}

// Whether a request may have been refused in this window without the knowledge of this process.
[[nodiscard]] inline bool was_half_full(const memory::WindowCells& cells, int64_t sequence,
                                        Count capacity) {
  const Count known = base::saturating_add(memory::count_in(cells.own(sequence), sequence),
                                           memory::count_in(cells.siblings(sequence), sequence));
  return known >= capacity / 2;
}

// Whether this process may decide a request by itself, or the origin must. `known`: the decision on
// the counts in memory. `unread`: as returned by read_requirement(). `allowance`: none if this
// process has none now. Sets the bound of the query to the allowance if the process may decide.
[[nodiscard]] inline ReadRequirement ask_requirement(const memory::WindowCells& cells,
                                                     memory::Query& query,
                                                     const memory::CellDecision& known,
                                                     const std::optional<Allowance>& allowance,
                                                     ReadRequirement unread, bool available) {
  const memory::WindowCells::Told told = cells.told(known.sequence);
  if (!known.decision.admitted()) {
    // The first refusal in a window is the origin's, so that all processes learn of it.
    const bool asks = available && unread != ReadRequirement::kDegrade && !told.refused;
    return asks ? ReadRequirement::kAsk : ReadRequirement::kRefused;
  }
  if (unread == ReadRequirement::kDegrade) return unread;
  const Evidence& counts = known.evidence;
  const Count taken = base::saturating_sub(counts.own + query.ask.cost, told.own);
  const bool other_limit = memory::mutated(memory::Mutation::kAllowanceOfAnotherLimit);
  const Count left =
      base::saturating_sub(query.ask.capacity * (other_limit ? 2 : 1),
                           told.own + counts.siblings + counts.foreign + counts.previous);
  const bool may_be_strict =
      told.strict || (!told.noted && was_half_full(cells, known.sequence - 1, query.ask.capacity));
  const bool fresh = unread == ReadRequirement::kNothing ||
                     memory::mutated(memory::Mutation::kAllowanceWithoutExpiry);
  const bool covered = fresh && !may_be_strict && allowance && allowance->covers(taken, left);
  if (covered) {
    // A window that has just begun: the next requests need not come here.
    if (!told.noted) cells.note_told(known.sequence, 0, std::nullopt);
    const bool whole = memory::mutated(memory::Mutation::kAllowanceOfWholeRemainder);
    query.bound = {
        .most = told.own + left / (whole ? allowance->parts / kAllowanceParts : allowance->parts),
        .sequence = known.sequence,
        .reported = false};
    return ReadRequirement::kNothing;
  }
  return available ? ReadRequirement::kAsk : ReadRequirement::kDegrade;
}

// Whether the last window was read recently and after its end, so that a message about this window
// need not include it.
[[nodiscard]] inline bool knows_last_window(const memory::Tuple& tuple, int64_t sequence,
                                            Instant now, Millis longest) {
  if (!freshness_of(memory::WindowCells(tuple)).is_fresh(now.mono)) return false;
  const Millis duration = tuple.slot->header.duration();
  const memory::TupleMeta meta{tuple.cold->meta.load(std::memory_order_relaxed)};
  const Millis ago = meta.last_read_ago(now.mono);
  const Millis into_window = now.wall.time_since_epoch() - sequence * duration;
  return ago < into_window && ago < fresh_for(duration, longest) / 2;
}

// The windows that a read covers. A read of the current window alone stays fresh for no longer than
// the last read of the window before.
enum class Extent : uint8_t { kBoth, kCurrent };

// Whether the counts of the other regions are known after the read: it returned them, or there is
// no ledger. Another read does not make a tuple fresh that needs them.
enum class OtherRegions : uint8_t { kKnown, kAsBefore };

// Records a complete read that began at `began` and was merged. `known` is the siblings' count
// before the merge.
inline void note_read(const memory::Tuple& tuple, int64_t sequence, Instant began, Extent extent,
                      OtherRegions regions, Count known, Millis longest) {
  const memory::WindowCells cells(tuple);
  const Millis duration = tuple.slot->header.duration();
  const Nanos most = fresh_for(duration, longest);
  uint64_t seen = cells.fresh_until().load(std::memory_order_acquire);
  Nanos fresh = most;
  const memory::Tagged word{cells.siblings(sequence).load(std::memory_order_acquire)};
  if (const Count siblings = word.count_of(sequence); siblings > 0) {
    const Count remaining = memory::remaining_of(tuple, began.wall);
    const auto half = [&](Nanos time, Count used) {
      const auto span = static_cast<uint64_t>(std::max<int64_t>(time.count(), 1));
      const uint64_t nanos = base::mul_div(remaining, span, 2 * used);
      fresh = std::min(
          fresh, Nanos(static_cast<int64_t>(std::min(nanos, static_cast<uint64_t>(most.count())))));
    };
    half(began.wall.time_since_epoch() - sequence * duration, siblings);
    const Freshness last{seen};
    if (siblings > known && !last.never() && !last.has_failed()) {
      half(began.mono - last.began(), siblings - known);
    }
  }
  if (extent == Extent::kBoth) {
    memory::record_last_read(tuple.cold->meta, began.mono);
  } else {
    const memory::TupleMeta meta{tuple.cold->meta.load(std::memory_order_relaxed)};
    fresh = std::min<Nanos>(fresh, most - Nanos(meta.last_read_ago(began.mono)));
  }
  const uint64_t until = Freshness::read(began.mono, std::max(fresh, Nanos(0))).word;
  // A read that began later has newer counts.
  while (Freshness{seen}.has_failed() || Freshness{seen}.never() ||
         Freshness{seen}.began() <= Freshness{until}.began()) {
    if (regions == OtherRegions::kAsBefore && Freshness{seen}.needs_regions()) return;
    if (cells.fresh_until().compare_exchange_weak(seen, until, std::memory_order_acq_rel,
                                                  std::memory_order_relaxed)) {
      return;
    }
  }
}

inline void note_failed_read(const memory::WindowCells& cells, MonoTime now) {
  uint64_t seen = cells.fresh_until().load(std::memory_order_relaxed);
  // A tuple that is still fresh stays fresh.
  while (!Freshness{seen}.lasts(now)) {
    if (cells.fresh_until().compare_exchange_weak(seen, Freshness::failed(now, {seen}).word,
                                                  std::memory_order_acq_rel,
                                                  std::memory_order_relaxed)) {
      return;
    }
  }
}

}  // namespace weir::regional
