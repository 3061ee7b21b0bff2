// The window class: counts of two neighbouring windows, for fixed_window and
// sliding_window.
//
// Every admission in the process meets here, so nothing in this file waits: an admit
// either lands or reports that the limit is full. Counts heard from others are kept
// beside ours and never added in, because what we tell must be ours.
//
//   hot[0]     newest: the sequence of the newest window seen, whole
//   hot[1,2]   own, by parity of the sequence
//   hot[3,4]   others = siblings + foreign, by parity; their parts are in the cold line
//   hot[5]     freshness: until when no read is needed; limiter/freshness.h knows its parts
//   hot[6]     strict until (monotonic ns): before, a read is needed whatever hot[5] says
//   hot[7]     mark: the generation, and what the tuple is to be looked at for; see mark.h
//
// Invariants
// 1. An own word of window n takes admissions only while n is the newest window: who
//    charges window n + 1 first closes the word of window n, be it that nothing was charged
//    there yet. So the previous count a decision weighs is final, and two threads on two sides
//    of a boundary cannot both use the same room.
// 2. A tuple's time does not run back: a request from before the newest window is
//    decided at that window's start. One from more than a window before it means that
//    the clock was set back, and the tuple is begun anew.
// 3. A word is never given to an older window than the one it holds: a thread that slept
//    after it read `newest` finds words of later windows and looks again.
//
// Safe from any thread that is pinned.

#pragma once

#include "algorithms/windows.h"
#include "base/inline.h"
#include "memory/mark.h"
#include "memory/slot.h"
#include "memory/tentative.h"

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
  [[nodiscard]] Word& strict_until() const { return slot_.hot[6]; }
  [[nodiscard]] Word& tentative() const { return cold_.tentative; }

  [[nodiscard]] TupleWatch watch() const { return {slot_.hot[7].load(std::memory_order_relaxed)}; }
  [[nodiscard]] uint64_t generation() const { return watch().generation(); }
  // After a charge or news, both of which are sequentially consistent, what they have to go by: if
  // this finds the tuple dirty, whoever marks it clean does so later and sees the charge; if it
  // finds what was watched before, whoever changes that does so later and sees the count.
  [[nodiscard]] TupleWatch watch_in_order() const {
    return {slot_.hot[7].load(std::memory_order_seq_cst)};
  }
  // True for the one caller that found it clean. Always a read-modify-write, not a look
  // first: of two on the same word one comes later, so either a replay that marks the
  // tuple clean sees the count charged before this, or this sees that it is clean.
  [[nodiscard]] bool mark_dirty() const {
    return (slot_.hot[7].fetch_or(TupleWatch::kDirty, std::memory_order_acq_rel) &
            TupleWatch::kDirty) == 0;
  }
  void mark_clean() const {
    slot_.hot[7].fetch_and(~TupleWatch::kDirty, std::memory_order_seq_cst);
  }

  // If it is marked already, whoever takes the mark does so later.
  void mark_refused() const {
    if (!watch_in_order().refused())
      slot_.hot[7].fetch_or(TupleWatch::kRefused, std::memory_order_seq_cst);
  }
  // Whether something was refused since this was last asked.
  [[nodiscard]] bool take_refused() const {
    return TupleWatch{slot_.hot[7].fetch_and(~TupleWatch::kRefused, std::memory_order_seq_cst)}
        .refused();
  }
  // What the publish rule is looked at for: see mark.h.
  void watch_count(Count count) const {
    change_mark(TupleWatch::kCodeMask, Rounded::code_of(count));
  }
  void watch_limit(Count limit) const {
    change_mark(TupleWatch::kCodeMask << TupleWatch::kLimitShift, Rounded::code_of(limit)
                                                                      << TupleWatch::kLimitShift);
  }
  // A new window: everything is to be looked at.
  void watch_anew(Count limit) const {
    change_mark(TupleWatch::kWatchMask, Rounded::code_of(limit) << TupleWatch::kLimitShift);
  }
  // What this window has now, of whomever; after a change of the mark, all that was counted by who
  // saw it unchanged.
  [[nodiscard]] Count counted_in_order(int64_t sequence) const {
    return count_in_order(own(sequence), sequence) + count_in_order(others(sequence), sequence);
  }

  // Whether a cell has something that the origin was not told, of whatever window it is.
  [[nodiscard]] bool has_unacked(int64_t sequence) const {
    const Tagged own{this->own(sequence).load(std::memory_order_seq_cst)};
    const Tagged acked{this->acked(sequence).load(std::memory_order_acquire)};
    if (own.word == kGone) return false;
    return own.count() > (own.tag() == acked.tag() ? acked.count() : 0);
  }

  // Whether a request at this time can be charged here; if not, rebuild. Looking is
  // always possible.
  [[nodiscard]] bool fits(const Query& query) const {
    return within_reach(algorithms::position_of(query.now, query.duration).sequence);
  }

  // Decides, and for Effect::kConsume charges what it admits. Writes into `step` field by
  // field: copying a struct whose fields were just written costs more than the decision.
  void decide(const Query& query, Effect effect, CellDecision& step) const;
  [[nodiscard]] CellDecision decide(const Query& query, Effect effect) const;  // the same, apart

  // Whose the counts of others are.
  void split_others(int64_t sequence, Count others, Evidence& evidence) const;

  // Takes back what a batch charged; nothing, if that window is long over.
  void take_back(int64_t sequence, Count cost) const;

  // News from the origin or the ledger, merged by max. A window newer than any seen
  // here becomes the newest. Returns whether it was news.
  bool raise_siblings(int64_t sequence, Count count) const;
  bool raise_foreign(int64_t sequence, Count count) const;
  // Whether words can be of this window, by its whole sequence: their tags alone would also match
  // one 2^19 windows earlier, of a tuple that nobody has asked for since.
  [[nodiscard]] bool can_know(int64_t sequence) const {
    const int64_t ahead = sequence - newest();
    return -kTagReach < ahead && ahead < kTagReach;
  }
  // Someone will charge in that window: until then the tuple is not over.
  void expect(int64_t sequence) const {
    if (within_reach(sequence)) advance(sequence);
  }

 private:
  [[nodiscard]] bool within_reach(int64_t sequence) const {
    const int64_t newest = this->newest();
    return newest <= sequence + 1 && sequence - newest < kTagReach;
  }
  // Whether a word is of this window or a later one.
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
      forget_old_words(newest);
    raise_number(slot_.hot[0], static_cast<uint64_t>(sequence));
  }
  void forget_old_words(int64_t newest) const;
  // Whether news of this window can be kept: not too old, and not so new that the words here must
  // be begun anew first.
  [[nodiscard]] bool takes_news_of(int64_t sequence) const {
    const int64_t ahead = sequence - newest();
    return ahead >= -1 && ahead < kTagReach;
  }
  void raise_others(int64_t sequence) const;
  void change_mark(uint64_t mask, uint64_t bits) const {
    uint64_t seen = slot_.hot[7].load(std::memory_order_relaxed);
    while (!slot_.hot[7].compare_exchange_weak(
        seen, (seen & ~mask) | bits, std::memory_order_seq_cst, std::memory_order_relaxed)) {
    }
  }
  [[nodiscard]] bool close(int64_t sequence, uint64_t& word) const;
  static void keep_within(Count own_room, const Query& query, algorithms::Decision& decision);

  Slot& slot_;
  Cold& cold_;
};

WEIR_HOT_INLINE void WindowCells::decide(const Query& query, Effect effect,
                                         CellDecision& step) const {
  const bool consumes = effect == Effect::kConsume && query.ask.cost > 0;
  const bool sliding = query.algorithm == Algorithm::kSlidingWindow;
  // Loads are relaxed: each word carries the window it speaks of, and what must hold
  // between words rests on the closed bit, which is in the word it closes. The charge is
  // sequentially consistent: the mark is looked at next (mark_in_order), and who takes the slot
  // away sees the tentative cost of a batch that charged before (freeze).
  // A failed turn means that another admission landed or the window moved on; the first
  // can happen at most `capacity` times before this loop ends in a denial.
  for (;;) {
    const int64_t newest = this->newest();
    algorithms::Position at{.sequence = newest,
                            .offset = query.now.time_since_epoch() - newest * query.duration,
                            .width = query.duration};
    // Nearly always now lies in the newest window, and no division is needed to see it.
    const bool in_newest =
        static_cast<uint64_t>(at.offset.count()) < static_cast<uint64_t>(at.width.count());
    if (!in_newest) [[unlikely]] {
      at = algorithms::position_of(query.now, query.duration);
      if (!within_reach(at.sequence)) {
        step.status = DecisionStatus::kRebuild;
        if (!consumes) step = unused(at, query);
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
    if (own_word == kGone || last_word == kGone) [[unlikely]] {
      step.status = DecisionStatus::kRetry;
      return;
    }
    // Words of later windows, or a closed one of this, mean that `newest` was read too early.
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
    Count own_room = OwnBound::kNone;
    if (query.bound.holds()) [[unlikely]] {
      own_room =
          query.bound.sequence == sequence ? base::saturating_sub(query.bound.most, own_count) : 0;
      admitted = admitted && query.ask.cost <= own_room;
    }
    if (consumes && (admitted || mutated(Mutation::kRejectedConsumes))) {
      const uint64_t charged = tag | (own_count + query.ask.cost);
      if (!own(sequence).compare_exchange_weak(own_word, charged, std::memory_order_seq_cst,
                                               std::memory_order_relaxed)) {
        step_aside();
        continue;
      }
    }
    step.status = DecisionStatus::kDecided;
    step.sequence = sequence;
    algorithms::decide_window(at, used, query.ask, step.decision);
    if (!admitted && step.decision.outcome == Outcome::kDenied) {
      step.decision.retry_at =
          sliding ? algorithms::sliding_retry_at(at, counts, query.ask) : at.end();
    }
    if (query.bound.holds()) [[unlikely]]
      keep_within(own_room, query, step.decision);
    step.evidence.own = own_count;
    step.evidence.previous = carried;
    split_others(sequence, others_count, step.evidence);
    return;
  }
}

inline void WindowCells::split_others(int64_t sequence, Count others, Evidence& evidence) const {
  const Count received = others == 0 ? 0 : count_in(siblings(sequence), sequence);
  evidence.siblings = received < others ? received : others;
  evidence.foreign = others - evidence.siblings;
}

}  // namespace weir::memory
