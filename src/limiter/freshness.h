// When the origin must be read before a decision, and how long a read is good for.
//
// hot[5] of a window tuple:
//
//   bits 24-63  until (monotonic ms): before, no read is tried
//   bits 1-23   by how much that is later than the read (ms)
//   bit 0       the last read failed: nothing is fresh, but the origin is left alone till then
//
// A failed read makes nothing fresh. A read is good for a while, and for less where the others,
// at the pace they were seen to have, could use half of what remains before that. Where telling
// fails for as long as a read is good for, the origin counts as lost, though it answers reads.

#pragma once

#include <algorithm>
#include <optional>

#include "base/wide.h"
#include "memory/lifecycle.h"
#include "memory/tuple_meta.h"
#include "memory/window_cells.h"
#include "weir/time.h"

namespace weir::limiter {

// After a failed read the origin is not asked again for the same tuple before this.
inline constexpr Millis kReadPause{300};

enum class ReadRequirement : uint8_t {
  kNothing,  // fresh
  kRefused,  // what is known refuses already, and counts only grow
  kCold,     // never read
  kStale,
  kStrict,   // denied a short while ago: only this window still grows
  kDegrade,  // a read is due, but the last one failed just now, or the next would
};

[[nodiscard]] inline bool is_read(ReadRequirement requirement) {
  return requirement == ReadRequirement::kCold || requirement == ReadRequirement::kStale ||
         requirement == ReadRequirement::kStrict;
}

// How well informed a decision is that is taken without the read it would need.
[[nodiscard]] inline Basis basis_without_reading(ReadRequirement requirement) {
  return requirement == ReadRequirement::kNothing || requirement == ReadRequirement::kRefused
             ? Basis::kLocal
             : Basis::kDegraded;
}

[[nodiscard]] inline Nanos fresh_for(Millis duration, Millis longest) {
  return std::min<Nanos>(longest, Nanos(duration) / 10);
}

// How long a read that begins now may be good for. While this process cannot tell what it accepts,
// neither can the others: what is read then is as old as the first message that failed.
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
  [[nodiscard]] static Freshness read(MonoTime began, Nanos good_for) {
    const auto span = static_cast<uint64_t>(good_for / Millis(1));
    return {(millis(began) + span) << kUntilShift | (span & kSpanMask) << 1};
  }
  [[nodiscard]] static Freshness failed(MonoTime now) {
    return {millis(now + kReadPause) << kUntilShift | 1};
  }

  [[nodiscard]] bool never() const { return word == 0; }
  [[nodiscard]] bool has_failed() const { return (word & 1) != 0; }
  [[nodiscard]] bool lasts(MonoTime now) const { return millis(now) < word >> kUntilShift; }
  [[nodiscard]] bool is_fresh(MonoTime now) const { return lasts(now) && !has_failed(); }
  // When the read began that it speaks of; only of one that did not fail.
  [[nodiscard]] MonoTime began() const {
    const uint64_t at = (word >> kUntilShift) - (word >> 1 & kSpanMask);
    return MonoTime(Millis(static_cast<int64_t>(at)));
  }
};

[[nodiscard]] inline Freshness freshness_of(const memory::WindowCells& cells) {
  return {cells.fresh_until().load(std::memory_order_acquire)};
}

[[nodiscard]] inline uint64_t ticks(MonoTime time) {
  return static_cast<uint64_t>(time.time_since_epoch().count());
}

// What reads are good for, whoever makes them.
struct ReadRules {
  Millis longest{0};
  bool available = true;  // the origin would answer in time
};

// A fixed window was empty when it began, and the last one does not matter to it: a tuple that
// was read in the last window is as good as read at the start of this one.
[[nodiscard]] inline bool fresh_from_start(const memory::WindowCells& cells,
                                           const memory::Query& query, Millis longest) {
  if (query.algorithm != Algorithm::kFixedWindow) return false;
  const algorithms::Position at = algorithms::position_of(query.now, query.duration);
  if (!cells.in_tag_range(at.sequence - 1)) return false;
  const memory::Tagged last{cells.siblings(at.sequence - 1).load(std::memory_order_acquire)};
  if (last.word == 0 || !last.is_of(at.sequence - 1)) return false;
  Nanos good = fresh_for(query.duration, longest);
  if (last.count() > 0) {
    const auto width = static_cast<uint64_t>(Nanos(query.duration).count());
    const uint64_t half = base::mul_div(query.limit, width, 2 * last.count());
    good = std::min(good, Nanos(static_cast<int64_t>(std::min(half, width))));
  }
  return Nanos(at.offset) < good;
}

[[nodiscard]] inline ReadRequirement read_requirement(const memory::WindowCells& cells,
                                                      const memory::Query& query, MonoTime now,
                                                      const ReadRules& rules) {
  const Freshness fresh = freshness_of(cells);
  if (fresh.lasts(now)) {
    if (fresh.has_failed()) return ReadRequirement::kDegrade;
  } else if (!fresh_from_start(cells, query, rules.longest)) {
    if (!rules.available) return ReadRequirement::kDegrade;
    return fresh.never() ? ReadRequirement::kCold : ReadRequirement::kStale;
  }
  if (ticks(now) >= cells.strict_until().load(std::memory_order_acquire))
    return ReadRequirement::kNothing;
  return rules.available ? ReadRequirement::kStrict : ReadRequirement::kDegrade;
}

// Whether the last window was read so lately, and since it ended, that a message about this
// window need not ask for it too.
[[nodiscard]] inline bool knows_last_window(const memory::Tuple& tuple, int64_t sequence,
                                            Instant now, Millis longest) {
  if (!freshness_of(memory::WindowCells(tuple)).is_fresh(now.mono)) return false;
  const Millis duration = tuple.slot->header.duration();
  const memory::TupleMeta meta{tuple.cold->meta.load(std::memory_order_relaxed)};
  const Millis ago = meta.last_read_ago(now.mono);
  const Millis into_window = now.wall.time_since_epoch() - sequence * duration;
  return ago < into_window && ago < fresh_for(duration, longest) / 2;
}

// How much of what is read. A read of this window alone is good for no longer than what is
// known of the last one.
enum class Extent : uint8_t { kBoth, kCurrent };

// A read of a window that began at `began` has come back whole and was merged; before that,
// the siblings were known to have `known`.
inline void note_read(const memory::Tuple& tuple, int64_t sequence, Instant began, Extent extent,
                      Count known, Millis longest) {
  const memory::WindowCells cells(tuple);
  const Millis duration = tuple.slot->header.duration();
  const Nanos most = fresh_for(duration, longest);
  uint64_t seen = cells.fresh_until().load(std::memory_order_acquire);
  Nanos good = most;
  const memory::Tagged word{cells.siblings(sequence).load(std::memory_order_acquire)};
  if (const Count siblings = word.count_of(sequence); siblings > 0) {
    const Count remaining = memory::remaining_of(tuple, began.wall);
    const auto half = [&](Nanos time, Count used) {
      const auto span = static_cast<uint64_t>(std::max<int64_t>(time.count(), 1));
      const uint64_t nanos = base::mul_div(remaining, span, 2 * used);
      good = std::min(
          good, Nanos(static_cast<int64_t>(std::min(nanos, static_cast<uint64_t>(most.count())))));
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
    good = std::min<Nanos>(good, most - Nanos(meta.last_read_ago(began.mono)));
  }
  const uint64_t until = Freshness::read(began.mono, std::max(good, Nanos(0))).word;
  // One that began later knows more.
  while (Freshness{seen}.has_failed() || Freshness{seen}.never() ||
         Freshness{seen}.began() <= Freshness{until}.began()) {
    if (cells.fresh_until().compare_exchange_weak(seen, until, std::memory_order_acq_rel,
                                                  std::memory_order_relaxed)) {
      return;
    }
  }
}

inline void note_failed_read(const memory::WindowCells& cells, MonoTime now) {
  uint64_t seen = cells.fresh_until().load(std::memory_order_relaxed);
  // What is still fresh stays so.
  while (!Freshness{seen}.lasts(now)) {
    if (cells.fresh_until().compare_exchange_weak(seen, Freshness::failed(now).word,
                                                  std::memory_order_acq_rel,
                                                  std::memory_order_relaxed)) {
      return;
    }
  }
}

}  // namespace weir::limiter
