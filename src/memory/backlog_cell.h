// The backlog class: one theoretical arrival time, for gcra and token_bucket.
//
//   hot[0]   time of the newest charge, or of creation, Unix ms: detects a clock set back
//   hot[1]   tat, in pulses since the epoch (below 2^63)
//   hot[3]   the limit that the pace was computed from
//   hot[4,5] the pace: num, den
//   hot[6]   the epoch, Unix ms
//   hot[7]   the duration that the pace was computed from, ms
//
// The rate and the epoch are fixed while the tuple uses the slot, so one compare-and-swap is a
// decision. The slot must be rebuilt for a request with another rate, for a time that pulses
// cannot represent, and after a clock was set back by more than a duration. The state is local to
// this process.
//
// Safe from any thread that holds an epoch guard.

#pragma once

#include <algorithm>

#include "algorithms/backlog.h"
#include "base/inline.h"
#include "base/wide.h"
#include "memory/slot.h"

namespace weir::memory {

class BacklogCell {
 public:
  explicit BacklogCell(const Tuple& tuple) : slot_(*tuple.slot) {}

  [[nodiscard]] CellDecision decide(const Query& query, Effect effect) const {
    const bool consumes = effect == Effect::kConsume && query.ask.cost > 0;
    const bool fits = this->fits(query);
    if (!fits && consumes) return {.status = DecisionStatus::kRebuild};
    const algorithms::Pace pace =
        fits ? this->pace() : algorithms::pace_of(query.limit, query.duration);
    uint64_t tat = slot_.hot[1].load(std::memory_order_acquire);
    // A failed iteration means that another thread was admitted: at most `capacity` in a row.
    for (;;) {
      if (tat == kFrozen) return {.status = DecisionStatus::kRetry};
      algorithms::Backlog backlog{.epoch = epoch(), .tat = {tat}};
      if (!fits) backlog = moved(backlog, query);
      const auto decision = algorithms::decide_backlog(query.now, backlog, pace, query.ask);
      if (consumes && decision.admitted() && !charge(tat, decision.tat, query.now)) {
        back_off();
        tat = slot_.hot[1].load(std::memory_order_acquire);
        continue;
      }
      CellDecision result{.decision = decision};
      const Count after = query.ask.capacity - decision.remaining;
      result.evidence.own = decision.admitted() ? after - query.ask.cost : after;
      return result;
    }
  }

  // The fast path of decide(): the query fits, passes, and is charged at the first attempt. Else
  // returns false and changes nothing.
  [[nodiscard]] WEIR_HOT_INLINE bool admit(const Query& query,
                                           algorithms::BacklogDecision& decision) const {
    uint64_t tat = slot_.hot[1].load(std::memory_order_acquire);
    const algorithms::Backlog backlog{.epoch = epoch(), .tat = {tat}};
    return fits(query) && tat != kFrozen &&
           algorithms::admit_backlog(query.now, backlog, pace(), query.ask, decision) &&
           charge(tat, decision.tat, query.now);
  }

  // Units that have not drained at `now`.
  [[nodiscard]] Count waiting(WallTime now) const {
    const base::Wide tat{slot_.hot[1].load(std::memory_order_acquire)};
    const auto since = static_cast<uint64_t>(std::max(now - epoch(), Millis(0)).count());
    const base::Wide drained = base::Wide{since} * pace().den;
    if (tat <= drained) return 0;
    return base::ceil_div(static_cast<uint64_t>(tat - drained), pace().num);
  }

  // The state as it would be after a rebuild for the query.
  [[nodiscard]] algorithms::Backlog moved(const algorithms::Backlog& from,
                                          const Query& query) const {
    const algorithms::Pace to = algorithms::pace_of(query.limit, query.duration);
    // One count for all durations is converted by time, the only unit that they share.
    const auto rebase =
        slot_.header.duration() == Millis(0) ? algorithms::rebased_in_time : algorithms::rebased;
    const auto backlog = rebase(query.now, query.duration, from, pace(), to);
    return is_ahead_of(query.now) ? cut_to_burst(query.now, backlog, to, query.ask.capacity)
                                  : backlog;
  }

  // Whether the newest charge is more than a duration after `now`.
  [[nodiscard]] bool is_ahead_of(WallTime now) const { return newest() > now + duration(); }

  // Charges the whole cost, whether it fits or not.
  [[nodiscard]] DecisionStatus charge_all(const Query& query) const {
    if (!fits(query)) return DecisionStatus::kRebuild;
    const algorithms::Pace pace = this->pace();
    uint64_t tat = slot_.hot[1].load(std::memory_order_acquire);
    for (;;) {
      if (tat == kFrozen) return DecisionStatus::kRetry;
      const algorithms::Backlog backlog{.epoch = epoch(), .tat = {tat}};
      const algorithms::Pulses after =
          algorithms::charged(query.now, backlog, pace, query.ask.cost);
      if (charge(tat, after, query.now)) return DecisionStatus::kDecided;
      back_off();
      tat = slot_.hot[1].load(std::memory_order_acquire);
    }
  }

  // Refunds the charge of a batch: draining commutes with charging.
  void refund(Count cost) const {
    const uint64_t pulses = cost * pace().num;
    uint64_t tat = slot_.hot[1].load(std::memory_order_acquire);
    for (;;) {
      if (tat == kFrozen) {
        cpu_relax();
        tat = slot_.hot[1].load(std::memory_order_acquire);
      } else if (slot_.hot[1].compare_exchange_weak(tat, base::saturating_sub(tat, pulses),
                                                    std::memory_order_acq_rel,
                                                    std::memory_order_acquire)) {
        return;
      }
    }
  }

  // Whether the query can be charged to this state; if not, rebuild. A peek is always possible.
  [[nodiscard]] WEIR_HOT_INLINE bool fits(const Query& query) const {
    return slot_.hot[3].load(std::memory_order_relaxed) == query.limit &&
           duration() == query.duration && !is_ahead_of(query.now) &&
           algorithms::reaches(epoch(), query.now, pace());
  }
  [[nodiscard]] WEIR_HOT_INLINE algorithms::Pace pace() const {
    return {.num = slot_.hot[4].load(std::memory_order_relaxed),
            .den = slot_.hot[5].load(std::memory_order_relaxed)};
  }
  [[nodiscard]] WallTime epoch() const { return time_in(slot_.hot[6]); }
  [[nodiscard]] WallTime newest() const { return time_in(slot_.hot[0]); }
  [[nodiscard]] Millis duration() const {
    return Millis(static_cast<int64_t>(slot_.hot[7].load(std::memory_order_relaxed)));
  }

 private:
  // False: another thread was first, and `tat` is its value.
  [[nodiscard]] WEIR_HOT_INLINE bool charge(uint64_t& tat, algorithms::Pulses charged,
                                            WallTime now) const {
    if (mutated(Mutation::kTatMergedByMax)) {
      raise_number(slot_.hot[1], charged.since_epoch);
    } else if (!slot_.hot[1].compare_exchange_weak(tat, charged.since_epoch,
                                                   std::memory_order_acq_rel,
                                                   std::memory_order_acquire)) {
      return false;
    }
    raise_number(slot_.hot[0], static_cast<uint64_t>(now.time_since_epoch().count()));
    return true;
  }
  static WallTime time_in(const Word& word) {
    return WallTime(Millis(static_cast<int64_t>(word.load(std::memory_order_relaxed))));
  }

  Slot& slot_;
};

}  // namespace weir::memory
