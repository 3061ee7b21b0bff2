// Which tuples have taken over what was counted by past durations, and for which change.
//
// A small set that forgets: 65,536 marks, of which a new one may replace an old one. A tuple whose
// mark was forgotten takes the same usage over again, which changes nothing unless it has drained
// meanwhile. So a lost mark costs time, and an admission that was refused at most.
//
// Safe from any thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/atomic.h"
#include "base/mutex.h"
#include "base/split_mix.h"

namespace weir::memory {

class TakeoverMarks {
 public:
  // The mark of a tuple, by the hash of its key, for a change. Never 0.
  [[nodiscard]] static uint64_t mark_of(uint64_t hash, uint64_t change) {
    uint64_t state = hash ^ base::split_mix(change);
    return base::split_mix(state) | 1;
  }

  [[nodiscard]] bool contains(uint64_t mark) const {
    const Set* const sets = sets_.load(std::memory_order_acquire);
    if (sets == nullptr) return false;
    for (const auto& way : sets[set_of(mark)]) {
      if (way.load(std::memory_order_relaxed) == mark) return true;
    }
    return false;
  }

  void add(uint64_t mark) {
    Set& set = sets()[set_of(mark)];
    for (auto& way : set) {
      uint64_t seen = 0;
      if (way.compare_exchange_strong(seen, mark, std::memory_order_relaxed) || seen == mark) {
        return;
      }
    }
    set[mark >> 32 & (kWays - 1)].store(mark, std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kSets = size_t{1} << 14;
  static constexpr size_t kWays = 4;
  using Set = std::array<base::Atomic<uint64_t>, kWays>;

  [[nodiscard]] static size_t set_of(uint64_t mark) { return mark >> 50; }
  static_assert(kSets == uint64_t{1} << (64 - 50));

  // Allocated by the first mark: most limiters never set one.
  [[nodiscard]] Set* sets() {
    Set* sets = sets_.load(std::memory_order_acquire);
    if (sets != nullptr) return sets;
    const base::MutexLock lock(mutex_);
    if (owned_ == nullptr) {
      owned_ = std::make_unique<Set[]>(kSets);
      sets_.store(owned_.get(), std::memory_order_release);
    }
    return owned_.get();
  }

  base::Mutex mutex_;
  std::unique_ptr<Set[]> owned_ WEIR_GUARDED_BY(mutex_);
  base::Atomic<Set*> sets_{nullptr};  // publishes the empty sets
};

}  // namespace weir::memory
