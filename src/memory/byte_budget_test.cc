#include "memory/byte_budget.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace weir::memory {
namespace {

TEST(ByteBudget, ReservesNothingIfTheBytesDoNotFit) {
  ByteBudget budget(100);
  EXPECT_TRUE(budget.reserve(MemoryPart::kBuffers, 60));
  EXPECT_FALSE(budget.reserve(MemoryPart::kKeys, 41));
  EXPECT_FALSE(budget.reserve(MemoryPart::kKeys, ~uint64_t{0}));
  EXPECT_FALSE(budget.reserve(MemoryPart::kBuffers, ~uint64_t{0}));  // the sum overflows
  EXPECT_EQ(budget.used(MemoryPart::kKeys), 0u);
  EXPECT_EQ(budget.used(), 60u);
  EXPECT_TRUE(budget.has_space(MemoryPart::kKeys, 40));
  EXPECT_FALSE(budget.has_space(MemoryPart::kKeys, 41));
  EXPECT_TRUE(budget.reserve(MemoryPart::kKeys, 40));
  budget.release(MemoryPart::kBuffers, 60);
  EXPECT_EQ(budget.used(MemoryPart::kBuffers), 0u);
  EXPECT_EQ(budget.used(), 40u);
}

TEST(ByteBudget, LimitsAPartToItsOwnBound) {
  ByteBudget budget(100);
  budget.bound(MemoryPart::kBuffers, 75);
  EXPECT_FALSE(budget.reserve(MemoryPart::kBuffers, 76));
  EXPECT_TRUE(budget.reserve(MemoryPart::kBuffers, 75));
  EXPECT_FALSE(budget.has_space(MemoryPart::kBuffers, 1));
  EXPECT_TRUE(budget.reserve(MemoryPart::kRegions, 25));
  EXPECT_EQ(budget.used(), 100u);
}

TEST(ByteBudget, NeverExceedsItsLimitUnderConcurrentReservations) {
  constexpr uint64_t kLimit = 1000;
  ByteBudget budget(kLimit);
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const MemoryPart part = t % 2 == 0 ? MemoryPart::kBuffers : MemoryPart::kKeys;
      for (uint64_t i = 0; i < 20'000; ++i) {
        const uint64_t bytes = 100 + (i * 7 + t) % 300;
        if (!budget.reserve(part, bytes)) continue;
        if (budget.used() > kLimit) exceeded = true;
        budget.release(part, bytes);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(budget.used(MemoryPart::kBuffers), 0u);
  EXPECT_EQ(budget.used(MemoryPart::kKeys), 0u);
}

TEST(HeapBytes, AreAtLeastTheSizeOfTheAllocation) {
  for (const size_t size : {1u, 8u, 24u, 25u, 64u, 256u, 1000u, 1536u, 8192u, 65'536u, 131'064u,
                            131'072u, 131'080u, 200'000u}) {
    const std::unique_ptr<char[]> memory(new char[size]);
    // The usable bytes of a chunk, and its header.
    EXPECT_GE(heap_bytes(size), malloc_usable_size(memory.get()) + sizeof(size_t)) << size;
    EXPECT_LE(heap_bytes(size), size + 32 + (size < 131'072 ? 0 : 4096)) << size;
  }
}

}  // namespace
}  // namespace weir::memory
