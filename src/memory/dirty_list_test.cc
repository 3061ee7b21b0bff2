#include "memory/dirty_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace weir::memory {
namespace {

TEST(DirtyList, ListsASlotOnceHoweverOftenItIsPushed) {
  DirtyList list(10);
  for (int i = 0; i < 5; ++i) list.push(3);
  list.push(7);
  auto taken = list.take_all();
  std::sort(taken.begin(), taken.end());
  EXPECT_EQ(taken, (std::vector<uint32_t>{3, 7}));
  EXPECT_TRUE(list.empty());
  list.push(3);
  EXPECT_EQ(list.take_all(), std::vector<uint32_t>{3});
}

TEST(DirtyList, LosesNoSlotBetweenPushersAndAReader) {
  constexpr uint32_t kSlots = 64;
  constexpr int kRounds = 20'000;
  DirtyList list(kSlots);
  // Each slot has a count of changes and a count that the reader saw; in the end they must be
  // equal for all slots, or a push was lost.
  std::vector<std::atomic<int>> done(kSlots);
  std::vector<int> seen(kSlots, 0);
  std::atomic<int> running{2};
  std::vector<std::thread> pushers;
  for (uint32_t t = 0; t < 2; ++t) {
    pushers.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const uint32_t slot = (static_cast<uint32_t>(i) * 7 + t * 13) % kSlots;
        done[slot].fetch_add(1);
        list.push(slot);
      }
      running.fetch_sub(1);
    });
  }
  const auto take = [&] {
    for (const uint32_t slot : list.take_all()) seen[slot] = done[slot].load();
  };
  while (running.load() > 0) take();
  for (auto& pusher : pushers) pusher.join();
  take();
  for (uint32_t slot = 0; slot < kSlots; ++slot) EXPECT_EQ(seen[slot], done[slot].load());
}

}  // namespace
}  // namespace weir::memory
