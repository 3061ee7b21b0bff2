// The memory limit of one limiter, and how many bytes each part of it uses.
//
// Parts of fixed size reserve their bytes at the start. All other memory is reserved before it is
// allocated and released after it is freed, so the sum never exceeds the limit. A part may have a
// bound of its own below the limit, so that it cannot use up the space of the others.
//
// Only slow paths use the budget. A decision on an existing tuple does not.
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

enum class MemoryPart : uint8_t {
  kTable,    // slots, control bytes, lists of slots
  kBuffers,  // rings and logs of single tuples
  kKeys,     // names that do not fit into a slot
  kSketch,
  kRegions,  // counts of other regions
  kCount,
};

class ByteBudget {
 public:
  explicit ByteBudget(uint64_t limit) : limit_(limit) { most_.fill(limit); }

  // Call before the first reserve().
  void bound(MemoryPart part, uint64_t most) { most_[index(part)] = most; }

  // False: the bytes do not fit, and nothing was reserved.
  [[nodiscard]] bool reserve(MemoryPart part, uint64_t bytes) {
    if (!raise(used_by_[index(part)], bytes, most_[index(part)])) return false;
    if (raise(used_, bytes, limit_)) return true;
    used_by_[index(part)].fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }

  // For parts that a limiter cannot work without: the caller knows that they fit.
  void reserve_fixed(MemoryPart part, uint64_t bytes) { WEIR_CHECK(reserve(part, bytes)); }

  void release(MemoryPart part, uint64_t bytes) {
    used_by_[index(part)].fetch_sub(bytes, std::memory_order_relaxed);
    used_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  // Whether reserve() would succeed now.
  [[nodiscard]] bool has_space(MemoryPart part, uint64_t bytes) const {
    return used(part) + bytes <= most_[index(part)] && used() + bytes <= limit_;
  }

  [[nodiscard]] uint64_t limit() const { return limit_; }
  [[nodiscard]] uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t used(MemoryPart part) const {
    return used_by_[index(part)].load(std::memory_order_relaxed);
  }

 private:
  // Relaxed: the numbers publish no other memory.
  using Number = base::Atomic<uint64_t>;
  static constexpr size_t kParts = static_cast<size_t>(MemoryPart::kCount);

  [[nodiscard]] static size_t index(MemoryPart part) { return static_cast<size_t>(part); }

  // Never exceeds `most`, not even for an instant, so that a failed attempt of one thread cannot
  // make the attempt of another fail.
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

// The heap bytes of an allocation of this size: the allocator adds a header and rounds up to 16
// bytes; from 128 KiB on it may use whole pages of 4 KiB.
[[nodiscard]] constexpr uint64_t heap_bytes(uint64_t size) {
  constexpr uint64_t kPage = 4096;
  const uint64_t chunk = (size + 16 + 15) / 16 * 16;
  return size < (uint64_t{128} << 10) ? chunk : (chunk + kPage - 1) / kPage * kPage;
}

}  // namespace weir::memory
