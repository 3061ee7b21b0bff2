// The slots with something to tell, or to be looked at: a bounded set, because a slot is in it
// at most once, and so nothing ever has to be dropped.
//
// Membership belongs to the place, not to the tuple that happens to live there: a slot
// may be given to another tuple while it is listed, and the reader finds that out.
//
// push() from any thread, without waiting; take_all() from one thread at a time.

#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/atomic.h"

namespace weir::memory {

class DirtyList {
 public:
  explicit DirtyList(size_t slots) : next_(slots) {
    for (auto& link : next_) link.store(kNotListed, std::memory_order_relaxed);
  }

  [[nodiscard]] static uint64_t bytes_for(size_t slots) {
    return slots * sizeof(std::atomic<uint32_t>);
  }

  void push(uint32_t index) {
    // Who takes the list unlists a slot before looking at it: so if it is listed now, what was
    // charged before this will be seen.
    if (next_[index].load(std::memory_order_seq_cst) != kNotListed) return;
    uint32_t expected = kNotListed;
    if (!next_[index].compare_exchange_strong(expected, kEnd, std::memory_order_acq_rel)) return;
    uint32_t head = head_.load(std::memory_order_relaxed);
    do {
      next_[index].store(head, std::memory_order_relaxed);
      // Release: whoever takes the list sees the link, and the count that was charged.
    } while (!head_.compare_exchange_weak(head, index, std::memory_order_release,
                                          std::memory_order_relaxed));
  }

  // Empties the list. From here on each index may be pushed again, so a count charged
  // after this is never missed.
  [[nodiscard]] std::vector<uint32_t> take_all() {
    std::vector<uint32_t> taken;
    uint32_t index = head_.exchange(kEnd, std::memory_order_acquire);
    while (index != kEnd) {
      taken.push_back(index);
      index = next_[index].exchange(kNotListed, std::memory_order_seq_cst);
    }
    return taken;
  }

  [[nodiscard]] bool empty() const { return head_.load(std::memory_order_acquire) == kEnd; }

 private:
  static constexpr uint32_t kNotListed = ~uint32_t{0};
  static constexpr uint32_t kEnd = kNotListed - 1;

  base::Atomic<uint32_t> head_{kEnd};
  std::vector<base::Atomic<uint32_t>> next_;
};

}  // namespace weir::memory
