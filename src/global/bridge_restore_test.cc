// The origin lost its data, and its own rows in the ledger have counts that nobody replays.

#include <gtest/gtest.h>

#include "global/bridge_fixture_test.h"

namespace weir::global {
namespace {

constexpr Component kNewProcess{.incarnation = 78, .generation = 1};

class BridgeRestore : public BridgeFixture {
 protected:
  // The region has published 60 of one process. Both the origin and that process lose them.
  void SetUp() override {
    {
      const auto former = make_process("former");
      replay("a", 60, Due::kNow);
      pass(Millis(1000), {former.get()});
    }
    ASSERT_EQ(in_ledger("a"), 60U);
    origin_->clear();
  }
  // The process of replay() has survived.
  void survive() {
    origin_->bridge_store()->keep_record(encode(SurvivorRecord{.incarnation = 77}),
                                         [](const auto&) {});
  }
  void replay_new(Count total) {
    origin_->replay({{.cell = cell(),
                      .writer = kNewProcess,
                      .total = total,
                      .expires_at = WallTime((current() + 2) * kDuration),
                      .limit_seen = 100,
                      .due = Due::kNow}},
                    [](const auto&) {});
  }
  [[nodiscard]] CellId cell() const { return {tuple_of("a"), current()}; }
  [[nodiscard]] Count departed() const { return components()[kDeparted]; }
  [[nodiscard]] Count total() const {
    Count sum = 0;
    for (const auto& [component, count] : components()) sum += count;
    return sum;
  }

 private:
  [[nodiscard]] std::map<Component, Count> components() const {
    return origin_->components(cell());
  }
};

TEST_F(BridgeRestore, PublishesNewCountsAlthoughTheOriginLostTheFormerOnes) {
  const auto process = make_process("one");
  replay_new(5);
  pass(Millis(9000), {process.get()});
  EXPECT_EQ(at_origin("here", "a"), 60U);
  EXPECT_EQ(total(), 5U);  // other processes may still replay
  EXPECT_EQ(in_ledger("a"), 60U);
  pass(Millis(3000), {process.get()});
  EXPECT_EQ(departed(), 60U);
  replay_new(8);
  pass(Millis(1000), {process.get()});
  EXPECT_EQ(total(), 68U);
  EXPECT_EQ(in_ledger("a"), 68U);
}

TEST_F(BridgeRestore, PublishesTheSumIfNewCountsExceedTheFormerOnes) {
  const auto process = make_process("one");
  pass(Millis(1000), {process.get()});
  replay_new(70);
  pass(Millis(1000), {process.get()});
  ASSERT_EQ(in_ledger("a"), 70U);
  pass(Millis(10'000), {process.get()});
  replay_new(71);
  pass(Millis(1000), {process.get()});
  EXPECT_EQ(in_ledger("a"), 131U);
}

// The replica does not have the last row of the region.
TEST_F(BridgeRestore, RestoresNoLessThanTheFeedHasAfterPagesOfALaggingReplica) {
  const auto replica = make_replica();
  {
    const auto former = make_process("former");
    replay("a", 80, Due::kNow);
    pass(Millis(1000), {former.get()});
  }
  ASSERT_EQ(in_ledger("a"), 80U);
  origin_->clear();
  const auto process = make_process("one");
  process->ledger->replica = replica;
  pass(Millis(500), {process.get()});
  process->ledger->replica = nullptr;
  pass(Millis(12'000), {process.get()});
  EXPECT_EQ(departed(), 80U);
}

// The region publishes, so a replica that lags is never complete up to the present head.
TEST_F(BridgeRestore, EndsIfAReplicaIsAlwaysBehind) {
  {
    const auto former = make_process("former");
    replay("a", 80, Due::kNow);
    pass(Millis(1000), {former.get()});
  }
  ASSERT_EQ(in_ledger("a"), 80U);
  origin_->clear();
  const auto process = make_process("one");
  for (Count count = 1; count <= 150; ++count) {
    process->ledger->replica = make_replica();
    replay("b", count, Due::kNow);
    pass(Millis(100), {process.get()});
  }
  EXPECT_GT(in_ledger("b"), 100U);
  EXPECT_EQ(departed(), 80U);
}

TEST_F(BridgeRestore, DoesNotCountTwiceWhatAProcessReplays) {
  const auto process = make_process("one");
  pass(Millis(8000), {process.get()});
  survive();
  replay("a", 40, Due::kNever);
  replay_new(5);
  pass(Millis(10'000), {process.get()});
  EXPECT_EQ(departed(), 20U);
  EXPECT_EQ(total(), 65U);
  replay_new(5);  // it still waits
  pass(Millis(1000), {process.get()});
  EXPECT_EQ(in_ledger("a"), 65U);
}

// The bridge, too, makes its connections one after the other, and discards its positions each time.
TEST_F(BridgeRestore, CountsWhatIsNewAlsoIfItLearnsOfTheLossTwice) {
  const auto process = make_process("one");
  pass(Millis(1000), {process.get()});
  process->importer->discard_positions();
  replay_new(5);
  pass(Millis(12'000), {process.get()});
  EXPECT_EQ(total(), 65U);
}

// A connection that was closed is a loss, too, as far as the processes can tell. Then a component
// may be of a process that died long ago.
TEST_F(BridgeRestore, AddsNothingToAnOriginThatLostNothing) {
  const auto process = make_process("one");
  replay("a", 60, Due::kNever);
  pass(Millis(12'000), {process.get()});
  const Count before = departed();
  process->importer->discard_positions();
  pass(Millis(12'000), {process.get()});
  EXPECT_EQ(departed(), before);
}

TEST_F(BridgeRestore, HappensOnceForEachLoss) {
  const auto process = make_process("one");
  pass(Millis(12'000), {process.get()});
  ASSERT_EQ(departed(), 60U);
  const uint64_t reads = process->importer->stats().full_reads;
  replay_new(20);
  pass(Millis(20'000), {process.get()});
  EXPECT_EQ(departed(), 60U);
  EXPECT_EQ(in_ledger("a"), 80U);
  EXPECT_EQ(process->importer->stats().full_reads, reads);
}

TEST_F(BridgeRestore, IsDoneByTheNextBridgeIfThisOneDies) {
  const auto first = make_process("one");
  pass(Millis(8000), {first.get()});
  EXPECT_EQ(departed(), 0U);
  const auto second = make_process("two");
  pass(Millis(13'000), {second.get()});
  EXPECT_EQ(departed(), 60U);
}

TEST_F(BridgeRestore, WaitsAgainAfterAnotherLoss) {
  const auto process = make_process("one");
  pass(Millis(8000), {process.get()});
  origin_->clear();
  pass(Millis(8000), {process.get()});
  EXPECT_EQ(departed(), 0U);
  pass(Millis(4000), {process.get()});
  EXPECT_EQ(departed(), 60U);
}

// Its writer replays a cell that was evicted when it uses it, however late.
TEST_F(BridgeRestore, DoesNotReplaceCellsThatWereEvicted) {
  const auto process = make_process("one");
  survive();
  replay("a", 60, Due::kNever);
  pass(Millis(12'000), {process.get()});
  ASSERT_EQ(departed(), 0U);
  origin_->evict(tuple_of("a"));
  pass(Millis(15'000), {process.get()});
  EXPECT_EQ(at_origin("here", "a"), 60U);
  EXPECT_EQ(departed(), 0U);
}

}  // namespace
}  // namespace weir::global
