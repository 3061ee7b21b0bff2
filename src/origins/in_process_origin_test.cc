#include "origins/in_process_origin.h"

#include <atomic>
#include <thread>

#include "tests/contracts/bridge_contract.h"
#include "tests/contracts/exact_contract.h"
#include "tests/contracts/origin_contract.h"

namespace weir::contracts {

struct InProcess {
  using Clock = doubles::ManualClock;
  static constexpr bool kTimeIsReal = false;
  explicit InProcess(const Clock& at)
      : clock(at), origin(std::make_shared<origins::InProcessOrigin>(at)) {}
  [[nodiscard]] std::shared_ptr<RegionalOrigin> make() const { return origin; }
  [[nodiscard]] std::shared_ptr<RegionalOrigin> another() const {
    return origin->another_endpoint();
  }
  void settle() const {}
  void await_subscribers(size_t) const {}
  template <typename Condition>
  void await(const Condition& condition) const {
    EXPECT_TRUE(condition());
  }
  const Clock& clock;
  std::shared_ptr<origins::InProcessOrigin> origin;
};

INSTANTIATE_TYPED_TEST_SUITE_P(InProcessOrigin, OriginContract, InProcess);
INSTANTIATE_TYPED_TEST_SUITE_P(InProcessOrigin, BridgeContract, InProcess);
INSTANTIATE_TYPED_TEST_SUITE_P(InProcessOrigin, ExactContract, InProcess);

}  // namespace weir::contracts

namespace weir::origins {
namespace {

using contracts::Inbox;

class InProcessOriginTest : public ::testing::Test {
 protected:
  [[nodiscard]] WallTime in(int64_t ms) const { return clock_.now().wall + Millis(ms); }

  static std::vector<RegionCount> regions(InProcessOrigin& origin, const std::string& tuple) {
    std::vector<RegionCount> regions;
    origin.read_tuples({{.tuple = tuple, .sequences = {}}},
                       [&](const auto& counts) { regions = counts->at(0).regions; });
    return regions;
  }
  void update(InProcessOrigin& origin, const std::string& tuple, Count count, Millis kept) {
    origin.update_tuples({{.tuple = tuple,
                           .counts = {{.region = "eu", .sequence = 5, .count = count}},
                           .kept_until = clock_.now().wall + kept,
                           .sequences = {}}},
                         [](const auto& counts) { EXPECT_TRUE(counts.ok()); });
  }
  static BridgeGrant acquire(InProcessOrigin& origin, const std::string& holder) {
    BridgeGrant grant;
    origin.acquire(holder, Millis(1000), [&](const auto& reply) { grant = *reply; });
    return grant;
  }
  static std::vector<DueTuple> due(InProcessOrigin& origin) {
    std::vector<DueTuple> entries;
    origin.read_due(WallTime{}, WallTime::max(), 100, [&](const auto& reply) { entries = *reply; });
    return entries;
  }
  void replay(InProcessOrigin& origin, const std::string& tuple) {
    origin.replay({{.cell = {tuple, 5},
                    .writer = {1, 1},
                    .total = 3,
                    .expires_at = in(60'000),
                    .due = Due::kNow}},
                  [](const auto& totals) { EXPECT_TRUE(totals.ok()); });
  }

  doubles::ManualClock clock_;
};

TEST_F(InProcessOriginTest, KeepsRegionCountsUntilTheLatestTimeOfAllUpdates) {
  InProcessOrigin origin(clock_);
  update(origin, "a", 1, Millis(3000));
  update(origin, "a", 2, Millis(1000));
  update(origin, "b", 1, Millis(1000));
  clock_.advance(Millis(999));
  EXPECT_EQ(regions(origin, "b").size(), 1u);
  clock_.advance(Millis(1));
  EXPECT_TRUE(regions(origin, "b").empty());
  EXPECT_EQ(regions(origin, "a").at(0).count, 2u);
  clock_.advance(Millis(1999));
  EXPECT_EQ(regions(origin, "a").at(0).count, 2u);
  clock_.advance(Millis(1));
  EXPECT_TRUE(regions(origin, "a").empty());
}

TEST_F(InProcessOriginTest, ExtendsTheTimeOfRegionCounts) {
  InProcessOrigin origin(clock_);
  update(origin, "a", 1, Millis(1000));
  update(origin, "a", 1, Millis(5000));
  clock_.advance(Millis(1000));
  EXPECT_EQ(regions(origin, "a").size(), 1u);
  clock_.advance(Millis(4000));
  EXPECT_TRUE(regions(origin, "a").empty());
}

TEST_F(InProcessOriginTest, DropsUpdatesOfNewTuplesWithoutCellsBeyondTheBound) {
  InProcessOrigin origin(clock_, {.max_tuples = 2});
  update(origin, "a", 1, Millis(1000));
  update(origin, "b", 1, Millis(2000));
  const TupleUpdate third{.tuple = "c",
                          .counts = {{.region = "eu", .sequence = 5, .count = 9}},
                          .kept_until = in(1000),
                          .sequences = {5}};
  origin.update_tuples({third}, [](const auto& counts) {
    EXPECT_TRUE(counts->at(0).regions.empty());
    EXPECT_TRUE(counts->at(0).dropped);
  });
  EXPECT_EQ(origin.dropped(), 1u);
  update(origin, "a", 4, Millis(1000));
  EXPECT_EQ(regions(origin, "a").at(0).count, 4u);
  EXPECT_EQ(origin.dropped(), 1u);
  // A tuple that this region counts is never dropped.
  replay(origin, "c");
  origin.update_tuples({third}, [](const auto& counts) {
    EXPECT_EQ(counts->at(0).regions.at(0).count, 9u);
    EXPECT_EQ(counts->at(0).windows.at(0).total, 3u);
    EXPECT_FALSE(counts->at(0).dropped);
  });
  EXPECT_EQ(origin.dropped(), 1u);
  clock_.advance(Millis(1000));  // the places of "a" and "c" are free
  update(origin, "d", 5, Millis(1000));
  EXPECT_EQ(regions(origin, "d").at(0).count, 5u);
  EXPECT_EQ(origin.dropped(), 1u);
}

TEST_F(InProcessOriginTest, KeepsUpdatesOfTuplesWithCellsBeyondTheBound) {
  InProcessOrigin origin(clock_, {.max_tuples = 1});
  update(origin, "a", 1, Millis(1000));
  replay(origin, "b");
  update(origin, "b", 9, Millis(1000));
  EXPECT_EQ(regions(origin, "b").at(0).count, 9u);
  EXPECT_EQ(origin.dropped(), 0u);
}

TEST_F(InProcessOriginTest, EndsTheLeaseOfTheBridgeAfterItsTime) {
  InProcessOrigin origin(clock_);
  EXPECT_TRUE(acquire(origin, "one").ours);
  clock_.advance(Millis(999));
  EXPECT_FALSE(acquire(origin, "two").ours);
  clock_.advance(Millis(1));
  origin.save("one", "", "late", [](const auto& saved) { EXPECT_FALSE(*saved); });
  EXPECT_TRUE(acquire(origin, "two").ours);
}

TEST_F(InProcessOriginTest, ClearsEverythingLikeARestart) {
  InProcessOrigin origin(clock_);
  Inbox inbox;
  const Subscription subscription = origin.subscribe(inbox.handler());
  EXPECT_TRUE(acquire(origin, "one").ours);
  origin.save("one", "", "state", [](const auto& saved) { EXPECT_TRUE(*saved); });
  update(origin, "a", 1, Millis(60'000));
  replay(origin, "a");
  origin.notify("before");
  origin.clear();
  EXPECT_TRUE(regions(origin, "a").empty());
  EXPECT_TRUE(origin.components({"a", 5}).empty());
  EXPECT_TRUE(due(origin).empty());
  const BridgeGrant grant = acquire(origin, "two");
  EXPECT_TRUE(grant.ours);
  EXPECT_EQ(grant.state, "");
  origin.notify("after");
  ASSERT_EQ(inbox.size(), 2u);
  EXPECT_EQ(inbox.messages()[1].number, 1u);
}

TEST_F(InProcessOriginTest, RestoresASnapshot) {
  InProcessOrigin origin(clock_);
  Inbox inbox;
  const Subscription subscription = origin.subscribe(inbox.handler());
  EXPECT_TRUE(acquire(origin, "one").ours);
  origin.save("one", "", "old", [](const auto& saved) { EXPECT_TRUE(*saved); });
  update(origin, "a", 1, Millis(60'000));
  replay(origin, "a");
  origin.notify("1");
  const InProcessOrigin::Snapshot snapshot = origin.snapshot();
  const std::vector<DueTuple> entries = due(origin);
  origin.save("one", "old", "new", [](const auto& saved) { EXPECT_TRUE(*saved); });
  update(origin, "a", 2, Millis(60'000));
  origin.remove_due(entries);
  origin.notify("2");
  origin.restore(snapshot);
  EXPECT_EQ(regions(origin, "a").at(0).count, 1u);
  EXPECT_EQ(due(origin), entries);
  EXPECT_EQ(acquire(origin, "one").state, "old");
  origin.notify("2 again");
  EXPECT_EQ(inbox.messages().at(2).number, 2u);
}

TEST_F(InProcessOriginTest, CountsEvictedKeys) {
  InProcessOrigin origin(clock_);
  update(origin, "a", 1, Millis(60'000));
  replay(origin, "a");
  replay(origin, "b");
  EXPECT_EQ(acquire(origin, "one").evicted, 0u);
  origin.evict("a");
  EXPECT_EQ(acquire(origin, "one").evicted, 2u);
  EXPECT_TRUE(regions(origin, "a").empty());
  EXPECT_TRUE(origin.components({"a", 5}).empty());
  EXPECT_EQ(origin.components({"b", 5}).size(), 1u);
}

TEST_F(InProcessOriginTest, LetsAHandlerCallTheStore) {
  InProcessOrigin origin(clock_);
  Inbox inbox;
  const Subscription other = origin.subscribe(inbox.handler());
  int calls = 0;
  Subscription subscription;
  subscription = origin.subscribe([&](const BridgeMessage& message) {
    ++calls;
    EXPECT_TRUE(regions(origin, "a").empty());
    if (message.body == "first") return origin.notify("second");
    subscription = nullptr;
    origin.notify("third");
  });
  origin.notify("first");
  EXPECT_EQ(calls, 2);
  const auto messages = inbox.messages();
  ASSERT_EQ(messages.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(messages[i].number, i + 1);
}

TEST_F(InProcessOriginTest, DeliversInOrderWhileThreadsNotifyAndSubscribe) {
  InProcessOrigin origin(clock_);
  constexpr int kMessages = 2000;
  uint64_t last = 0;  // only written by handler calls, which never overlap
  Subscription subscription = origin.subscribe([&](const BridgeMessage& message) {
    EXPECT_EQ(message.number, last + 1);
    last = message.number;
  });
  const auto other = origin.another_endpoint();
  std::atomic<bool> ended{false};
  std::thread changing([&] {
    while (!ended) {
      std::atomic<bool> gone{false};
      Subscription ending =
          other->bridge_store()->subscribe([&gone](const BridgeMessage&) { EXPECT_FALSE(gone); });
      ending = nullptr;
      gone = true;
    }
  });
  std::vector<std::thread> senders;
  for (int i = 0; i < 3; ++i) {
    senders.emplace_back([&] {
      for (int sent = 0; sent < kMessages; ++sent) origin.notify("x");
    });
  }
  for (std::thread& each : senders) each.join();
  ended = true;
  changing.join();
  subscription = nullptr;
  EXPECT_EQ(last, 3u * kMessages);
}

}  // namespace
}  // namespace weir::origins
