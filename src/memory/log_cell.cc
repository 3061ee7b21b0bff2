#include "memory/log_cell.h"

#include <algorithm>
#include <bit>

namespace weir::memory {
namespace {

constexpr Millis kGrowAgain{1000};

}  // namespace

size_t log_buffer_units(Count limit) {
  return std::bit_ceil(std::max<size_t>(limit + 1, 8));
}

WallTime LogCell::stamp_back(LogHead head, WallTime now, Count back) const {
  // The log is longer than every limit it was used with: a unit that it no longer contains is out
  // of the window.
  if (back > mask_ + 1) return algorithms::kNoStamp;
  const uint64_t unit = (head.unit() - back) & LogHead::kUnitMask;
  const LogHead entry{stamps_[unit & mask_].load(std::memory_order_acquire)};
  return entry.unit() == unit ? entry.stamp() : now;
}

bool LogCell::fits(const Query& query) const {
  const LogHead head{slot_.hot[1].load(std::memory_order_acquire)};
  // A stamp more than a window ahead means that the clock was set back.
  const bool clock_fits = head.word == kFrozen || head.stamp() <= query.now + query.duration;
  return (query.ask.capacity <= mask_ || may_not_grow(query.now)) && clock_fits;
}

void LogCell::postpone_growth(WallTime now) const {
  const auto until = static_cast<uint64_t>((now + kGrowAgain).time_since_epoch().count());
  slot_.hot[5].store(until, std::memory_order_relaxed);
}

bool LogCell::may_not_grow(WallTime now) const {
  const WallTime until(Millis(static_cast<int64_t>(slot_.hot[5].load(std::memory_order_relaxed))));
  // A later time means that the clock was set back since.
  return now < until && until <= now + kGrowAgain;
}

CellDecision LogCell::evaluate(const Query& query, LogHead head) const {
  const WallTime now = std::max(query.now, head.stamp());
  const auto stamp_back = [&](Count back) { return this->stamp_back(head, now, back); };
  algorithms::Ask ask = query.ask;
  if (is_undersized_for(query)) ask.capacity = mask_;
  CellDecision result;
  result.decision = algorithms::decide_log(now, query.duration, ask, stamp_back);
  result.evidence.own =
      ask.capacity - result.decision.remaining - (result.decision.admitted() ? ask.cost : 0);
  // Beyond the size of this log, but not beyond the limit.
  if (result.decision.outcome == Outcome::kNever && ask.cost <= query.ask.capacity) {
    result.decision.outcome = Outcome::kDenied;
    result.decision.retry_at = query.now + kGrowAgain;
  }
  return result;
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
  int spins = 0;
  uint64_t word = head().load(std::memory_order_acquire);
  // A failed compare-and-swap means that another thread was admitted; spins on a locked head are
  // bounded.
  for (;;) {
    if (word == kFrozen) return {.status = DecisionStatus::kRetry};
    const LogHead before{word & ~kClosedBit};
    CellDecision result = evaluate(query, before);
    const bool charges = consumes && result.decision.admitted();
    if (charges && is_locked(word)) {
      if (++spins > kHeadLockSpins) {
        deny_for_one_tick(query, result.decision);
        return result;
      }
      cpu_relax();
      word = head().load(std::memory_order_acquire);
      continue;
    }
    if (charges) {
      const LogHead after = charged(query, before);
      if (!head().compare_exchange_weak(word, after.word, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        back_off();
        word = head().load(std::memory_order_acquire);
        continue;
      }
      write_stamps(before, after);
      return result;
    }
    const uint64_t again = head().load(std::memory_order_acquire);
    if (again == word) return result;
    word = again;
  }
}

CellDecision LogCell::peek_locked(const Query& query) const {
  if (!fits(query)) return {.status = DecisionStatus::kRebuild};
  return evaluate(query, LogHead{head().load(std::memory_order_acquire) & ~kClosedBit});
}

void LogCell::charge_locked(const Query& query) const {
  const LogHead before{head().load(std::memory_order_acquire) & ~kClosedBit};
  const LogHead after = charged(query, before);
  head().store(after.word | kClosedBit, std::memory_order_release);
  write_stamps(before, after);
}

}  // namespace weir::memory
