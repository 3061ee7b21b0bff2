// Slots with changes that a background task must process. The set is bounded, because a slot is in
// it at most once; so nothing is ever dropped.
//
// The entry belongs to the slot, not to its tuple: the slot may be reused for another tuple while
// it is listed, and the reader of the list must check that.
//
// push() is lock-free and safe from any thread; take_all() from one thread at a time.

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
    // take_all() unlists a slot before its caller reads the slot: if the slot is listed now, that
    // reader sees every charge made before this call.
    if (next_[index].load(std::memory_order_seq_cst) != kNotListed) return;
    uint32_t expected = kNotListed;
    if (!next_[index].compare_exchange_strong(expected, kEnd, std::memory_order_acq_rel)) return;
    uint32_t head = head_.load(std::memory_order_relaxed);
    do {
      next_[index].store(head, std::memory_order_relaxed);
      // Release: take_all() sees the link and the charged count.
    } while (!head_.compare_exchange_weak(head, index, std::memory_order_release,
                                          std::memory_order_relaxed));
  }

  // Empties the list. Each index may be pushed again from then on, so no later charge is missed.
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
