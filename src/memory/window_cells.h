// The window class: counts of two adjacent windows, for fixed_window and sliding_window.
//
// Every admission of the process changes these words, so nothing in this file waits: a request is
// either charged or denied. Counts received from other nodes are stored next to the own counts and
// never added to them, because a node must only report its own counts.
//
//   hot[0]     newest: the sequence of the newest window seen, in full
//   hot[1,2]   own, by parity of the sequence
//   hot[3,4]   others = siblings + foreign, by parity; the two parts are in the cold line
//   hot[5]     freshness: until when no read is needed; see regional/freshness.h
//   hot[6]     told: the own count at the last read of the origin, and its refusals; closed: the
//              tuple is strict
//   hot[7]     watch: the generation, and the triggers of background work; see tuple_watch.h
//
// Invariants
// 1. The own word of window n accepts charges only while n is the newest window: a thread closes
//    the word of window n before it charges window n + 1, even if window n has no charges. So the
//    previous count in a decision is final, and two threads on two sides of a boundary cannot both
//    use the same remaining capacity.
// 2. The time of a tuple does not run backwards: a request from before the newest window is decided
//    at the start of that window. A request from more than a window before means that the clock was
//    set back, and the tuple is rebuilt empty.
// 3. A word never changes to an older window: a thread that was suspended after it read `newest`
//    finds words of later windows and retries.
//
// Safe from any thread that holds an epoch guard.

#pragma once

#include <optional>

#include "algorithms/windows.h"
#include "base/inline.h"
#include "memory/slot.h"
#include "memory/tentative.h"
#include "memory/tuple_watch.h"

namespace weir::memory {

class WindowCells {
 public:
  explicit WindowCells(const Tuple& tuple) : slot_(*tuple.slot), cold_(*tuple.cold) {}

  [[nodiscard]] int64_t newest() const {
    return static_cast<int64_t>(slot_.hot[0].load(std::memory_order_relaxed));
  }
  [[nodiscard]] Word& own(int64_t sequence) const { return slot_.hot[1 + (sequence & 1)]; }
  [[nodiscard]] Word& others(int64_t sequence) const { return slot_.hot[3 + (sequence & 1)]; }
  [[nodiscard]] Word& siblings(int64_t sequence) const { return cold_.siblings[sequence & 1]; }
  [[nodiscard]] Word& foreign(int64_t sequence) const { return cold_.foreign[sequence & 1]; }
  [[nodiscard]] Word& acked(int64_t sequence) const { return cold_.acked[sequence & 1]; }
  [[nodiscard]] Word& fresh_until() const { return slot_.hot[5]; }
  [[nodiscard]] Word& tentative() const { return cold_.tentative; }

  // What the origin knew at the last read. Later admissions of this process are its alone.
  struct Told {
    Count own = 0;
    bool refused = false;  // the origin has refused a request in this window
    bool strict = false;   // in this window or the last one
    bool noted = false;    // false: this window was not read yet
  };
  // Whether the origin has refused a request.
  struct Refusals {
    bool current = false;
    bool last = false;  // in the last window
  };
  [[nodiscard]] Told told(int64_t sequence) const;
  // Records a read of this window that began when the own count was `own`. `strict`: whether the
  // origin refused a request in this window or the last one; none: it did not say.
  void note_told(int64_t sequence, Count own, std::optional<Refusals> refusals) const;

  [[nodiscard]] TupleWatch watch() const { return {slot_.hot[7].load(std::memory_order_relaxed)}; }
  [[nodiscard]] uint64_t generation() const { return watch().generation(); }
  // For a caller that has just charged or merged a count, which is sequentially consistent: if this
  // returns dirty, the thread that marks the tuple clean does so later and sees the charge; if it
  // returns the old threshold, the thread that changes it does so later and sees the count.
  [[nodiscard]] TupleWatch watch_seq_cst() const {
    return {slot_.hot[7].load(std::memory_order_seq_cst)};
  }
  // True for the one caller that changed it from clean to dirty. Always a read-modify-write without
  // a load before it: of two such operations on one word one comes later, so either a replay that
  // marks the tuple clean sees the count charged before this call, or this call sees clean.
  [[nodiscard]] bool mark_dirty() const {
    return (slot_.hot[7].fetch_or(TupleWatch::kDirty, std::memory_order_acq_rel) &
            TupleWatch::kDirty) == 0;
  }
  void mark_clean() const {
    slot_.hot[7].fetch_and(~TupleWatch::kDirty, std::memory_order_seq_cst);
  }

  // If the bit is set already, the thread that clears it does so later.
  void mark_denied() const {
    if (!watch_seq_cst().denied())
      slot_.hot[7].fetch_or(TupleWatch::kDenied, std::memory_order_seq_cst);
  }
  // Whether a request was denied since the last call.
  [[nodiscard]] bool take_denied() const {
    return TupleWatch{slot_.hot[7].fetch_and(~TupleWatch::kDenied, std::memory_order_seq_cst)}
        .denied();
  }
  // The triggers of the publish rule: see tuple_watch.h.
  void watch_count(Count count) const {
    update_watch(TupleWatch::kCodeMask, Rounded::code_of(count));
  }
  void watch_limit(Count limit) const {
    update_watch(TupleWatch::kCodeMask << TupleWatch::kLimitShift, Rounded::code_of(limit)
                                                                       << TupleWatch::kLimitShift);
  }
  // For a new window: the next charge triggers the rule.
  void reset_watch(Count limit) const {
    update_watch(TupleWatch::kWatchMask, Rounded::code_of(limit) << TupleWatch::kLimitShift);
  }
  // The count of this window, own and others. After a change of the watch word it includes every
  // charge of a thread that saw the old word.
  [[nodiscard]] Count counted_seq_cst(int64_t sequence) const {
    return count_in_seq_cst(own(sequence), sequence) + count_in_seq_cst(others(sequence), sequence);
  }

  // Whether a cell has counts that the origin has not acknowledged, of any window.
  [[nodiscard]] bool has_unacked(int64_t sequence) const {
    const Tagged own{this->own(sequence).load(std::memory_order_seq_cst)};
    const Tagged acked{this->acked(sequence).load(std::memory_order_acquire)};
    if (own.word == kFrozen) return false;
    return own.count() > (own.tag() == acked.tag() ? acked.count() : 0);
  }

  // Whether the query can be charged to this state; if not, rebuild. A peek is always possible.
  [[nodiscard]] bool fits(const Query& query) const {
    return within_reach(algorithms::position_of(query.now, query.duration).sequence);
  }

  // Decides, and for Effect::kConsume charges an admitted request. Writes `result` field by field:
  // a copy of a struct whose fields were just written costs more than the decision.
  void decide(const Query& query, Effect effect, CellDecision& result) const;
  [[nodiscard]] CellDecision decide(const Query& query, Effect effect) const;  // not inlined

  // Splits the counts of others into siblings and foreign.
  void split_others(int64_t sequence, Count others, Evidence& evidence) const;

  // Refunds the charge of a batch; does nothing if the words no longer belong to that window.
  void refund(int64_t sequence, Count cost) const;

  // Merges counts from the origin or the ledger by max. A window newer than `newest` becomes the
  // newest. Returns whether a count changed.
  bool raise_siblings(int64_t sequence, Count count) const;
  bool raise_foreign(int64_t sequence, Count count) const;
  // Whether words can belong to this window, by its full sequence: their tags alone would also
  // match a window 2^19 earlier, of a tuple without requests since then.
  [[nodiscard]] bool in_tag_range(int64_t sequence) const {
    const int64_t ahead = sequence - newest();
    return -kTagReach < ahead && ahead < kTagReach;
  }
  // A request will be charged in that window: the tuple must not expire before.
  void extend_to(int64_t sequence) const {
    if (within_reach(sequence)) advance(sequence);
  }

 private:
  [[nodiscard]] bool within_reach(int64_t sequence) const {
    const int64_t newest = this->newest();
    return newest <= sequence + 1 && sequence - newest < kTagReach;
  }
  // Whether a word belongs to this window or a later one.
  [[nodiscard]] static bool reaches(uint64_t word, int64_t sequence) {
    return word != 0 && Tagged{word}.ahead_of(sequence) >= 0;
  }
  [[nodiscard]] static CellDecision unused(const algorithms::Position& at, const Query& query) {
    return {.decision = algorithms::decide_fixed(at, {}, query.ask), .sequence = at.sequence};
  }
  void advance(int64_t sequence) const {
    const int64_t newest = this->newest();
    if (sequence <= newest) return;
    if (enters_another_block(newest, sequence)) [[unlikely]]
      clear_old_words(newest);
    raise_number(slot_.hot[0], static_cast<uint64_t>(sequence));
  }
  void clear_old_words(int64_t newest) const;
  // Whether counts of this window can be merged: not too old, and not so new that the tuple must be
  // rebuilt first.
  [[nodiscard]] bool accepts_counts_of(int64_t sequence) const {
    const int64_t ahead = sequence - newest();
    return ahead >= -1 && ahead < kTagReach;
  }
  void raise_others(int64_t sequence) const;
  void update_watch(uint64_t mask, uint64_t bits) const {
    uint64_t seen = slot_.hot[7].load(std::memory_order_relaxed);
    while (!slot_.hot[7].compare_exchange_weak(
        seen, (seen & ~mask) | bits, std::memory_order_seq_cst, std::memory_order_relaxed)) {
    }
  }
  [[nodiscard]] bool close(int64_t sequence, uint64_t& word) const;
  static void apply_own_bound(Count own_remaining, const Query& query,
                              algorithms::Decision& decision);

  Slot& slot_;
  Cold& cold_;
};

WEIR_HOT_INLINE void WindowCells::decide(const Query& query, Effect effect,
                                         CellDecision& result) const {
  const bool consumes = effect == Effect::kConsume && query.ask.cost > 0;
  const bool sliding = query.algorithm == Algorithm::kSlidingWindow;
  // Loads are relaxed: each word contains the tag of its window, and the invariants between words
  // depend on the closed bit, which is in the word that it closes. The charge is sequentially
  // consistent: the caller reads the watch word next (watch_seq_cst), and a thread that freezes the
  // slot sees the tentative cost of a batch that charged before (freeze).
  // A failed iteration means that another request was admitted or a new window began; the former
  // can happen at most `capacity` times before this loop ends in a denial.
  for (;;) {
    const int64_t newest = this->newest();
    algorithms::Position at{.sequence = newest,
                            .offset = query.now.time_since_epoch() - newest * query.duration,
                            .width = query.duration};
    // Nearly always `now` is in the newest window; that check needs no division.
    const bool in_newest =
        static_cast<uint64_t>(at.offset.count()) < static_cast<uint64_t>(at.width.count());
    if (!in_newest) [[unlikely]] {
      at = algorithms::position_of(query.now, query.duration);
      if (!within_reach(at.sequence)) {
        result.status = DecisionStatus::kRebuild;
        if (!consumes) result = unused(at, query);
        return;
      }
      if (newest > at.sequence) {
        at = {.sequence = newest, .offset = Millis(0), .width = query.duration};
      } else if (consumes) {
        advance(at.sequence);
      }
    }
    const int64_t sequence = at.sequence;

    const uint64_t tag = tag_bits(sequence);
    const uint64_t last_tag = tag_bits(sequence - 1);
    uint64_t own_word = own(sequence).load(std::memory_order_relaxed);
    uint64_t last_word = own(sequence - 1).load(std::memory_order_relaxed);
    if (own_word == kFrozen || last_word == kFrozen) [[unlikely]] {
      result.status = DecisionStatus::kRetry;
      return;
    }
    // Words of later windows, or a closed word of this one, mean that `newest` was read too early.
    if ((own_word ^ tag) > kCountMask && reaches(own_word, sequence)) [[unlikely]]
      continue;
    if (((last_word & ~kClosedBit) ^ last_tag) > kCountMask && reaches(last_word, sequence))
        [[unlikely]] {
      continue;
    }
    if (consumes && (last_word ^ last_tag) - kClosedBit > kCountMask) [[unlikely]] {
      if (!close(sequence - 1, last_word)) continue;
    }
    const Count own_count = open_count(own_word, tag);
    const Count others_count = open_count(others(sequence).load(std::memory_order_relaxed), tag);
    const Count others_last =
        open_count(others(sequence - 1).load(std::memory_order_relaxed), last_tag);
    const algorithms::WindowCounts counts{
        .current = own_count + others_count,
        .previous = open_count(last_word & ~kClosedBit, last_tag) + others_last};

    const Count carried = sliding ? algorithms::carried_over(at, counts.previous) : 0;
    const Count all = counts.current + carried;
    const Count used = mutated(Mutation::kOneTooMany) && all > 0 ? all - 1 : all;
    bool admitted = used + query.ask.cost <= query.ask.capacity;
    Count own_remaining = OwnBound::kNone;
    if (query.bound.is_set()) [[unlikely]] {
      own_remaining =
          query.bound.sequence == sequence ? base::saturating_sub(query.bound.most, own_count) : 0;
      admitted = admitted && query.ask.cost <= own_remaining;
    }
    if (consumes && (admitted || mutated(Mutation::kRejectedConsumes))) {
      const uint64_t charged = tag | (own_count + query.ask.cost);
      if (!own(sequence).compare_exchange_weak(own_word, charged, std::memory_order_seq_cst,
                                               std::memory_order_relaxed)) {
        back_off();
        continue;
      }
    }
    result.status = DecisionStatus::kDecided;
    result.sequence = sequence;
    algorithms::decide_window(at, used, query.ask, result.decision);
    if (!admitted && result.decision.outcome == Outcome::kDenied) {
      result.decision.retry_at =
          sliding ? algorithms::sliding_retry_at(at, counts, query.ask) : at.end();
    }
    if (query.bound.is_set()) [[unlikely]]
      apply_own_bound(own_remaining, query, result.decision);
    result.evidence.own = own_count;
    result.evidence.previous = carried;
    split_others(sequence, others_count, result.evidence);
    return;
  }
}

inline void WindowCells::split_others(int64_t sequence, Count others, Evidence& evidence) const {
  const Count received = others == 0 ? 0 : count_in(siblings(sequence), sequence);
  evidence.siblings = received < others ? received : others;
  evidence.foreign = others - evidence.siblings;
}

}  // namespace weir::memory
