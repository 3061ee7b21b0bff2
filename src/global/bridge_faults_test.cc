// A fault at every single call of a bridge: nothing is lost.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "global/bridge_fixture_test.h"
#include "tests/effort.h"

namespace weir::global {
namespace {

class BridgeFaults : public BridgeFixture {
 protected:
  // Begins anew.
  void reset() {
    ledger_ = std::make_shared<ledgers::MemoryLedger>(clock_);
    origin_ = std::make_shared<origins::InProcessOrigin>(clock_);
    feeds_.clear();
    batches_.clear();
    told_.clear();
    subscription_ = origin_->subscribe([this](const BridgeMessage& message) {
      const auto notice = decode_notice(message.body);
      ASSERT_TRUE(notice);
      for (const TupleChange& change : notice->changes) {
        for (const RegionCount& count : change.counts) {
          Count& told = told_[change.tuple + count.region];
          told = std::max(told, count.count);
        }
      }
    });
    // To the middle of a window.
    clock_.advance(kDuration + kDuration / 2 - clock_.now().wall.time_since_epoch() % kDuration);
  }

  // One bridge, which meets the fault, and another, which takes over. Returns the number of calls
  // of the first.
  uint64_t live_through(uint64_t call, CallFault fault) {
    reset();
    const auto first = make_process("first");
    const auto second = make_process("second");
    first->calls.faulty = call;
    first->calls.fault = fault;
    publish_for("north", "shared", 20);
    publish_for("north", "theirs", 30);
    replay("shared", 60, Due::kRule);
    replay("mine", 70, Due::kRule);
    replay("refused", 55, Due::kNow);
    replay("small", 20, Due::kNever);
    // Of a window that has ended, in which others counted, too.
    publish_for("south", "ended", 30, {}, current() - 1);
    replay("ended", 40, Due::kWindowEnd, current() - 1);
    publish_for("south", "unheld", 5);
    int64_t step = 0;
    const auto live = [&](Millis time) {
      for (Millis passed{0}; passed < time; passed += Millis(10), ++step) {
        clock_.advance(Millis(10));
        // The world goes on.
        if (step == 25) publish_for("north", "small", 80);  // a killed process counted there
        if (step == 30) replay("late", 60, Due::kRule);
        if (step == 40) publish_for("south", "shared", 10);
        if (step == 45) replay("mine", 90, Due::kNow);
        const bool held = first->calls.paused || first->calls.late;
        if (held && first->suspended_at == MonoTime{}) first->suspended_at = clock_.now().mono;
        const Millis most = first->calls.late ? Millis(6000) : Millis(3000);
        if (held && clock_.now().mono - first->suspended_at >= most) first->calls.wake();
        run(*first);
        // The other one starts later, so that the first one is the bridge.
        if (step > 5) run(*second);
      }
    };
    live(Millis(1000));
    const uint64_t calls = first->calls.made;
    live(Millis(12'000));
    check(call, fault);
    return calls;
  }

  void check(uint64_t call, CallFault fault) {
    SCOPED_TRACE("call " + std::to_string(call) + " fault " +
                 std::to_string(static_cast<int>(fault)));
    // What was due is published.
    EXPECT_EQ(in_ledger("shared"), 60U);
    EXPECT_EQ(in_ledger("mine"), 90U);
    EXPECT_EQ(in_ledger("refused"), 55U);
    EXPECT_EQ(in_ledger("late"), 60U);
    EXPECT_EQ(in_ledger("ended", current() - 1), 40U);
    // And noted at the origin.
    EXPECT_EQ(at_origin("here", "shared"), 60U);
    EXPECT_EQ(at_origin("here", "mine"), 90U);
    // Whether a process holds the tuple or not.
    EXPECT_EQ(in_ledger("small"), 20U);
    // What others published is at the origin, and the processes were told.
    for (const FeedBatch& batch : batches_) {
      const LedgerRow& row = batch.rows[0];
      EXPECT_GE(at_origin(row.region, row.key.identifier, row.sequence), row.count)
          << row.key.identifier;
      EXPECT_GE(told_[tuple_of(row.key.identifier) + row.region], row.count) << row.key.identifier;
    }
    for (const DueTuple& entry : due()) {
      EXPECT_EQ(entry.kind, Due::kWindowEnd) << "an entry was not processed";
    }
    // All positions are at the heads.
    auto state = saved();
    ASSERT_TRUE(state);
    for (const auto& [region, feed] : feeds_) EXPECT_EQ(state->cursors[region], feed) << region;
  }

  Subscription subscription_;
  std::map<std::string, Count> told_;  // by tuple and region
};

TEST_F(BridgeFaults, ABridgeWithoutFaultsPublishesAndImportsEverything) {
  EXPECT_GT(live_through(~uint64_t{0}, CallFault::kNone), 50U);
  EXPECT_GT(states_checked_, 5U);
}

class BridgeFault : public BridgeFaults, public testing::WithParamInterface<CallFault> {};

TEST_P(BridgeFault, AtAnyCallLosesNothing) {
  const uint64_t calls = live_through(~uint64_t{0}, CallFault::kNone);
  constexpr uint64_t kEvery = kSanitized ? 5 : 1;
  for (uint64_t call = 0; call < calls && !HasFailure(); call += kEvery) {
    live_through(call, GetParam());
  }
}

std::string name_of(const testing::TestParamInfo<CallFault>& info) {
  constexpr const char* kNames[] = {"None", "DieBefore", "DieAfter", "Fail",       "FailAfter",
                                    "Drop", "NoReply",   "Late",     "PauseAfter", "PauseBefore"};
  return kNames[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Each, BridgeFault, testing::ValuesIn(kCallFaults), name_of);

}  // namespace
}  // namespace weir::global
