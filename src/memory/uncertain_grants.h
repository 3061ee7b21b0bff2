// Costs that the origin may have granted to this process without its knowledge: the step is in
// flight, or its reply was lost. The region's own row in the ledger includes them, so they must not
// count as those of siblings.
//
// Few tuples have such costs at a time. Safe from any thread.

#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "memory/window_cells.h"

namespace weir::memory {

class UncertainGrants {
 public:
  // No message arrives later.
  static constexpr Nanos kInFlight = std::chrono::seconds(60);

  // A step asks for this cost. Returns the number of the step.
  uint64_t add(const Tuple& tuple, int64_t sequence, Count cost, MonoTime now) {
    const base::MutexLock lock(mutex_);
    const uint64_t generation = WindowCells(tuple).generation();
    Entry& entry = entries_[tuple.index];
    if (entry.generation != generation) entry = {.generation = generation, .steps = {}};
    std::erase_if(entry.steps, [&](const Step& step) {
      return step.sequence < sequence - 1 || now - step.sent > kInFlight;
    });
    entry.steps.push_back({.number = ++last_, .sequence = sequence, .cost = cost, .sent = now});
    size_.store(entries_.size(), std::memory_order_release);
    return last_;
  }
  // The step was answered: the process knows what the origin has granted to it. Another one, sent
  // before it on another connection, may still arrive.
  void remove(const Tuple& tuple, uint64_t number) {
    const base::MutexLock lock(mutex_);
    const auto found = entries_.find(tuple.index);
    if (found == entries_.end()) return;
    std::erase_if(found->second.steps,
                  [number](const Step& step) { return step.number == number; });
    if (found->second.steps.empty()) entries_.erase(found);
    size_.store(entries_.size(), std::memory_order_release);
  }
  [[nodiscard]] Count of(const Tuple& tuple, int64_t sequence) const {
    if (size_.load(std::memory_order_acquire) == 0) return 0;
    const base::MutexLock lock(mutex_);
    const auto found = entries_.find(tuple.index);
    if (found == entries_.end()) return 0;
    if (found->second.generation != WindowCells(tuple).generation()) return 0;
    Count sum = 0;
    for (const Step& step : found->second.steps) {
      if (step.sequence == sequence) sum += step.cost;
    }
    if (sum > 0 && mutated(Mutation::kUncertainIgnored)) return 0;
    return sum;
  }

 private:
  struct Step {
    uint64_t number = 0;
    int64_t sequence = 0;
    Count cost = 0;
    MonoTime sent{};
  };
  struct Entry {
    uint64_t generation = 0;
    std::vector<Step> steps{};  // in order
  };

  std::atomic<size_t> size_{0};
  mutable base::Mutex mutex_;
  uint64_t last_ WEIR_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint32_t, Entry> entries_ WEIR_GUARDED_BY(mutex_);  // by slot
};

inline const UncertainGrants kNoUncertainGrants;

}  // namespace weir::memory
