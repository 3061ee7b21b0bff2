// Which tuples have taken over what was counted by past durations, and for which change: a word for
// each slot of the table.
//
// A mark names the tuple and the change, so a slot that another tuple uses has none. It is also in
// the word of some other slot, where it is found when the tuple is not in the table. A mark that is
// lost costs time: the tuple takes the same usage over again, which changes nothing unless part of
// it has left meanwhile.
//
// Safe from any thread.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/atomic.h"
#include "base/mutex.h"
#include "base/split_mix.h"
#include "memory/tuple_store.h"

namespace weir::memory {

class TakeoverMarks {
 public:
  explicit TakeoverMarks(TupleStore& tuples) : tuples_(tuples) {}
  TakeoverMarks(const TakeoverMarks&) = delete;
  TakeoverMarks& operator=(const TakeoverMarks&) = delete;

  [[nodiscard]] bool contains(const TupleKey& key, uint64_t change) const {
    const Marks* const marks = marks_.load(std::memory_order_acquire);
    if (marks == nullptr) return false;
    const uint64_t mark = mark_of(key, change);
    return marks->words[index_of(key, mark, *marks)].load(std::memory_order_relaxed) == mark ||
           marks->words[(mark >> 1) % marks->size].load(std::memory_order_relaxed) == mark;
  }
  void add(const TupleKey& key, uint64_t change) {
    const Marks& marks = allocated();
    const uint64_t mark = mark_of(key, change);
    marks.words[index_of(key, mark, marks)].store(mark, std::memory_order_relaxed);
    marks.words[(mark >> 1) % marks.size].store(mark, std::memory_order_relaxed);
  }

 private:
  struct Marks {
    std::unique_ptr<base::Atomic<uint64_t>[]> words;
    size_t size = 0;
  };

  // Never 0.
  [[nodiscard]] static uint64_t mark_of(const TupleKey& key, uint64_t change) {
    uint64_t state = key.hash() ^ base::split_mix(change);
    return base::split_mix(state) | 1;
  }
  [[nodiscard]] size_t index_of(const TupleKey& key, uint64_t mark, const Marks& marks) const {
    const epoch::Guard guard;
    const Tuple tuple = tuples_.table.find(key);
    return (tuple ? tuple.index : mark >> 1) % marks.size;
  }

  // Allocated by the first mark: most limiters never set one. If the memory is short, tuples share
  // words.
  [[nodiscard]] const Marks& allocated() {
    const Marks* const known = marks_.load(std::memory_order_acquire);
    if (known != nullptr) return *known;
    const base::MutexLock lock(mutex_);
    if (owned_.words == nullptr) {
      constexpr size_t kFew = 4096;
      const size_t slots = tuples_.table.slots();
      const bool fits = tuples_.budget.reserve(MemoryPart::kTable, slots * sizeof(uint64_t));
      owned_.size = fits ? slots : std::min(slots, kFew);
      owned_.words = std::make_unique<base::Atomic<uint64_t>[]>(owned_.size);
      marks_.store(&owned_, std::memory_order_release);
    }
    return owned_;
  }

  TupleStore& tuples_;
  base::Mutex mutex_;
  Marks owned_;  // written under the mutex, before it is published
  base::Atomic<const Marks*> marks_{nullptr};
};

}  // namespace weir::memory
