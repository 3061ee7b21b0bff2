#include "memory/control.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace weir::memory {
namespace {

struct alignas(16) Bucket {
  std::array<std::atomic<uint64_t>, kControlWords> words{};

  void set(const std::array<uint8_t, kBucketSlots>& bytes) {
    for (size_t i = 0; i < words.size(); ++i) {
      uint64_t word = 0;
      std::memcpy(&word, &bytes[8 * i], 8);
      words[i] = word;
    }
  }
  [[nodiscard]] std::vector<size_t> slots_with(uint8_t byte) const {
    std::vector<size_t> slots;
    SlotMatches matches = SlotMatches::of<std::memory_order_seq_cst>(words.data(), byte);
    for (; matches.any(); matches.drop_first()) slots.push_back(matches.first());
    return slots;
  }
};

TEST(SlotMatches, FindsAByteInAnySlotAlone) {
  for (size_t slot = 0; slot < kBucketSlots; ++slot) {
    std::array<uint8_t, kBucketSlots> bytes{};
    bytes[slot] = 200;
    Bucket bucket;
    bucket.set(bytes);
    EXPECT_EQ(bucket.slots_with(200), std::vector<size_t>{slot});
    EXPECT_TRUE(bucket.slots_with(100).empty());
  }
}

RC_GTEST_PROP(SlotMatches, MissesNoSlotAndAddsNoneThatDiffersInMoreThanTheLastBit, ()) {
  // Few values, so that many bytes are equal.
  std::array<uint8_t, kBucketSlots> bytes{};
  for (uint8_t& byte : bytes)
    byte = *rc::gen::element<uint8_t>(0, 1, 2, 3, 127, 128, 252, 253, 255);
  Bucket bucket;
  bucket.set(bytes);
  for (const uint8_t wanted : std::to_array<uint8_t>({2, 3, 127, 128, 252, 253})) {
    std::array<bool, kBucketSlots> found{};
    for (const size_t slot : bucket.slots_with(wanted)) {
      RC_ASSERT(!found.at(slot));
      RC_ASSERT((bytes.at(slot) ^ wanted) <= 1);
      found[slot] = true;
    }
    for (size_t slot = 0; slot < kBucketSlots; ++slot) {
      RC_ASSERT(found[slot] || bytes[slot] != wanted);
    }
  }
}

}  // namespace
}  // namespace weir::memory
