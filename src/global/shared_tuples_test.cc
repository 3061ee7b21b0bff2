#include "global/remote_counts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::global {
namespace {

memory::TupleKey key_of(const std::string& name) {
  static const base::KeyedHash hash(7);
  return {{.ns = "api", .identifier = name, .limit = 1, .duration = Millis(60'000)}, hash};
}

TEST(RemoteCounts, UseNoMoreThanTheBudgetHoweverMuchIsImported) {
  memory::ByteBudget budget(100'000);
  RemoteCounts remote("here", 1'000'000, &budget);
  const base::MutexLock lock(remote.mutex());
  std::vector<RemoteEntry*> entries;
  for (int i = 0; i < 10'000; ++i) {
    RemoteEntry* const entry =
        remote.obtain_imported(key_of(std::to_string(i)), EntrySource::kOtherRegion);
    ASSERT_LE(budget.used(), budget.limit());
    if (entry != nullptr) entries.push_back(entry);
  }
  EXPECT_GE(entries.size(), 100u);
  EXPECT_LE(entries.size(), 100'000 / sizeof(RemoteEntry));
  EXPECT_EQ(remote.imported_only(), entries.size());
  EXPECT_EQ(remote.obtain(key_of("one more")), nullptr);
  // Existing entries are found whether or not there is space.
  const uint64_t rest = budget.limit() - budget.used();
  ASSERT_TRUE(budget.reserve(memory::MemoryPart::kRegions, rest));
  EXPECT_EQ(remote.obtain(key_of("0")), entries[0]);
  EXPECT_EQ(remote.cell(*entries[0], 7, 7), nullptr);
  budget.release(memory::MemoryPart::kRegions, rest);
  for (RemoteEntry* entry : entries) remote.erase(*entry);
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_NE(remote.obtain(key_of("one more")), nullptr);
}

TEST(RemoteCounts, ReserveCellsAndRegionsOfAnEntryAcrossItsWindows) {
  memory::ByteBudget budget(20'000);
  RemoteCounts remote("here", 100, &budget);
  const base::MutexLock lock(remote.mutex());
  RemoteEntry* const entry = remote.obtain(key_of("alice"));
  ASSERT_NE(entry, nullptr);
  // The same regions in every window: after the first three windows no more memory is reserved.
  uint64_t after_three = 0;
  for (int64_t sequence = 0; sequence < 100; ++sequence) {
    RemoteCell* const cell = remote.cell(*entry, sequence, sequence);
    ASSERT_NE(cell, nullptr);
    EXPECT_EQ(cell->sequence, sequence);
    EXPECT_TRUE(cell->foreign.empty());
    for (RegionNumber region = 0; region < 9; ++region) {
      Count* const count = remote.of_region(*entry, cell->foreign, region);
      ASSERT_NE(count, nullptr);
      *count = region;
      EXPECT_EQ(remote.of_region(*entry, cell->foreign, region), count);
    }
    EXPECT_EQ(cell->foreign_sum(), 36u);
    if (sequence == 2) after_three = budget.used();
    EXPECT_TRUE(sequence <= 2 || budget.used() == after_three) << sequence;
  }
  EXPECT_GE(after_three, sizeof(RemoteEntry) + 3 * (sizeof(RemoteCell) + 9 * 16));
  // A region beyond the budget is not added.
  RemoteCell* const cell = remote.cell(*entry, 100, 100);
  RegionNumber region = 0;
  while (remote.of_region(*entry, cell->foreign, region) != nullptr) ++region;
  EXPECT_EQ(cell->foreign.size(), region);
  EXPECT_LE(budget.used(), budget.limit());
  remote.erase(*entry);
  EXPECT_EQ(budget.used(), 0u);
}

// Regression: the 65,537th name got the number of the first, which merged two regions' counts.
TEST(RemoteCounts, NeverGiveTwoRegionsOneNumber) {
  memory::ByteBudget budget(100'000'000);
  RemoteCounts remote("east", 16, &budget);
  const base::MutexLock lock(remote.mutex());
  constexpr uint32_t kNames = 70'000;
  for (uint32_t i = 0; i < kNames; ++i) {
    ASSERT_EQ(remote.number_of("region-" + std::to_string(i)), i);
  }
  for (uint32_t i = 0; i < kNames; i += 7) {
    ASSERT_EQ(remote.number_of("region-" + std::to_string(i)), i);
  }
}

}  // namespace
}  // namespace weir::global
