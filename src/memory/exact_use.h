// What a process knows of a tuple whose whole state the origin keeps, and what it has admitted of
// it alone: gcra, token_bucket, sliding_window_strict and sliding_log.
//
//   hot[2]        generation of the tuple; it stays when the tuple is rebuilt for another rate
//   siblings[0]   own: the cost that this process has admitted without asking, in all
//   siblings[1]   acked: how much of it the origin has charged
//   foreign[0]    used: the cost that counted at the origin at its last answer
//   foreign[1]    fresh until, monotonic ns; 0: there was no answer yet
//   acked[0]      denied: bits 20-63 until when (monotonic ms), bits 0-19 the smallest cost
//   acked[1]      the remaining limit at the last answer, for denials; of a part, the whole limit
//   meta          bits 0-39 the capacity of the last answer, or of a part the whole capacity; bits
//                 40-43 taken, see conversion.h; bit 60 the tuple decides a part of its limit, bit
//                 61 other regions have admitted more than the origin may know, bit 62 strict, bit
//                 63 dirty
//
// An answer makes the tuple stale, writes `used` before `acked`, and makes it fresh again. Readers
// read them in the other order, and find it stale if an answer came meanwhile.
//
// Safe from any thread that holds an epoch guard; note_answer() one at a time for each tuple.

#pragma once

#include <algorithm>
#include <optional>

#include "base/wide.h"
#include "memory/slot.h"
#include "memory/tagged_word.h"

namespace weir::memory {

class ExactUse {
 public:
  explicit ExactUse(const Tuple& tuple) : slot_(*tuple.slot), cold_(*tuple.cold) {}

  [[nodiscard]] uint64_t generation() const { return slot_.hot[2].load(std::memory_order_relaxed); }

  struct Known {
    Count acked = 0;
    Count used = 0;
    Count capacity = 0;  // that `used` was told for
    bool strict = false;
    MonoTime fresh_until{};
  };
  [[nodiscard]] Known known() const {
    Known known;
    const uint64_t fresh = cold_.foreign[1].load(std::memory_order_acquire);
    known.acked = cold_.siblings[1].load(std::memory_order_acquire);
    known.used = cold_.foreign[0].load(std::memory_order_acquire);
    const uint64_t meta = cold_.meta.load(std::memory_order_acquire);
    known.capacity = meta & kCapacityMask;
    known.strict = (meta & kStrict) != 0;
    const bool changed = cold_.foreign[1].load(std::memory_order_acquire) != fresh;
    known.fresh_until = MonoTime(Nanos(changed ? 0 : static_cast<int64_t>(fresh)));
    return known;
  }

  [[nodiscard]] Count own() const { return cold_.siblings[0].load(std::memory_order_seq_cst); }
  [[nodiscard]] Count unreported() const {
    const Count acked = cold_.siblings[1].load(std::memory_order_acquire);
    return base::saturating_sub(own(), acked);
  }

  // Counts a cost that this process is about to admit alone. False: it would have admitted more
  // than `most` in all.
  [[nodiscard]] bool take(Count cost, Count most) const {
    Count own = cold_.siblings[0].load(std::memory_order_acquire);
    do {
      if (base::saturating_add(own, cost) > most) return false;
    } while (!cold_.siblings[0].compare_exchange_weak(own, own + cost, std::memory_order_seq_cst,
                                                      std::memory_order_acquire));
    return true;
  }
  void add(Count cost) const { cold_.siblings[0].fetch_add(cost, std::memory_order_seq_cst); }

  // An answer to a call that told `own`.
  struct Answer {
    Count own = 0;
    Count used = 0;
    Count capacity = 0;
    bool strict = false;
    MonoTime fresh_until{};
  };
  void note_answer(const Answer& answer) const {
    cold_.foreign[1].store(0, std::memory_order_seq_cst);
    // What was denied at another capacity says nothing about this one.
    cold_.acked[0].store(0, std::memory_order_seq_cst);
    cold_.foreign[0].store(answer.used, std::memory_order_release);
    raise_number(cold_.siblings[1], answer.own);
    uint64_t meta = cold_.meta.load(std::memory_order_relaxed);
    const uint64_t noted = std::min(answer.capacity, kCapacityMask) | (answer.strict ? kStrict : 0);
    while (!cold_.meta.compare_exchange_weak(
        meta, (meta & kKept) | noted, std::memory_order_release, std::memory_order_relaxed)) {
    }
    cold_.foreign[1].store(static_cast<uint64_t>(answer.fresh_until.time_since_epoch().count()),
                           std::memory_order_release);
  }

  // The origin has charged what a call told, at a rate that the tuple does not have any more.
  void note_told(Count own) const { raise_number(cold_.siblings[1], own); }

  // The tuple decides a part of its limit until an answer: the origin must be told the whole.
  // Before the tuple is published.
  void begin_part(const Query::Whole& whole) const {
    cold_.acked[1].store(whole.limit, std::memory_order_relaxed);
    cold_.meta.fetch_or(std::min(whole.capacity, kCapacityMask) | kPart, std::memory_order_relaxed);
  }
  // The capacity of what this process admits without any answer so far.
  void note_capacity(Count capacity) const {
    uint64_t meta = cold_.meta.load(std::memory_order_relaxed);
    while ((meta & kCapacityMask) == 0 &&
           !cold_.meta.compare_exchange_weak(meta, meta | std::min(capacity, kCapacityMask),
                                             std::memory_order_release,
                                             std::memory_order_relaxed)) {
    }
  }
  [[nodiscard]] std::optional<Query::Whole> whole() const {
    const uint64_t meta = cold_.meta.load(std::memory_order_acquire);
    if ((meta & kPart) == 0) return std::nullopt;
    return Query::Whole{.limit = cold_.acked[1].load(std::memory_order_acquire),
                        .capacity = meta & kCapacityMask};
  }

  // A denial of the origin: no request of this cost or more passes before `until`.
  struct Denial {
    MonoTime until{};
    Count cost = 0;
    Count remaining = 0;
  };
  void note_denial(const Denial& denial) const {
    if (denial.cost > kCostMask) return;
    cold_.acked[1].store(denial.remaining, std::memory_order_release);
    cold_.acked[0].store(millis(denial.until) << kCostBits | denial.cost,
                         std::memory_order_release);
  }
  [[nodiscard]] Denial denial() const {
    const uint64_t word = cold_.acked[0].load(std::memory_order_acquire);
    return {.until = MonoTime(Millis(static_cast<int64_t>(word >> kCostBits))),
            .cost = word & kCostMask,
            .remaining = cold_.acked[1].load(std::memory_order_acquire)};
  }

  // As in window_cells.h.
  [[nodiscard]] bool mark_dirty() const {
    return (cold_.meta.fetch_or(kDirty, std::memory_order_acq_rel) & kDirty) == 0;
  }
  void mark_clean() const { cold_.meta.fetch_and(~kDirty, std::memory_order_seq_cst); }
  void mark_foreign() const { cold_.meta.fetch_or(kForeign, std::memory_order_acq_rel); }
  [[nodiscard]] bool has_foreign_news() const {
    return (cold_.meta.load(std::memory_order_acquire) & kForeign) != 0;
  }
  // Before the counts of other regions are read.
  void take_foreign() const { cold_.meta.fetch_and(~kForeign, std::memory_order_seq_cst); }

  // Before the tuple is published: as the tuple that it replaces, but nothing is known of the rate.
  void begin(uint64_t generation) const {
    slot_.hot[2].store(generation, std::memory_order_relaxed);
    cold_.meta.store(0, std::memory_order_relaxed);
  }
  void continue_from(const ExactUse& before) const {
    begin(before.generation());
    cold_.meta.store(before.cold_.meta.load(std::memory_order_acquire) & kTakenMask,
                     std::memory_order_relaxed);
    if (before.has_foreign_news()) mark_foreign();
    cold_.siblings[1].store(before.cold_.siblings[1].load(std::memory_order_acquire),
                            std::memory_order_relaxed);
    cold_.siblings[0].store(before.own(), std::memory_order_relaxed);
  }

  static constexpr int kTakenShift = 40;

 private:
  static constexpr uint64_t kCapacityMask = (uint64_t{1} << 40) - 1;
  static constexpr uint64_t kTakenMask = uint64_t{15} << kTakenShift;
  static constexpr uint64_t kPart = uint64_t{1} << 60;
  static constexpr uint64_t kForeign = uint64_t{1} << 61;
  static constexpr uint64_t kStrict = uint64_t{1} << 62;
  static constexpr uint64_t kDirty = uint64_t{1} << 63;
  static constexpr uint64_t kKept = kDirty | kForeign | kTakenMask;  // by an answer
  static constexpr int kCostBits = 20;
  static constexpr uint64_t kCostMask = (uint64_t{1} << kCostBits) - 1;

  [[nodiscard]] static uint64_t millis(MonoTime time) {
    return static_cast<uint64_t>(time.time_since_epoch() / Millis(1));
  }

  Slot& slot_;
  Cold& cold_;
};

}  // namespace weir::memory
