// Counters without contention between threads.
//
// Each thread adds to its own stripe, so an increment is a plain load and store on a cache line
// that no other thread writes; threads beyond the number of stripes share the last one with an
// atomic add. total() sums the stripes: exact when no thread writes, else slightly old.
//
// Safe from any thread.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "epoch/epoch.h"

namespace weir::telemetry {

// `Name` is an enum class whose last enumerator is kCount.
template <typename Name>
class Counters {
 public:
  Counters() : stripes_(kStripes) {}

  void add(Name name, uint64_t amount = 1) { add_for(epoch::this_thread_record(), name, amount); }

  // For a caller that already has its thread record.
  void add_for(const epoch::ThreadRecord& record, Name name, uint64_t amount = 1) {
    const uint32_t thread = record.index;
    const bool alone = thread < kStripes - 1;
    std::atomic<uint64_t>& value = stripes_[alone ? thread : kStripes - 1].at(name);
    if (alone) {
      value.store(value.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
    } else {
      value.fetch_add(amount, std::memory_order_relaxed);
    }
  }

  [[nodiscard]] uint64_t total(Name name) const {
    uint64_t sum = 0;
    for (const Stripe& stripe : stripes_) {
      sum += stripe.values[static_cast<size_t>(name)].load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  static constexpr uint32_t kStripes = 64;
  struct alignas(64) Stripe {
    std::array<std::atomic<uint64_t>, static_cast<size_t>(Name::kCount)> values{};
    std::atomic<uint64_t>& at(Name name) { return values[static_cast<size_t>(name)]; }
  };
  std::vector<Stripe> stripes_;
};

}  // namespace weir::telemetry
