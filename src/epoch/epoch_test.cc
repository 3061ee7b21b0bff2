#include "epoch/epoch.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace weir::epoch {
namespace {

TEST(Epoch, IsReclaimableAtOnceWithoutReaders) {
  EXPECT_TRUE(is_reclaimable(retire_epoch()));
}

TEST(Epoch, WaitsOnlyForGuardsMadeBeforeItWasRetired) {
  std::atomic<int> stage{0};
  std::thread reader([&] {
    {
      const Guard guard;
      stage = 1;
      while (stage != 2) {
      }
    }
    const Guard again;  // after the epoch was retired
    stage = 3;
    while (stage != 4) {
    }
  });
  while (stage != 1) {
  }
  const uint64_t retired = retire_epoch();
  EXPECT_FALSE(is_reclaimable(retired));
  stage = 2;
  while (stage != 3) {
  }
  EXPECT_TRUE(is_reclaimable(retired));
  EXPECT_FALSE(is_reclaimable(retire_epoch()));
  stage = 4;
  reader.join();
}

TEST(Epoch, WaitsForAGuardOfTheCaller) {
  const Guard guard;
  EXPECT_FALSE(is_reclaimable(retire_epoch()));
}

TEST(Epoch, WaitsForTheOuterOfTwoNestedGuards) {
  const Guard outer;
  const uint64_t retired = retire_epoch();
  { const Guard inner; }
  EXPECT_FALSE(is_reclaimable(retired));
}

TEST(ThreadRecord, IsReusedWhenItsThreadHasEnded) {
  std::set<uint32_t> indices;
  for (int i = 0; i < 20; ++i) {
    std::thread([&] { indices.insert(this_thread_record().index); }).join();
  }
  EXPECT_EQ(indices.size(), 1u);
}

TEST(Epoch, ProtectsMemoryThatReadersStillUse) {
  // A writer replaces a box and overwrites the old one once it is reclaimable: no reader may see
  // that.
  struct Box {
    int value = 1;
  };
  std::atomic<Box*> current{new Box};
  std::atomic<bool> stop{false};
  std::atomic<int> overwritten_reads{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        const Guard guard;
        if (current.load(std::memory_order_seq_cst)->value != 1) overwritten_reads.fetch_add(1);
      }
    });
  }
  std::vector<std::pair<Box*, uint64_t>> unlinked;
  for (int i = 0; i < 3000; ++i) {
    Box* old = current.exchange(new Box, std::memory_order_seq_cst);
    unlinked.emplace_back(old, retire_epoch());
    for (size_t k = 0; k < unlinked.size();) {
      if (is_reclaimable(unlinked[k].second)) {
        unlinked[k].first->value = 0;
        delete unlinked[k].first;
        unlinked[k] = unlinked.back();
        unlinked.pop_back();
      } else {
        ++k;
      }
    }
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  for (const auto& [box, retired] : unlinked) delete box;
  delete current.load();
  EXPECT_EQ(overwritten_reads.load(), 0);
}

}  // namespace
}  // namespace weir::epoch
