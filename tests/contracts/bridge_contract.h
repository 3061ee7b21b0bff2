// The contract of BridgeStore, and of the parts of RegionalOrigin that serve it: each
// implementation passes this suite.
//
// A maker is constructed with its `Clock`. It provides make() and another(), two endpoints of one
// store, settle(), which waits for pending replies, and await(), which waits for messages.

#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/contracts/bridge_contract_fixture.h"

namespace weir::contracts {

TYPED_TEST_SUITE_P(BridgeContract);

TYPED_TEST_P(BridgeContract, GrantsTheLeaseToOneHolder) {
  EXPECT_TRUE(this->acquire("one").ours);
  EXPECT_FALSE(this->acquire("two").ours);
  EXPECT_TRUE(this->acquire("one").ours);  // renewed
  this->store().release("two");
  EXPECT_FALSE(this->acquire("two").ours);
  this->store().release("one");
  EXPECT_TRUE(this->acquire("two").ours);
  EXPECT_FALSE(this->acquire("one").ours);
}

TYPED_TEST_P(BridgeContract, ReturnsTheSavedStateToEveryCaller) {
  EXPECT_EQ(this->acquire("one").state, "");
  EXPECT_TRUE(this->save("one", binary("first")));
  EXPECT_TRUE(this->save("one", binary("second"), binary("first")));
  EXPECT_FALSE(this->save("one", binary("third"), binary("first")));
  EXPECT_FALSE(this->save("one", binary("third")));
  EXPECT_EQ(this->acquire("one").state, binary("second"));
  EXPECT_EQ(this->acquire("two").state, binary("second"));
  this->store().release("one");
  EXPECT_EQ(this->acquire("two").state, binary("second"));
}

TYPED_TEST_P(BridgeContract, SavesOnlyForTheHolderOfTheLease) {
  EXPECT_FALSE(this->save("one", "nobody is the bridge"));
  ASSERT_TRUE(this->acquire("one").ours);
  EXPECT_FALSE(this->save("two", "another is the bridge"));
  EXPECT_TRUE(this->save("one", "state"));
  this->store().release("one");
  EXPECT_FALSE(this->save("one", "released", "state"));
  EXPECT_EQ(this->acquire("one").state, "state");
}

TYPED_TEST_P(BridgeContract, ReadsDueEntriesByTimeUpToABound) {
  const DueTuple first{.tuple = binary("c"), .kind = Due::kWindowEnd, .at = this->far(1000)};
  const DueTuple second{.tuple = "b", .kind = Due::kNow, .at = this->far(1001)};
  const DueTuple third{.tuple = "a", .kind = Due::kNow, .at = this->far(1002)};
  EXPECT_TRUE(this->read_due(this->far(5000)).empty());
  this->store().add_due({third, first, second});
  EXPECT_TRUE(this->read_due(this->far(999)).empty());
  EXPECT_EQ(this->read_due(this->far(1000)), std::vector{first});
  EXPECT_EQ(this->read_due(this->far(1001)), (std::vector{first, second}));
  EXPECT_EQ(this->read_due(this->far(5000)), (std::vector{first, second, third}));
  EXPECT_EQ(this->read_due(this->far(5000), 2), (std::vector{first, second}));
  EXPECT_EQ(this->read_due(this->far(5000), 1000, this->far(1001)), (std::vector{second, third}));
  EXPECT_EQ(this->read_due(this->far(5000), 1, this->far(1001)), std::vector{second});
  EXPECT_TRUE(this->read_due(this->far(5000), 1000, this->far(1003)).empty());
}

TYPED_TEST_P(BridgeContract, KeepsOneDueEntryOfEachKind) {
  const DueTuple now{.tuple = "a", .kind = Due::kNow, .at = this->far(1000)};
  const DueTuple end{.tuple = "a", .kind = Due::kWindowEnd, .at = this->far(2000)};
  DueTuple later = now;
  later.at = this->far(3000);
  this->store().add_due({now, end, later});
  const auto due = [&] {
    auto entries = this->read_due(this->far(5000));
    for (DueTuple& each : entries) each.revision = 0;
    return entries;
  };
  EXPECT_EQ(due(), (std::vector{end, later}));
  DueTuple earlier = end;
  earlier.at = this->far(500);
  this->store().add_due({earlier, end});
  EXPECT_EQ(due(), (std::vector{earlier, later}));
  const DueTuple rule{.tuple = "a", .kind = Due::kRule, .at = this->far(4000)};
  this->store().add_due({rule});
  EXPECT_EQ(due(), (std::vector{earlier, later, rule}));
}

// A bridge publishes the counts that it has read. An addition after that has new counts, also if it
// has the same time, or the time of another clock.
TYPED_TEST_P(BridgeContract, KeepsADueEntryThatWasAddedAgainSinceItWasRead) {
  const std::vector<std::vector<int64_t>> additions = {
      {1000}, {1000, 1000}, {1000, 1000, 1000}, {999, 1000}, {1001, 1000}, {999, 1000, 999, 1000}};
  for (const Due kind : {Due::kNow, Due::kRule}) {
    for (const auto& times : additions) {
      DueTuple entry{.tuple = binary("a"), .kind = kind, .at = this->far(1000)};
      this->store().add_due({entry});
      const auto read = this->read_due(this->far(5000));
      ASSERT_EQ(read, std::vector{entry});
      for (const int64_t time : times) {
        entry.at = this->far(time);
        this->store().add_due({entry});
      }
      this->store().remove_due(read);
      const auto left = this->read_due(this->far(times.back()));
      ASSERT_EQ(left.size(), 1u) << testing::PrintToString(times);
      EXPECT_EQ(left[0].at, this->far(times.back()));
      EXPECT_TRUE(this->read_due(this->far(times.back() - 1)).empty());
      this->store().remove_due(left);
      EXPECT_TRUE(this->read_due(this->far(5000)).empty());
    }
  }
}

TYPED_TEST_P(BridgeContract, RemovesADueEntryOnlyIfItsTimeIsTheSame) {
  const DueTuple now{.tuple = binary("a"), .kind = Due::kNow, .at = this->far(1000)};
  const DueTuple end{.tuple = binary("a"), .kind = Due::kWindowEnd, .at = this->far(2000)};
  this->store().add_due({now, end});
  DueTuple other = now;
  other.at = this->far(1001);
  this->store().remove_due({other, {.tuple = "unknown", .at = this->far(1000)}});
  EXPECT_EQ(this->read_due(this->far(5000)), (std::vector{now, end}));
  this->store().remove_due({now, other});
  EXPECT_EQ(this->read_due(this->far(5000)), std::vector{end});
  // A removed entry does not hold its earlier time.
  this->store().add_due({other});
  EXPECT_EQ(this->read_due(this->far(5000)), (std::vector{other, end}));
}

TYPED_TEST_P(BridgeContract, AddsADueEntryWithAReplay) {
  constexpr int64_t kDuration = 60'000;
  const int64_t sequence = this->clock_.now().wall.time_since_epoch().count() / kDuration;
  CellReplay cell{.cell = {binary("a"), sequence},
                  .writer = this->kNode,
                  .total = 1,
                  .expires_at = this->at((sequence + 2) * kDuration)};
  this->replay(cell);
  EXPECT_TRUE(this->read_due(this->in(1'000'000)).empty());
  cell.due = Due::kWindowEnd;
  this->replay(cell);
  const DueTuple end{
      .tuple = binary("a"), .kind = Due::kWindowEnd, .at = this->at((sequence + 1) * kDuration)};
  EXPECT_EQ(this->read_due(this->in(1'000'000)), std::vector{end});
  cell.due = Due::kNow;
  this->replay(cell);
  this->store().remove_due({end});
  const auto due = this->read_due(this->in(1'000'000));
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].tuple, binary("a"));
  EXPECT_EQ(due[0].kind, Due::kNow);
  // Due by the clock of the store, which a node may know with an error.
  this->maker_.await([&] { return this->read_due(WallTime{}) == due; });
}

TYPED_TEST_P(BridgeContract, AddsNoDueEntryForAnExpiredCell) {
  for (const Due due : {Due::kNow, Due::kWindowEnd}) {
    this->replay({.cell = {"a", 5},
                  .writer = this->kNode,
                  .total = 1,
                  .expires_at = this->in(-1),
                  .limit_seen = 10,
                  .due = due});
  }
  EXPECT_TRUE(this->read_due(this->in(1'000'000)).empty());
  EXPECT_EQ(this->read_tuple("a", {5}).windows.at(0).limit_seen, 0u);
}

TYPED_TEST_P(BridgeContract, ReadsTheTotalAndTheSmallestLimitOfEachWindow) {
  const auto write = [&](const std::string& tuple, int64_t sequence, Component writer, Count total,
                         Count limit) {
    this->replay({.cell = {tuple, sequence},
                  .writer = writer,
                  .total = total,
                  .expires_at = this->in(60'000),
                  .limit_seen = limit});
  };
  write("a", 5, this->kNode, 3, 0);
  EXPECT_EQ(this->read_tuple("a", {5}).windows.at(0).limit_seen, 0u);
  write("a", 5, this->kNode, 3, 100);
  write("a", 5, this->kSibling, 4, 90);
  write("a", 6, this->kSibling, 2, 80);
  write("b", 5, this->kNode, 0, 70);  // nothing was admitted
  const auto counts =
      this->read_tuples({{.tuple = "b", .sequences = {5}}, {.tuple = "a", .sequences = {6, 4, 5}}});
  ASSERT_EQ(counts.size(), 2u);
  ASSERT_EQ(counts[0].windows.size(), 1u);
  EXPECT_EQ(counts[0].windows[0].total, 0u);
  EXPECT_EQ(counts[0].windows[0].limit_seen, 70u);
  ASSERT_EQ(counts[1].windows.size(), 3u);
  EXPECT_EQ(counts[1].windows[0].sequence, 6);
  EXPECT_EQ(counts[1].windows[0].total, 2u);
  EXPECT_EQ(counts[1].windows[0].limit_seen, 80u);
  EXPECT_EQ(counts[1].windows[1].sequence, 4);
  EXPECT_EQ(counts[1].windows[1].total, 0u);
  EXPECT_EQ(counts[1].windows[1].limit_seen, 0u);
  EXPECT_EQ(counts[1].windows[2].total, 7u);
  EXPECT_EQ(counts[1].windows[2].limit_seen, 90u);
  // A limit is not a component.
  const CellTotals totals = this->read({{.cell = {"a", 5}, .reader = this->kNode}}).at(0);
  EXPECT_EQ(totals.mine, 3u);
  EXPECT_EQ(totals.siblings, 4u);
}

TYPED_TEST_P(BridgeContract, KeepsTheLimitOfARetiredComponent) {
  const CellId cell{"a", 5};
  for (const auto& [writer, limit] : {std::pair{this->kNode, Count{90}}, {this->kSibling, 100}}) {
    this->replay({.cell = cell,
                  .writer = writer,
                  .total = 3,
                  .expires_at = this->in(60'000),
                  .limit_seen = limit});
  }
  const auto window = [&] { return this->read_tuple("a", {5}).windows.at(0); };
  this->retire(cell, this->kNode);
  EXPECT_EQ(window().limit_seen, 90u);
  this->retire(cell, this->kSibling);
  this->retire(cell, this->kSibling);
  EXPECT_EQ(window().limit_seen, 90u);
  EXPECT_EQ(window().total, 6u);
}

TYPED_TEST_P(BridgeContract, RaisesCountsAndLeasesAndLowersLimits) {
  const WallTime lease = this->in(100'000);
  const RegionCount first{
      .region = "eu", .sequence = 5, .count = 7, .limit_seen = 100, .leased_until = lease};
  EXPECT_EQ(this->update("a", {first}), std::vector{first});
  EXPECT_EQ(this->update("a", {first}), std::vector{first});
  RegionCount older = first;
  older.count = 6;
  older.limit_seen = 101;
  older.leased_until = lease - Millis(1);
  EXPECT_EQ(this->update("a", {older}), std::vector{first});
  RegionCount unknown = first;
  unknown.limit_seen = 0;
  unknown.leased_until = {};
  EXPECT_EQ(this->update("a", {unknown}), std::vector{first});
  RegionCount newer = first;
  newer.count = 8;
  newer.limit_seen = 99;
  newer.leased_until = lease + Millis(1);
  EXPECT_EQ(this->update("a", {newer, older}), std::vector{newer});
  EXPECT_EQ(this->read_tuple("a").regions, std::vector{newer});
  EXPECT_TRUE(this->read_tuple("b").regions.empty());
}

TYPED_TEST_P(BridgeContract, KeepsTheNewestThreeWindowsAndTheLeaseOfEachRegion) {
  const WallTime lease = this->in(100'000);
  const auto count_of = [&](const std::string& region, int64_t sequence) {
    return RegionCount{
        .region = region, .sequence = sequence, .count = 1 + static_cast<Count>(sequence)};
  };
  RegionCount oldest = count_of("eu", 3);
  oldest.leased_until = lease;
  this->update("a", {oldest, count_of("us", 3)});
  const auto regions = this->update("a", {count_of("eu", 6), count_of("eu", 5), count_of("eu", 4)});
  std::vector<RegionCount> expected = {count_of("eu", 4), count_of("eu", 5), count_of("eu", 6)};
  for (RegionCount& each : expected) each.leased_until = lease;
  expected.push_back(count_of("us", 3));
  EXPECT_EQ(regions, expected);
  // An older window changes nothing, but its lease counts.
  RegionCount late = count_of("eu", 2);
  late.leased_until = lease + Millis(1);
  for (size_t i = 0; i < 3; ++i) expected[i].leased_until = late.leased_until;
  EXPECT_EQ(this->update("a", {late}), expected);
}

TYPED_TEST_P(BridgeContract, ReturnsALeaseWithoutAWindow) {
  const RegionCount lease{.region = "eu", .leased_until = this->in(100'000)};
  EXPECT_EQ(this->update("a", {lease}), std::vector{lease});
  RegionCount window{.region = "eu", .sequence = 5, .count = 2};
  const RegionCount seen{.region = "eu", .sequence = 6, .limit_seen = 9};
  const auto regions = this->update("a", {window, seen});
  ASSERT_EQ(regions.size(), 2u);
  window.leased_until = lease.leased_until;
  EXPECT_EQ(regions[0], window);
  EXPECT_EQ(regions[1].limit_seen, 9u);
}

TYPED_TEST_P(BridgeContract, ReturnsEachUpdatedTupleWithTheRequestedWindows) {
  this->replay({.cell = {binary("a"), 5},
                .writer = this->kNode,
                .total = 3,
                .expires_at = this->in(60'000),
                .limit_seen = 20});
  const RegionCount eu{.region = binary("eu"), .sequence = 5, .count = 3, .limit_seen = 4};
  const RegionCount us{.region = "us:1,2 3", .sequence = 5, .count = Count{1} << 43};
  const auto counts = this->update_tuples(
      {{.tuple = "b", .counts = {us}, .kept_until = this->in(9000), .sequences = {}},
       {.tuple = binary("a"),
        .counts = {us, eu},
        .kept_until = this->in(9000),
        .sequences = {6, 5}},
       {.tuple = "c", .counts = {}, .sequences = {5}}});
  ASSERT_EQ(counts.size(), 3u);
  EXPECT_EQ(counts[0].regions, std::vector{us});
  EXPECT_TRUE(counts[0].windows.empty());
  EXPECT_EQ(counts[1].regions, (std::vector{eu, us}));
  ASSERT_EQ(counts[1].windows.size(), 2u);
  EXPECT_EQ(counts[1].windows[0].total, 0u);
  EXPECT_EQ(counts[1].windows[1].total, 3u);
  EXPECT_EQ(counts[1].windows[1].limit_seen, 20u);
  EXPECT_TRUE(counts[2].regions.empty());
  EXPECT_EQ(counts[2].windows.size(), 1u);
  EXPECT_TRUE(this->update_tuples({}).empty());
  EXPECT_TRUE(this->read_tuples({}).empty());
}

TYPED_TEST_P(BridgeContract, AddsWhatTheNamedWritersLackToTheDepartedComponent) {
  const CellId cell{"a", 5};
  for (const Component& writer : {this->kNode, this->kSibling}) {
    this->replay({.cell = cell,
                  .writer = writer,
                  .total = 4,
                  .expires_at = this->in(60'000),
                  .limit_seen = 90});
  }
  const auto raise = [&](Count total, std::vector<uint64_t> writers) {
    const auto counts = this->update_tuples({{.tuple = "b", .counts = {}, .sequences = {}},
                                             {.tuple = "a",
                                              .counts = {},
                                              .sequences = {5},
                                              .floors = {{.sequence = 5,
                                                          .total = total,
                                                          .expires_at = this->in(60'000),
                                                          .writers = std::move(writers)}}}});
    const Count departed = this->read({{.cell = cell, .reader = kDeparted}}).at(0).mine;
    EXPECT_EQ(counts.at(1).windows.at(0).total, 8 + departed);  // after the update
    return departed;
  };
  EXPECT_EQ(raise(10, {this->kNode.incarnation, this->kSibling.incarnation, 12345}), 2u);
  EXPECT_EQ(raise(10, {this->kSibling.incarnation}), 6u);
  EXPECT_EQ(raise(10, {}), 10u);
  EXPECT_EQ(raise(10, {this->kNode.incarnation}), 10u);
}

TYPED_TEST_P(BridgeContract, IgnoresAnUpdateThatHasEnded) {
  const RegionCount eu{.region = "eu", .sequence = 5, .count = 3};
  EXPECT_TRUE(this->update("a", {eu}, Millis(0)).empty());
  EXPECT_TRUE(this->read_tuple("a").regions.empty());
}

TYPED_TEST_P(BridgeContract, ReadsRegionCountsWithTheCellsThatRequestThem) {
  const RegionCount eu{.region = "eu", .sequence = 5, .count = 3, .leased_until = this->in(70'000)};
  this->update("a", {eu});
  const auto totals = this->read({{.cell = {"a", 5}, .reader = this->kNode},
                                  {.cell = {"a", 6}, .reader = this->kNode, .with_regions = true},
                                  {.cell = {"b", 5}, .reader = this->kNode, .with_regions = true},
                                  {.cell = {"a", 5}, .reader = this->kNode, .with_regions = true}});
  ASSERT_EQ(totals.size(), 4u);
  EXPECT_EQ(totals[0].regions, nullptr);
  ASSERT_TRUE(totals[1].regions && totals[2].regions && totals[3].regions);
  EXPECT_EQ(*totals[1].regions, std::vector{eu});
  EXPECT_TRUE(totals[2].regions->empty());
  EXPECT_EQ(*totals[3].regions, std::vector{eu});
}

TYPED_TEST_P(BridgeContract, DeliversNumberedMessagesToAllSubscribers) {
  const std::shared_ptr<RegionalOrigin> other = this->maker_.another();
  Inbox mine, theirs;
  const Subscription subscriptions[] = {this->store().subscribe(mine.handler()),
                                        other->bridge_store()->subscribe(theirs.handler())};
  this->maker_.await_subscribers(2);
  const auto sent_and_received = [&](BridgeStore& from, const std::string& body, size_t count) {
    from.notify(body);
    this->maker_.await([&] { return mine.size() == count && theirs.size() == count; });
  };
  sent_and_received(this->store(), binary("one"), 1);
  sent_and_received(*other->bridge_store(), "two", 2);
  sent_and_received(this->store(), "", 3);
  for (const Inbox* const inbox : {&mine, &theirs}) {
    const auto messages = inbox->messages();
    ASSERT_EQ(messages.size(), 3u);
    EXPECT_EQ(messages[0].body, binary("one"));
    EXPECT_EQ(messages[1].body, "two");
    EXPECT_EQ(messages[2].body, "");
    EXPECT_EQ(messages[1].number, messages[0].number + 1);
    EXPECT_EQ(messages[2].number, messages[0].number + 2);
  }
}

// Two limiters of one process may share one origin object.
TYPED_TEST_P(BridgeContract, DeliversEachMessageToEveryHandlerUntilItEnds) {
  const std::shared_ptr<RegionalOrigin> other = this->maker_.another();
  Inbox first, second, witness;
  Subscription one = this->store().subscribe(first.handler());
  Subscription two = this->store().subscribe(second.handler());
  const Subscription last = other->bridge_store()->subscribe(witness.handler());
  this->maker_.await_subscribers(2);
  this->store().notify("a");
  this->maker_.await(
      [&] { return first.size() == 1 && second.size() == 1 && witness.size() == 1; });
  one = nullptr;
  this->store().notify("b");
  this->maker_.await([&] { return second.size() == 2 && witness.size() == 2; });
  Subscription copy = two;
  two = nullptr;  // not the last copy
  this->store().notify("c");
  this->maker_.await([&] { return second.size() == 3 && witness.size() == 3; });
  copy = nullptr;
  this->store().notify("d");
  this->maker_.await([&] { return witness.size() == 4; });
  this->maker_.settle();
  EXPECT_EQ(first.size(), 1u);
  EXPECT_EQ(second.size(), 3u);
}

TYPED_TEST_P(BridgeContract, WaitsForACallInProgressWhenASubscriptionEnds) {
  std::atomic<bool> called{false}, ending{false}, returned{false};
  Subscription subscription = this->store().subscribe([&](const BridgeMessage&) {
    called = true;
    while (!ending) std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    returned = true;
  });
  this->maker_.await_subscribers(1);
  std::thread sender([&] { this->store().notify("a"); });
  while (!called) std::this_thread::yield();
  ending = true;
  subscription = nullptr;
  EXPECT_TRUE(returned);
  sender.join();
}

TYPED_TEST_P(BridgeContract, LetsAHandlerEndItsOwnSubscription) {
  Inbox inbox;
  Subscription ending;
  std::atomic<int> calls{0};
  const Subscription last = this->store().subscribe(inbox.handler());
  this->maker_.await_subscribers(1);
  ending = this->store().subscribe([&](const BridgeMessage&) {
    ++calls;
    ending = nullptr;
  });
  this->store().notify("a");
  this->store().notify("b");
  this->maker_.await([&] { return inbox.size() == 2 && calls > 0; });
  this->maker_.settle();
  EXPECT_EQ(calls, 1);
}

REGISTER_TYPED_TEST_SUITE_P(
    BridgeContract, GrantsTheLeaseToOneHolder, ReturnsTheSavedStateToEveryCaller,
    SavesOnlyForTheHolderOfTheLease, ReadsDueEntriesByTimeUpToABound, KeepsOneDueEntryOfEachKind,
    KeepsADueEntryThatWasAddedAgainSinceItWasRead, RemovesADueEntryOnlyIfItsTimeIsTheSame,
    AddsADueEntryWithAReplay, AddsNoDueEntryForAnExpiredCell,
    ReadsTheTotalAndTheSmallestLimitOfEachWindow, KeepsTheLimitOfARetiredComponent,
    RaisesCountsAndLeasesAndLowersLimits, KeepsTheNewestThreeWindowsAndTheLeaseOfEachRegion,
    ReturnsALeaseWithoutAWindow, ReturnsEachUpdatedTupleWithTheRequestedWindows,
    AddsWhatTheNamedWritersLackToTheDepartedComponent, IgnoresAnUpdateThatHasEnded,
    ReadsRegionCountsWithTheCellsThatRequestThem, DeliversNumberedMessagesToAllSubscribers,
    DeliversEachMessageToEveryHandlerUntilItEnds, WaitsForACallInProgressWhenASubscriptionEnds,
    LetsAHandlerEndItsOwnSubscription);

}  // namespace weir::contracts
