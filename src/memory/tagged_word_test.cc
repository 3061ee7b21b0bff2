#include "memory/tagged_word.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace weir::memory {
namespace {

TEST(Tagged, IsZeroInAnyOtherWindow) {
  const Tagged word = Tagged::make(1000, 7);
  EXPECT_EQ(word.count_of(1000), 7u);
  EXPECT_EQ(word.count_of(999), 0u);
  EXPECT_EQ(word.count_of(1001), 0u);
}

TEST(Tagged, CapsCountsSoThatNoneEqualsFrozen) {
  const Tagged word = Tagged::make((int64_t{1} << 62) - 1, ~uint64_t{0});
  EXPECT_EQ(word.count(), kMaxCount);
  EXPECT_NE(word.word | kClosedBit, kFrozen);
}

RC_GTEST_PROP(Tagged, ComparesWindowsAcrossTheWrapOfTheTag, ()) {
  const auto sequence = *rc::gen::inRange<int64_t>(kTagReach, int64_t{1} << 40);
  const auto ahead = *rc::gen::inRange<int64_t>(-kTagReach, kTagReach);
  RC_ASSERT(Tagged::make(sequence + ahead, 1).ahead_of(sequence) == ahead);
}

TEST(OpenCount, CountsOnlyOpenWordsOfTheWindow) {
  const uint64_t word = Tagged::make(41, 5).word;
  EXPECT_EQ(open_count(word, tag_bits(41)), 5u);
  EXPECT_EQ(open_count(word, tag_bits(40)), 0u);
  EXPECT_EQ(open_count(word | kClosedBit, tag_bits(41)), 0u);
}

struct Update {
  int64_t sequence;
  Count count;
};

uint64_t merged(const std::vector<Update>& all) {
  Word word{0};
  for (const Update& update : all) raise_tagged(word, update.sequence, update.count);
  return word.load();
}

std::vector<Update> any_updates() {
  std::vector<Update> all;
  const auto size = *rc::gen::inRange(1, 20);
  for (int i = 0; i < size; ++i) {
    all.push_back({.sequence = *rc::gen::inRange<int64_t>(100, 104),
                   .count = *rc::gen::inRange<Count>(1, 1000)});
  }
  return all;
}

RC_GTEST_PROP(RaiseTagged, IsIndependentOfTheOrderAndRepetitionOfUpdates, ()) {
  const std::vector<Update> all = any_updates();
  std::vector<Update> shuffled = all;
  std::vector<Update> again = all;
  for (size_t i = shuffled.size(); i > 1; --i) {
    std::swap(shuffled[i - 1], shuffled[*rc::gen::inRange<size_t>(0, i)]);
  }
  again.insert(again.end(), shuffled.begin(), shuffled.end());
  RC_ASSERT(merged(all) == merged(shuffled));
  RC_ASSERT(merged(all) == merged(again));
}

TEST(RaiseTagged, IgnoresAnUpdateOfAnOlderWindow) {
  Word word{Tagged::make(7, 3).word};
  EXPECT_FALSE(raise_tagged(word, 6, 100));
  EXPECT_EQ(word.load(), Tagged::make(7, 3).word);
  EXPECT_TRUE(raise_tagged(word, 8, 1));
  EXPECT_EQ(word.load(), Tagged::make(8, 1).word);
}

TEST(RaiseTagged, DoesNotChangeAFrozenWord) {
  Word word{kFrozen};
  EXPECT_FALSE(raise_tagged(word, 8, 1));
  EXPECT_EQ(word.load(), kFrozen);
}

}  // namespace
}  // namespace weir::memory
