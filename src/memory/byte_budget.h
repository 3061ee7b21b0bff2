// The bytes that one limiter may hold, and how many each part of it holds.
//
// Parts of fixed size take theirs at the start. All else is reserved before it is allocated and
// given back after it is freed, so the sum never exceeds the limit. A part may have a bound of its
// own below the limit, so that it cannot leave the others without room.
//
// Only slow paths come here: a tuple that is known is decided without it.
//
// Safe from any thread.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/check.h"

namespace weir::memory {

enum class Part : uint8_t {
  kTable,    // slots, control bytes, lists of slots
  kAnnexes,  // rings and logs of single tuples
  kKeys,     // names that do not fit into a slot
  kSketch,
  kRegions,  // the book: what other regions count
  kCount,
};

class ByteBudget {
 public:
  explicit ByteBudget(uint64_t limit) : limit_(limit) { most_.fill(limit); }

  // Before anything is reserved.
  void bound(Part part, uint64_t most) { most_[index(part)] = most; }

  // False: nothing was reserved, since it does not fit.
  [[nodiscard]] bool reserve(Part part, uint64_t bytes) {
    if (!raise(used_by_[index(part)], bytes, most_[index(part)])) return false;
    if (raise(used_, bytes, limit_)) return true;
    used_by_[index(part)].fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }

  // The same for parts without which there is no limiter: the caller knows that they fit.
  void take(Part part, uint64_t bytes) { WEIR_CHECK(reserve(part, bytes)); }

  void give_back(Part part, uint64_t bytes) {
    used_by_[index(part)].fetch_sub(bytes, std::memory_order_relaxed);
    used_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  // Whether reserve() would succeed now.
  [[nodiscard]] bool has_room(Part part, uint64_t bytes) const {
    return used(part) + bytes <= most_[index(part)] && used() + bytes <= limit_;
  }

  [[nodiscard]] uint64_t limit() const { return limit_; }
  [[nodiscard]] uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t used(Part part) const {
    return used_by_[index(part)].load(std::memory_order_relaxed);
  }

 private:
  // Relaxed: the numbers guard no other memory.
  using Number = base::Atomic<uint64_t>;
  static constexpr size_t kParts = static_cast<size_t>(Part::kCount);

  [[nodiscard]] static size_t index(Part part) { return static_cast<size_t>(part); }

  // Never beyond `most`, not even for an instant, so that nobody is refused for another's attempt.
  [[nodiscard]] static bool raise(Number& number, uint64_t bytes, uint64_t most) {
    uint64_t seen = number.load(std::memory_order_relaxed);
    do {
      if (bytes > most || seen > most - bytes) return false;
    } while (!number.compare_exchange_weak(seen, seen + bytes, std::memory_order_relaxed));
    return true;
  }

  const uint64_t limit_;
  std::array<uint64_t, kParts> most_{};  // fixed before the first reserve()
  Number used_{0};
  std::array<Number, kParts> used_by_{};
};

// What an allocation of this size takes from the heap: the allocator adds a header and rounds up to
// 16 bytes; from 128 KiB on it may take whole pages of 4 KiB.
[[nodiscard]] constexpr uint64_t heap_bytes(uint64_t size) {
  constexpr uint64_t kPage = 4096;
  const uint64_t chunk = (size + 16 + 15) / 16 * 16;
  return size < (uint64_t{128} << 10) ? chunk : (chunk + kPage - 1) / kPage * kPage;
}

}  // namespace weir::memory
