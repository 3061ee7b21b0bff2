// The ledger lost rows of the region, its feed began a new epoch, and the bridge that began it
// died. The next one must not take the feed for whole, whatever it learns first.

#include <gtest/gtest.h>

#include "global/bridge_fixture_test.h"

namespace weir::global {
namespace {

class BridgeLoss : public BridgeFixture {
 protected:
  void begin() {
    ledger_ = std::make_shared<ledgers::MemoryLedger>(clock_);
    origin_ = std::make_shared<origins::InProcessOrigin>(clock_);
    feeds_.clear();
    batches_.clear();
    // To the middle of a window.
    clock_.advance(kDuration + kDuration / 2 - clock_.now().wall.time_since_epoch() % kDuration);
    const auto first = make_process("first");
    lose_a_row(*first);
  }
  // This bridge publishes two rows, of which the ledger loses one. Another one has begun a new
  // epoch. The origin does not know of that: it came back with an old snapshot.
  void lose_a_row(Process& bridge) {
    replay("kept", 60, Due::kNow);
    pass(Millis(500), {&bridge});
    const auto behind = ledger_->snapshot();
    replay("lost", 70, Due::kNow);
    pass(Millis(300), {&bridge});
    ASSERT_EQ(in_ledger("lost"), 70U);
    ledger_->restore(*behind);
    const FeedPosition known = bridge.importer->own_position();
    feeds_["here"] = known;
    publish_for("here", "new", 5);
    ASSERT_GT(feeds_["here"].epoch, known.epoch);
    ASSERT_EQ(in_ledger("lost"), 0U);
  }
  // The next bridge, which reads its region whole.
  [[nodiscard]] std::unique_ptr<Process> make_next() {
    auto next = make_process("next");
    next->importer->discard_positions();
    return next;
  }
};

// Regression: the position in the new epoch was newer than the last record, and so the end of the
// feed of the records was not noticed.
TEST_F(BridgeLoss, IsFoundByRecordsThatAreReadAfterTheFeed) {
  begin();
  const auto next = make_next();
  next->store->has_records = false;
  pass(Millis(3000), {next.get()});
  ASSERT_EQ(in_ledger("lost"), 0U);
  ASSERT_EQ(saved()->cursors["here"], next->importer->own_position());
  next->store->has_records = true;
  pass(Millis(1000), {next.get()});
  EXPECT_EQ(in_ledger("lost"), 70U);
  EXPECT_EQ(next->importer->stats().lost, 1U);
}

// Regression: the records were read while a round was under way that did not know of them, and that
// took the position of a full read.
TEST_F(BridgeLoss, IsFoundWheneverTheRecordsAreRead) {
  for (Millis delay{0}; delay < Millis(600); delay += Millis(50)) {
    for (Millis late{0}; late < Millis(3000) && !HasFailure(); late += Millis(500)) {
      SCOPED_TRACE("delay " + std::to_string(delay.count()) + " ms, after " +
                   std::to_string(late.count()) + " ms");
      begin();
      const auto next = make_next();
      next->ledger->delay = delay;
      next->store->has_records = false;
      pass(late, {next.get()});
      next->store->has_records = true;
      pass(Millis(6000), {next.get()});
      EXPECT_EQ(in_ledger("lost"), 70U);
    }
  }
}

// Regression: the full read that finds out what the origin lost took the new epoch for known before
// a round had compared it with the records.
TEST_F(BridgeLoss, IsFoundWhileTheOriginIsRestored) {
  {
    const auto former = make_process("former");
    replay("former", 60, Due::kNow);
    pass(Millis(500), {former.get()});
  }
  origin_->clear();
  {
    const auto first = make_process("first");
    lose_a_row(*first);
  }
  ASSERT_EQ(saved()->cursors.count("here"), 0U);  // until the origin is restored
  const auto next = make_process("next");
  pass(Millis(3000), {next.get()});
  EXPECT_EQ(in_ledger("lost"), 70U);
}

// Regression: a process that slept while another one was the bridge took over its position without
// a comparison.
TEST_F(BridgeLoss, IsFoundByABridgeThatSlept) {
  const auto one = make_process("one");
  lose_a_row(*one);
  {
    const auto two = make_next();
    two->store->has_records = false;
    pass(Millis(3000), {two.get()});
    ASSERT_EQ(in_ledger("lost"), 0U);
  }
  clock_.advance(BridgeImporter::kLease);
  pass(Millis(3000), {one.get()});
  EXPECT_EQ(in_ledger("lost"), 70U);
}

// Regression: the lease of the other one had ended, too, when the process woke up. So it was not
// refused, and took the records that it had read before for the last ones. Its next batch got the
// number of the lost one, which hid the loss for good.
TEST_F(BridgeLoss, IsFoundByABridgeThatSleptUntilTheLeaseWasFree) {
  const auto one = make_process("one");
  replay("kept", 60, Due::kNow);
  pass(Millis(500), {one.get()});
  ASSERT_EQ(in_ledger("kept"), 60U);
  clock_.advance(BridgeImporter::kLease);
  const auto behind = ledger_->snapshot();
  {
    const auto two = make_process("two");
    pass(Millis(500), {two.get()});
    two->ledger->is_reachable = false;  // it saves no position
    replay("lost", 70, Due::kNow);
    pass(Millis(300), {two.get()});
    ASSERT_EQ(in_ledger("lost"), 70U);
  }
  ledger_->restore(*behind);
  clock_.advance(BridgeImporter::kLease);
  replay("new", 80, Due::kNow);
  pass(Millis(3000), {one.get()});
  EXPECT_EQ(in_ledger("new"), 80U);
  EXPECT_EQ(in_ledger("lost"), 70U);
}

}  // namespace
}  // namespace weir::global
