// What other regions have admitted of a tuple, charged to its state in a process without an origin:
// gcra, token_bucket, sliding_window_strict, sliding_log.
//
// The usage tuple (usage_key.h) has the counts of the other regions. Each increase is charged once.
// How much of a window was charged is stored in the usage tuple, too, because it outlives the
// charged tuple. It is in the words of the acknowledged counts, of which there are none without an
// origin; each in the place of the other window, so that its tag never matches that of the own
// count, and the tuple never seems acknowledged.
//
// Safe from any thread that holds an epoch guard.

#pragma once

#include <cstdint>

#include "memory/slot.h"
#include "memory/tagged_word.h"

namespace weir::memory {

class ForeignCharge {
 public:
  explicit ForeignCharge(const Tuple& usage) : cold_(*usage.cold) {}

  struct Claim {
    Count current = 0;
    Count last = 0;
    bool first = false;  // nothing was claimed in this window or the last one before

    [[nodiscard]] Count units() const { return current + last; }
  };
  [[nodiscard]] bool is_first(int64_t sequence) const {
    return !is_noted(sequence) && !is_noted(sequence - 1);
  }
  // The part of these counts that was not claimed yet. The caller charges it, or gives back what it
  // does not charge.
  [[nodiscard]] Claim claim(int64_t sequence, Count current, Count last) const;
  void give_back(int64_t sequence, const Claim& claim, Count units) const;

 private:
  // Bit 63 of a word tells a count of 0 from no count.
  static constexpr uint64_t kNoted = kClosedBit;

  [[nodiscard]] Word& charged(int64_t sequence) const { return cold_.acked[(sequence + 1) & 1]; }
  [[nodiscard]] bool is_noted(int64_t sequence) const;
  [[nodiscard]] Count raise(int64_t sequence, Count count) const;
  void lower(int64_t sequence, Count units) const;

  Cold& cold_;
};

// Charges so many units at the time of the query, whether they fit or not. kRetry: nothing was
// charged, find the tuple again; kRebuild: the same, rebuild it first.
[[nodiscard]] DecisionStatus charge_all(const Tuple& tuple, const Query& query, Count units);

}  // namespace weir::memory
