// Which process is the bridge, and what another one may do meanwhile.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "global/bridge_fixture_test.h"

namespace weir::global {
namespace {

class BridgeLease : public BridgeFixture {
 protected:
  [[nodiscard]] static bool is_bridge(const Process& process, const doubles::ManualClock& clock) {
    return process.importer->is_bridge(clock.now().mono);
  }
  [[nodiscard]] FeedPosition position(const std::string& region) const {
    auto state = saved();
    return state ? state->cursors[region] : FeedPosition{};
  }
};

TEST_F(BridgeLease, AnotherProcessTakesOverWithinTheLeaseOfADeadOne) {
  const auto one = make_process("one");
  const auto two = make_process("two");
  pass(Millis(500), {one.get(), two.get()});
  EXPECT_TRUE(is_bridge(*one, clock_));
  EXPECT_FALSE(is_bridge(*two, clock_));
  pass(BridgeImporter::kLease + Millis(310), {two.get()});
  EXPECT_FALSE(is_bridge(*one, clock_));
  EXPECT_TRUE(is_bridge(*two, clock_));
  publish_for("north", "a", 10);
  pass(Millis(500), {two.get()});
  EXPECT_EQ(at_origin("north", "a"), 10U);
}

TEST_F(BridgeLease, NeverBelievesItsLeaseForLongerThanTheStoreGrantsIt) {
  const auto one = make_process("one");
  const auto two = make_process("two");
  for (int i = 0; i < 400; ++i) {
    // The first one runs now and then.
    pass(Millis(10), {two.get()});
    if (i % 90 == 0) run(*one);
    EXPECT_FALSE(is_bridge(*one, clock_) && is_bridge(*two, clock_)) << i;
  }
}

TEST_F(BridgeLease, BecomesCompleteWithALedgerThatAnswersAfterTheLease) {
  publish_for("north", "a", 10);
  const auto one = make_process("one");
  const auto two = make_process("two");
  one->ledger->delay = two->ledger->delay = Millis(2000);
  replay("mine", 60, Due::kRule);
  for (int i = 0; i < 2000; ++i) {
    pass(Millis(10), {one.get(), two.get()});
    EXPECT_TRUE(i < 10 || is_bridge(*one, clock_)) << i;
  }
  EXPECT_TRUE(one->regions.complete);
  EXPECT_EQ(at_origin("north", "a"), 10U);
  EXPECT_EQ(in_ledger("mine"), 60U);
}

TEST_F(BridgeLease, ABridgeThatCannotReachTheLedgerLetsAnotherTry) {
  const auto one = make_process("one");
  const auto two = make_process("two");
  pass(Millis(500), {one.get(), two.get()});
  ASSERT_TRUE(is_bridge(*one, clock_));
  one->ledger->is_reachable = false;
  publish_for("north", "a", 10);
  pass(std::chrono::ceil<Millis>(BridgeImporter::kHandOverAfter) + Millis(1500),
       {one.get(), two.get()});
  EXPECT_FALSE(is_bridge(*one, clock_));
  EXPECT_TRUE(is_bridge(*two, clock_));
  EXPECT_EQ(at_origin("north", "a"), 10U);
  pass(Millis(10'000), {one.get(), two.get()});
  EXPECT_TRUE(is_bridge(*two, clock_));
}

TEST_F(BridgeLease, ALoneProcessKeepsItsOwnStoreWhateverTheLedgerDoes) {
  const auto one = make_process("one");
  one->importer->use(*one->store, StoreUse::kPrivate, {});
  pass(Millis(500), {one.get()});
  one->ledger->is_reachable = false;
  for (int i = 0; i < 1000; ++i) {
    pass(Millis(10), {one.get()});
    ASSERT_TRUE(is_bridge(*one, clock_)) << i;
  }
  one->importer->release();
  EXPECT_TRUE(is_bridge(*one, clock_));
}

TEST_F(BridgeLease, ABridgeThatWakesUpAfterItsLeaseReportsNothing) {
  publish_for("north", "a", 10);
  const auto one = make_process("one");
  const auto two = make_process("two");
  pass(Millis(500), {one.get()});
  ASSERT_TRUE(one->regions.complete);
  std::vector<bool> reported;
  const Subscription subscription = origin_->subscribe([&](const BridgeMessage& message) {
    reported.push_back(decode_notice(message.body)->regions.complete);
  });
  // It stops within a round: the ledger has answered.
  one->calls.faulty = one->calls.made + 1;
  one->calls.fault = CallFault::kPauseAfter;
  pass(Millis(200), {one.get()});
  ASSERT_TRUE(one->calls.paused);
  // The second one finds that rows are missing, and cannot read them.
  origin_->evict(tuple_of("a"));
  pass(Millis(1600), {two.get()});
  ASSERT_TRUE(is_bridge(*two, clock_));
  two->ledger->is_reachable = false;
  origin_->evict(tuple_of("a"));
  reported.clear();
  one->calls.wake();
  pass(Millis(300), {one.get()});
  for (const bool complete : reported) EXPECT_FALSE(complete);
  EXPECT_FALSE(is_bridge(*one, clock_));
}

TEST_F(BridgeLease, ATakeOverContinuesTheFeedOfItsRegionInTheSameEpoch) {
  auto one = make_process("one");
  replay("a", 60, Due::kRule);
  pass(Millis(1000), {one.get()});
  const FeedPosition at = position("here");
  ASSERT_NE(at.epoch, 0U);
  one.reset();
  const auto two = make_process("two");
  replay("b", 60, Due::kRule);
  pass(Millis(2000), {two.get()});
  EXPECT_EQ(in_ledger("b"), 60U);
  EXPECT_EQ(position("here").epoch, at.epoch);
  EXPECT_GT(position("here").number, at.number);
}

}  // namespace
}  // namespace weir::global
