#include "global/shared_tuples.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::global {
namespace {

using Merge = SharedTuples::Merge;
constexpr Millis kMinute{60'000};

memory::TupleKey key_of(const std::string& name) {
  static const base::KeyedHash hash(7);
  return {{.ns = "api", .identifier = name, .limit = 1, .duration = kMinute}, hash};
}

RegionCount count_of(const std::string& region, int64_t sequence, Count count,
                     WallTime leased_until = {}) {
  return {.region = region,
          .sequence = sequence,
          .count = count,
          .limit_seen = 100,
          .leased_until = leased_until};
}

std::string numbered(uint32_t number) {
  return "region-" + std::to_string(number);
}

TEST(SharedTuples, UseNoMoreThanTheBudgetHoweverManyTuplesOthersCount) {
  memory::ByteBudget budget(100'000);
  SharedTuples shared("here", &budget);
  const base::MutexLock lock(shared.mutex());
  std::vector<SharedTuple*> entries;
  for (int i = 0; i < 10'000; ++i) {
    SharedTuple* const entry = shared.obtain(key_of(std::to_string(i)));
    ASSERT_LE(budget.used(), budget.limit());
    if (entry != nullptr) entries.push_back(entry);
  }
  EXPECT_GE(entries.size(), 100u);
  EXPECT_LE(entries.size(), 100'000 / sizeof(SharedTuple));
  EXPECT_EQ(shared.size(), entries.size());
  EXPECT_EQ(shared.obtain(key_of("one more")), nullptr);
  // Existing entries are found whether or not there is space.
  const uint64_t rest = budget.limit() - budget.used();
  ASSERT_TRUE(budget.reserve(memory::MemoryPart::kRegions, rest));
  EXPECT_EQ(shared.obtain(key_of("0")), entries[0]);
  EXPECT_EQ(shared.window(*entries[0], 7, 7), nullptr);
  EXPECT_EQ(shared.merge(*entries[0], 7, count_of("there", 7, 1)), Merge::kNoMemory);
  EXPECT_EQ(entries[0]->find(7), nullptr);
  budget.release(memory::MemoryPart::kRegions, rest);
  for (SharedTuple* entry : entries) shared.erase(*entry);
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(shared.size(), 0u);
  EXPECT_NE(shared.obtain(key_of("one more")), nullptr);
}

TEST(SharedTuples, ReserveWindowsAndRegionsOfATupleAcrossItsWindows) {
  memory::ByteBudget budget(20'000);
  SharedTuples shared("here", &budget);
  const base::MutexLock lock(shared.mutex());
  SharedTuple* const entry = shared.obtain(key_of("alice"));
  ASSERT_NE(entry, nullptr);
  // The same regions in every window: after the first three windows no more memory is reserved.
  uint64_t after_three = 0;
  for (int64_t sequence = 0; sequence < 100; ++sequence) {
    EXPECT_EQ(entry->find(sequence), nullptr);
    for (uint32_t region = 0; region < 9; ++region) {
      const Count count = region + 1;
      ASSERT_EQ(shared.merge(*entry, sequence, count_of(numbered(region), sequence, count)),
                Merge::kChanged);
      ASSERT_EQ(shared.merge(*entry, sequence, count_of(numbered(region), sequence, count)),
                Merge::kUnchanged);
    }
    const SharedWindow* const window = entry->find(sequence);
    ASSERT_NE(window, nullptr);
    EXPECT_EQ(window->sequence, sequence);
    EXPECT_EQ(window->foreign_sum(), 45u);
    EXPECT_EQ(entry->regions(sequence), 10u);
    if (sequence == 2) after_three = budget.used();
    EXPECT_TRUE(sequence <= 2 || budget.used() == after_three) << sequence;
  }
  EXPECT_GE(after_three, sizeof(SharedTuple) + 3 * (sizeof(SharedWindow) + 9 * 16));
  // A region beyond the budget is not added.
  uint32_t region = 0;
  while (shared.merge(*entry, 100, count_of(numbered(region), 100, 1)) == Merge::kChanged) ++region;
  EXPECT_EQ(shared.merge(*entry, 100, count_of(numbered(region), 100, 1)), Merge::kNoMemory);
  EXPECT_EQ(entry->find(100)->foreign.size(), region);
  EXPECT_LE(budget.used(), budget.limit());
  shared.erase(*entry);
  EXPECT_EQ(budget.used(), 0u);
}

// Regression: the 65,537th name got the number of the first, which merged two regions' counts.
TEST(SharedTuples, NeverTakeOneRegionForAnother) {
  memory::ByteBudget budget(100'000'000);
  SharedTuples shared("east", &budget);
  const base::MutexLock lock(shared.mutex());
  constexpr uint32_t kNames = 70'000;
  SharedTuple* const many = shared.obtain(key_of("many"));
  // Each region in one tuple of its own after the first, so that a list stays short.
  ASSERT_EQ(shared.merge(*many, 7, count_of(numbered(0), 7, 1)), Merge::kChanged);
  for (uint32_t i = 1; i < kNames; ++i) {
    SharedTuple* const one = shared.obtain(key_of("one"));
    ASSERT_EQ(shared.merge(*one, 7, count_of(numbered(i), 7, 1)), Merge::kChanged);
    shared.erase(*one);
  }
  ASSERT_EQ(shared.merge(*many, 7, count_of(numbered(65'536), 7, 1)), Merge::kChanged);
  ASSERT_EQ(shared.merge(*many, 7, count_of(numbered(0), 7, 1)), Merge::kUnchanged);
  EXPECT_EQ(many->find(7)->foreign_sum(), 2u);
}

TEST(SharedTuples, CountRegionsWithALeaseOnTheWholeWindowOrACountInIt) {
  SharedTuples shared("here", nullptr);
  const base::MutexLock lock(shared.mutex());
  SharedTuple* const entry = shared.obtain(key_of("alice"));
  EXPECT_EQ(entry->regions(7), 1u);
  (void)shared.merge(*entry, 7, count_of("counts", 7, 1));
  EXPECT_EQ(entry->regions(7), 2u);
  EXPECT_EQ(entry->regions(8), 1u);
  (void)shared.merge(*entry, 7, count_of("leases", 6, 1, end_of_window(8, kMinute)));
  EXPECT_EQ(entry->regions(7), 3u);
  EXPECT_EQ(entry->regions(8), 2u);
  EXPECT_EQ(entry->regions(9), 1u);
  // A lease that ends within a window does not cover it.
  (void)shared.merge(*entry, 7, count_of("short", 6, 0, end_of_window(8, kMinute) - Millis(1)));
  EXPECT_EQ(entry->regions(7), 4u);
  EXPECT_EQ(entry->regions(8), 2u);
  // The same region counts once.
  (void)shared.merge(*entry, 7, count_of("counts", 7, 1, end_of_window(7, kMinute)));
  EXPECT_EQ(entry->regions(7), 4u);
}

TEST(SharedTuples, TakeRowsOfTheOwnRegionForPublishedAndNeverForForeign) {
  SharedTuples shared("here", nullptr);
  const base::MutexLock lock(shared.mutex());
  SharedTuple* const entry = shared.obtain(key_of("alice"));
  EXPECT_FALSE(entry->is_leased(7));
  EXPECT_EQ(shared.merge(*entry, 7, count_of("here", 7, 30, end_of_window(7, kMinute))),
            Merge::kChanged);
  EXPECT_TRUE(entry->is_leased(7));
  EXPECT_FALSE(entry->is_leased(8));
  EXPECT_EQ(entry->find(7)->published, 30u);
  EXPECT_EQ(entry->find(7)->foreign_sum(), 0u);
  EXPECT_EQ(entry->regions(7), 1u);
  // An older row lowers nothing.
  EXPECT_EQ(shared.merge(*entry, 7, count_of("here", 7, 20)), Merge::kUnchanged);
  EXPECT_EQ(entry->find(7)->published, 30u);
  EXPECT_TRUE(entry->is_leased(7));
}

TEST(SharedTuples, ForgetWhatWasPublishedOfOneTuple) {
  SharedTuples shared("here", nullptr);
  const WallTime leased_until = end_of_window(7, kMinute);
  for (const char* name : {"alice", "bob"}) {
    const base::MutexLock lock(shared.mutex());
    SharedTuple* const entry = shared.obtain(key_of(name));
    SharedWindow* const window = shared.window(*entry, 7, 7);
    window->counted = 30;
    window->refused = true;
    (void)shared.merge(*entry, 7, count_of("here", 7, 30, leased_until));
    (void)shared.merge(*entry, 7, count_of("there", 7, 20, leased_until));
    ASSERT_TRUE(window->refusal_published);
  }
  shared.forget_published(key_of("alice"));
  shared.forget_published(key_of("nobody"));
  const base::MutexLock lock(shared.mutex());
  const SharedTuple* const alice = shared.find(key_of("alice"));
  EXPECT_FALSE(alice->is_leased(7));
  EXPECT_EQ(alice->find(7)->published, 0u);
  EXPECT_TRUE(alice->find(7)->refused);
  EXPECT_FALSE(alice->find(7)->refusal_published);
  EXPECT_EQ(alice->find(7)->foreign_sum(), 20u);
  EXPECT_EQ(alice->regions(7), 2u);
  const SharedTuple* const bob = shared.find(key_of("bob"));
  EXPECT_TRUE(bob->is_leased(7));
  EXPECT_EQ(bob->find(7)->published, 30u);
}

TEST(SharedTuples, IgnoreWindowsOfThePastAndOfAWrongFuture) {
  SharedTuples shared("here", nullptr);
  const base::MutexLock lock(shared.mutex());
  SharedTuple* const entry = shared.obtain(key_of("alice"));
  for (const int64_t sequence : {0, 5, 9, 100}) {
    EXPECT_EQ(shared.merge(*entry, 7, count_of("there", sequence, 1)), Merge::kUnchanged);
  }
  for (const int64_t sequence : {6, 7, 8}) {
    EXPECT_EQ(shared.merge(*entry, 7, count_of("there", sequence, 1)), Merge::kChanged);
  }
  // A clock that was ahead: the window of its time gives way to the present one.
  (void)shared.merge(*entry, 100, count_of("there", 100, 9));
  EXPECT_EQ(shared.merge(*entry, 7, count_of("there", 7, 2)), Merge::kChanged);
  EXPECT_EQ(entry->find(7)->foreign_sum(), 2u);
}

// Regression: the place of a window before the first was outside of the array.
TEST(SharedTuples, HaveAPlaceForWindowsAtTheBeginningOfTime) {
  SharedTuples shared("here", nullptr);
  const base::MutexLock lock(shared.mutex());
  SharedTuple* const entry = shared.obtain(key_of("alice"));
  EXPECT_EQ(entry->find(-1), nullptr);
  EXPECT_EQ(shared.merge(*entry, 0, count_of("there", -1, 3)), Merge::kChanged);
  EXPECT_EQ(shared.merge(*entry, 0, count_of("there", 0, 4)), Merge::kChanged);
  EXPECT_EQ(entry->find(0)->foreign_sum(), 4u);
}

TEST(SharedTuples, ReportEachNewTupleOnceUnlessItIsErased) {
  SharedTuples shared("here", nullptr);
  SharedTuple* one = nullptr;
  {
    const base::MutexLock lock(shared.mutex());
    one = shared.obtain(key_of("one"));
    shared.erase(*shared.obtain(key_of("two")));
    EXPECT_EQ(shared.obtain(key_of("one")), one);
  }
  EXPECT_EQ(shared.take_new(), std::vector{one});
  EXPECT_TRUE(shared.take_new().empty());
}

}  // namespace
}  // namespace weir::global
