#include "memory/dirty_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace weir::memory {
namespace {

TEST(DirtyList, ListsAPlaceOnceHoweverOftenItIsPushed) {
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

TEST(DirtyList, LosesNothingBetweenPushersAndATaker) {
  constexpr uint32_t kPlaces = 64;
  constexpr int kRounds = 20'000;
  DirtyList list(kPlaces);
  // Each place has a count of what was done and one of what was seen; in the end they
  // must agree for all, or a push was lost.
  std::vector<std::atomic<int>> done(kPlaces);
  std::vector<int> seen(kPlaces, 0);
  std::atomic<int> running{2};
  std::vector<std::thread> pushers;
  for (uint32_t t = 0; t < 2; ++t) {
    pushers.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const uint32_t place = (static_cast<uint32_t>(i) * 7 + t * 13) % kPlaces;
        done[place].fetch_add(1);
        list.push(place);
      }
      running.fetch_sub(1);
    });
  }
  const auto take = [&] {
    for (const uint32_t place : list.take_all()) seen[place] = done[place].load();
  };
  while (running.load() > 0) take();
  for (auto& pusher : pushers) pusher.join();
  take();
  for (uint32_t place = 0; place < kPlaces; ++place) EXPECT_EQ(seen[place], done[place].load());
}

}  // namespace
}  // namespace weir::memory
