#include "memory/log_cell.h"

#include <algorithm>
#include <bit>

namespace weir::memory {
namespace {

constexpr Millis kGrowAgain{1000};

}  // namespace

size_t log_annex_units(Count limit) {
  return std::bit_ceil(std::max<size_t>(limit + 1, 8));
}

WallTime LogCell::stamp_back(LogHead head, WallTime now, Count back) const {
  // The log always reached beyond the limits it was asked for: what it does not hold any
  // more has left.
  if (back > mask_ + 1) return algorithms::kNoStamp;
  const uint64_t unit = (head.unit() - back) & LogHead::kUnitMask;
  const LogHead entry{stamps_[unit & mask_].load(std::memory_order_acquire)};
  return entry.unit() == unit ? entry.stamp() : now;
}

bool LogCell::fits(const Query& query) const {
  const LogHead head{slot_.hot[1].load(std::memory_order_acquire)};
  // A stamp a whole window ahead means that the clock was set back.
  const bool clock_fits = head.word == kGone || head.stamp() <= query.now + query.duration;
  return (query.ask.capacity <= mask_ || may_not_grow(query.now)) && clock_fits;
}

void LogCell::put_off_growth(WallTime now) const {
  const auto until = static_cast<uint64_t>((now + kGrowAgain).time_since_epoch().count());
  slot_.hot[5].store(until, std::memory_order_relaxed);
}

bool LogCell::may_not_grow(WallTime now) const {
  const WallTime until(Millis(static_cast<int64_t>(slot_.hot[5].load(std::memory_order_relaxed))));
  // Later than that: the clock was set back since.
  return now < until && until <= now + kGrowAgain;
}

CellDecision LogCell::look(const Query& query, LogHead head) const {
  const WallTime now = std::max(query.now, head.stamp());
  const auto stamp_back = [&](Count back) { return this->stamp_back(head, now, back); };
  algorithms::Ask ask = query.ask;
  if (falls_short_of(query)) ask.capacity = mask_;
  CellDecision step;
  step.decision = algorithms::decide_log(now, query.duration, ask, stamp_back);
  step.evidence.own =
      ask.capacity - step.decision.remaining - (step.decision.admitted() ? ask.cost : 0);
  // Too much for what it can hold, but not for the limit.
  if (step.decision.outcome == Outcome::kNever && ask.cost <= query.ask.capacity) {
    step.decision.outcome = Outcome::kDenied;
    step.decision.retry_at = query.now + kGrowAgain;
  }
  return step;
}

LogHead LogCell::charged(const Query& query, LogHead head) const {
  return LogHead::make(std::max(query.now, head.stamp()), head.unit() + query.ask.cost);
}

void LogCell::write_stamps(LogHead from, LogHead to) const {
  for (uint64_t unit = from.unit(); unit != to.unit(); unit = (unit + 1) & LogHead::kUnitMask) {
    stamps_[unit & mask_].store(LogHead::make(to.stamp(), unit).word, std::memory_order_release);
  }
}

CellDecision LogCell::decide(const Query& query, Effect effect) const {
  const bool consumes = effect == Effect::kConsume && query.ask.cost > 0;
  if (consumes && !fits(query)) return {.status = DecisionStatus::kRebuild};
  int turns = 0;
  uint64_t word = head().load(std::memory_order_acquire);
  // A failed turn is another's admission; turns spent waiting for a holder are bounded.
  for (;;) {
    if (word == kGone) return {.status = DecisionStatus::kRetry};
    const LogHead before{word & ~kClosedBit};
    CellDecision step = look(query, before);
    const bool charges = consumes && step.decision.admitted();
    if (charges && held(word)) {
      if (++turns > kHoldTurns) {
        refuse_for_one_tick(query, step.decision);
        return step;
      }
      relax();
      word = head().load(std::memory_order_acquire);
      continue;
    }
    if (charges) {
      const LogHead after = charged(query, before);
      if (!head().compare_exchange_weak(word, after.word, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        step_aside();
        word = head().load(std::memory_order_acquire);
        continue;
      }
      write_stamps(before, after);
      return step;
    }
    const uint64_t again = head().load(std::memory_order_acquire);
    if (again == word) return step;
    word = again;
  }
}

CellDecision LogCell::look_held(const Query& query) const {
  if (!fits(query)) return {.status = DecisionStatus::kRebuild};
  return look(query, LogHead{head().load(std::memory_order_acquire) & ~kClosedBit});
}

void LogCell::charge_held(const Query& query) const {
  const LogHead before{head().load(std::memory_order_acquire) & ~kClosedBit};
  const LogHead after = charged(query, before);
  head().store(after.word | kClosedBit, std::memory_order_release);
  write_stamps(before, after);
}

}  // namespace weir::memory
