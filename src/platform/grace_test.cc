#include "platform/grace.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace weir::platform {
namespace {

TEST(Grace, IsOverAtOnceWhenNobodyReads) {
  EXPECT_TRUE(grace_is_over(draw_grace_ticket()));
}

TEST(Grace, WaitsForThoseWhoPinnedBeforeTheTicketOnly) {
  std::atomic<int> stage{0};
  std::thread reader([&] {
    {
      const Pin pin;
      stage = 1;
      while (stage != 2) {
      }
    }
    const Pin again;  // after the ticket was drawn
    stage = 3;
    while (stage != 4) {
    }
  });
  while (stage != 1) {
  }
  const uint64_t ticket = draw_grace_ticket();
  EXPECT_FALSE(grace_is_over(ticket));
  stage = 2;
  while (stage != 3) {
  }
  EXPECT_TRUE(grace_is_over(ticket));
  EXPECT_FALSE(grace_is_over(draw_grace_ticket()));
  stage = 4;
  reader.join();
}

TEST(Grace, CountsTheCallerToo) {
  const Pin pin;
  EXPECT_FALSE(grace_is_over(draw_grace_ticket()));
}

TEST(Grace, CountsNestedPinsAsOne) {
  const Pin outer;
  const uint64_t ticket = draw_grace_ticket();
  { const Pin inner; }
  EXPECT_FALSE(grace_is_over(ticket));
}

TEST(ThreadRecord, IsReusedWhenItsThreadHasEnded) {
  std::set<uint32_t> indices;
  for (int i = 0; i < 20; ++i) {
    std::thread([&] { indices.insert(this_thread_record().index); }).join();
  }
  EXPECT_EQ(indices.size(), 1u);
}

TEST(Grace, KeepsMemoryFromReadersThatStillUseIt) {
  // A box that is swapped out and, after its grace period, spoilt: no reader may see it so.
  struct Box {
    int value = 1;
  };
  std::atomic<Box*> current{new Box};
  std::atomic<bool> stop{false};
  std::atomic<int> spoilt{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        const Pin pin;
        if (current.load(std::memory_order_seq_cst)->value != 1) spoilt.fetch_add(1);
      }
    });
  }
  std::vector<std::pair<Box*, uint64_t>> hidden;
  for (int i = 0; i < 3000; ++i) {
    Box* old = current.exchange(new Box, std::memory_order_seq_cst);
    hidden.emplace_back(old, draw_grace_ticket());
    for (size_t k = 0; k < hidden.size();) {
      if (grace_is_over(hidden[k].second)) {
        hidden[k].first->value = 0;
        delete hidden[k].first;
        hidden[k] = hidden.back();
        hidden.pop_back();
      } else {
        ++k;
      }
    }
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  for (const auto& [box, ticket] : hidden) delete box;
  delete current.load();
  EXPECT_EQ(spoilt.load(), 0);
}

}  // namespace
}  // namespace weir::platform
