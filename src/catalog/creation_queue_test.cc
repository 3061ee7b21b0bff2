#include "catalog/creation_queue.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace weir::catalog {
namespace {

TEST(CreationQueue, AddsANameOnceUntilItIsReleased) {
  CreationQueue queue;
  EXPECT_TRUE(queue.add("ws", "a", "root"));
  EXPECT_FALSE(queue.add("ws", "a", "root"));
  EXPECT_TRUE(queue.add("ws", "b", "key_1"));
  EXPECT_TRUE(queue.add("ws_2", "a", "root"));
  const auto drained = queue.drain();
  ASSERT_EQ(drained.creations.size(), 3U);
  std::set<std::string> seen;
  for (const auto& each : drained.creations) {
    seen.insert(each.workspace + "/" + each.name + "/" + each.actor);
  }
  EXPECT_EQ(seen, (std::set<std::string>{"ws/a/root", "ws/b/key_1", "ws_2/a/root"}));
  EXPECT_FALSE(queue.add("ws", "a", "root")) << "it is being written";
  EXPECT_TRUE(queue.drain().creations.empty());
  queue.release(drained);
  EXPECT_TRUE(queue.add("ws", "a", "root"));
}

TEST(CreationQueue, GivesUpWhenItIsFull) {
  CreationQueue queue;
  size_t added = 0;
  for (int i = 0; i < 10'000; ++i) added += queue.add("ws", std::to_string(i), "root") ? 1 : 0;
  EXPECT_LE(added, CreationQueue::kSlots);
  EXPECT_GE(added, CreationQueue::kSlots / 2);
  const auto drained = queue.drain();
  EXPECT_EQ(drained.creations.size(), added);
  queue.release(drained);
  EXPECT_TRUE(queue.add("ws", "another", "root"));
}

}  // namespace
}  // namespace weir::catalog
