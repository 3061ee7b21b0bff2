#include "global/bridge_publisher.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "global/bridge_fixture_test.h"
#include "tests/effort.h"

namespace weir::global {
namespace {

class BridgePublisherTest : public BridgeFixture {
 protected:
  BridgePublisherTest() {
    // To the middle of a window, with a bridge that knows everything.
    clock_.advance(kDuration + kDuration / 2 - clock_.now().wall.time_since_epoch() % kDuration);
    publish_for("north", "elsewhere", 1);
    process_ = make_process("one");
    pass(Millis(500));
    EXPECT_TRUE(process_->regions.complete);
  }
  using BridgeFixture::pass;
  void pass(Millis time) { pass(time, {process_.get()}); }

  [[nodiscard]] FeedPosition head(const std::string& region) const {
    FeedPosition head;
    ledger_->read_feeds({}, [&](const Result<FeedChanges>& feeds) {
      for (const RegionFeed& feed : feeds->heads) {
        if (feed.region == region) head = feed.at;
      }
    });
    return head;
  }
  // The largest count of a row that follows in our feed.
  [[nodiscard]] Count count_after(FeedPosition at, const std::string& identifier) const {
    Count count = 0;
    ledger_->read_feeds({{"here", at}}, [&](const Result<FeedChanges>& feeds) {
      for (const FeedBatch& batch : feeds->batches) {
        for (const LedgerRow& row : batch.rows) {
          if (row.key.identifier == identifier) count = std::max(count, row.count);
        }
      }
    });
    return count;
  }
  [[nodiscard]] uint64_t rows_written() const {
    uint64_t rows = 0;
    for (const uint64_t each : process_->publisher->stats().rows) rows += each;
    return rows;
  }
  [[nodiscard]] std::optional<LedgerRow> row_of(const std::string& identifier) const {
    for (const LedgerRow& row : ledger_->contents()) {
      if (row.region == "here" && row.key.identifier == identifier) return row;
    }
    return std::nullopt;
  }
  void replay_in(const std::string& ns, const std::string& identifier, Count total) {
    origin_->replay({{.cell = {tuple_of(identifier, ns), current()},
                      .writer = {.incarnation = 77, .generation = 1},
                      .total = total,
                      .expires_at = WallTime((current() + 2) * kDuration),
                      .limit_seen = 100,
                      .due = Due::kRule}},
                    [](const auto&) {});
  }

  std::unique_ptr<Process> process_;
};

TEST_F(BridgePublisherTest, PublishesADueTupleWithALeaseOnWholeWindows) {
  replay("a", 60, Due::kRule);
  pass(Millis(200));
  const auto row = row_of("a");
  ASSERT_TRUE(row);
  EXPECT_EQ(row->count, 60U);
  EXPECT_EQ(row->limit_seen, 100U);
  const WallTime leased = row->leased_until;
  EXPECT_EQ(leased.time_since_epoch() % kDuration, Millis(0));
  EXPECT_GE(leased, clock_.now().wall - Millis(200) + SyncRules{}.lease);
  EXPECT_LE(leased, clock_.now().wall + SyncRules{}.lease + kDuration);
  EXPECT_EQ(at_origin("here", "a"), 60U);
  EXPECT_TRUE(due().empty());
  EXPECT_EQ(process_->publisher->waiting(), 0U);
}

TEST_F(BridgePublisherTest, PublishesTheCurrentWindowWhateverItsClockSays) {
  for (const Millis ahead : {Millis(5 * 3'600'000), Millis(-5 * 3'600'000)}) {
    process_->clock_ahead = ahead;
    const std::string name = std::to_string(ahead.count());
    replay(name, 60, Due::kRule);
    pass(Millis(300));
    const auto row = row_of(name);
    ASSERT_TRUE(row) << name;
    EXPECT_EQ(row->count, 60U);
    EXPECT_EQ(row->sequence, current());
    EXPECT_LE(row->leased_until, clock_.now().wall + SyncRules{}.lease + kDuration);
  }
}

TEST_F(BridgePublisherTest, PublishesARefusalWhateverTheRuleSays) {
  replay("rule", 20, Due::kRule);
  replay("refusal", 20, Due::kNow);
  pass(Millis(200));
  EXPECT_EQ(in_ledger("rule"), 0U);
  EXPECT_EQ(in_ledger("refusal"), 20U);
  EXPECT_TRUE(due().empty());
}

TEST_F(BridgePublisherTest, PublishesTheWindowThatHasEndedAndTheCurrentOne) {
  publish_for("north", "a", 30, {}, current() - 1);
  replay("a", 40, Due::kWindowEnd, current() - 1);
  replay("a", 60, Due::kRule);
  pass(Millis(500));
  EXPECT_EQ(in_ledger("a", current() - 1), 40U);
  EXPECT_EQ(in_ledger("a"), 60U);
}

// A process that missed a row, or that knows of a count which the origin lost, asks for ever.
TEST_F(BridgePublisherTest, AFailureEndsWhileAProcessAsksForWhatIsPublished) {
  replay("published", 60, Due::kRule);
  pass(Millis(500));
  process_->ledger->publish_is_silent = true;
  replay("late", 60, Due::kRule);
  const uint64_t errors = process_->publisher->stats().errors;
  for (int i = 0; i < 2000 && process_->publisher->stats().errors == errors; ++i) pass(Millis(10));
  ASSERT_GT(process_->publisher->stats().errors, errors);
  // The feed brings the row back, so nothing is left to write.
  process_->ledger->publish_is_silent = false;
  for (int i = 0; i < 300 && process_->publisher->failing_since(); ++i) {
    replay("published", 60, Due::kRule);
    pass(Millis(10));
  }
  EXPECT_FALSE(process_->publisher->failing_since());
}

// With a budget of one row, most tuples that are due may need none.
TEST_F(BridgePublisherTest, TuplesWithoutARowDoNotWaitForTheBudget) {
  process_->regions.rules.rows_per_second = 2;  // for two regions
  for (int i = 0; i < 10; ++i) replay("few-" + std::to_string(i), 1, Due::kRule);
  for (int i = 0; i < 100 && due().size() == 10; ++i) pass(Millis(10));
  EXPECT_TRUE(due().empty());
  // One row a second. The allowance of tuples that wait for longer is doubled.
  for (int i = 0; i < 3; ++i) replay("many-" + std::to_string(i), 60, Due::kRule);
  const uint64_t before = rows_written();
  pass(Millis(500));
  EXPECT_EQ(rows_written() - before, 1U);
  pass(Millis(1000));
  EXPECT_EQ(rows_written() - before, 2U);
}

// The count at the origin when it is read is published, not the one when it became due.
TEST_F(BridgePublisherTest, ATupleThatBecomesDueAgainWhileItIsPublishedStaysDue) {
  process_->ledger->delay = Millis(1000);
  replay("a", 60, Due::kRule);
  pass(Millis(300));
  ASSERT_EQ(in_ledger("a"), 60U);  // committed; the reply is on its way
  replay("a", 61, Due::kNow);
  process_->ledger->delay = Millis(0);
  pass(Millis(1500));
  EXPECT_EQ(in_ledger("a"), 61U);
  EXPECT_TRUE(due().empty());
}

// Regression: the entry for the end of the next window was removed with that of the last one.
TEST_F(BridgePublisherTest, KeepsTheEndOfTheNextWindowThatIsAddedMeanwhile) {
  publish_for("north", "a", 30, WallTime((current() + 2) * kDuration));
  pass(Millis(300));
  replay("a", 10, Due::kWindowEnd);
  pass(Millis(300));
  ASSERT_EQ(due().size(), 1U);
  // It is read, and its counts are: then the process pauses.
  const int64_t before = current();
  while (current() == before && due()[0].at > clock_.now().wall + Millis(10)) pass(Millis(10));
  clock_.advance(Millis(20));
  process_->calls.fault = CallFault::kPauseAfter;
  bool added = false;
  for (int i = 0; i < 100 && !added; ++i) {
    process_->calls.faulty = process_->calls.made + static_cast<uint64_t>(i % 7);
    pass(Millis(20));
    if (!process_->calls.paused) continue;
    // Another process counts in the next window, and dies.
    replay("a", 9, Due::kWindowEnd);
    added = true;
    process_->calls.wake();
  }
  ASSERT_TRUE(added);
  pass(Millis(2000));
  ASSERT_EQ(current(), before + 1);
  pass(kDuration);
  EXPECT_EQ(in_ledger("a", before + 1), 9U);
}

TEST_F(BridgePublisherTest, RemovesADueEntryThatIsNoTuple) {
  std::vector<DueTuple> entries;
  for (const std::string& bytes :
       {std::string(), std::string("no tuple"), std::string(7, '\0'), std::string(8, '\0'),
        tuple_of("a").substr(0, 16), tuple_of("a") + "x", std::string(2000, '\xff')}) {
    entries.push_back({.tuple = bytes, .kind = Due::kNow, .at = clock_.now().wall});
  }
  process_->store->add_due(entries);
  replay("a", 60, Due::kRule);
  pass(Millis(500));
  EXPECT_EQ(in_ledger("a"), 60U);
  EXPECT_TRUE(due().empty());
}

// A process that missed the message asks again.
TEST_F(BridgePublisherTest, TellsAgainWhatWasPublishedBefore) {
  replay("a", 60, Due::kRule);
  pass(Millis(300));
  ASSERT_EQ(in_ledger("a"), 60U);
  std::vector<TupleChange> told;
  const Subscription subscription = origin_->subscribe([&](const BridgeMessage& message) {
    const auto notice = decode_notice(message.body);
    told.insert(told.end(), notice->changes.begin(), notice->changes.end());
  });
  pass(Millis(300));
  ASSERT_TRUE(told.empty());
  replay("a", 60, Due::kRule);
  pass(Millis(300));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].tuple, tuple_of("a"));
  ASSERT_EQ(told[0].counts.size(), 1U);
  EXPECT_EQ(told[0].counts[0].region, "here");
  EXPECT_EQ(told[0].counts[0].count, 60U);
  EXPECT_EQ(rows_written(), 1U);
}

TEST_F(BridgePublisherTest, AFloodOfOneNamespaceDoesNotDelayAnother) {
  process_->regions.rules.rows_per_second = 20;  // ten for each region
  for (int i = 0; i < 500; ++i) replay_in("flood", std::to_string(i), 60);
  pass(Millis(3000));
  EXPECT_LE(rows_written(), 10U + 31U);
  replay_in("quiet", "a", 60);
  pass(Millis(500));
  EXPECT_EQ(in_ledger("a"), 60U);
  // The flooded namespace has wider limits, the other one has not.
  EXPECT_GT(process_->regions.doublings_of({.workspace = "", .ns = "flood"}), 0U);
  EXPECT_EQ(process_->regions.doublings_of({.workspace = "", .ns = "quiet"}), 0U);
}

TEST_F(BridgePublisherTest, TuplesWithoutRowsCostNoBudget) {
  process_->regions.rules.rows_per_second = 20;
  for (int i = 0; i < 300; ++i) replay_in("api", "small-" + std::to_string(i), 1);
  replay_in("api", "large", 60);
  pass(Millis(2000));
  EXPECT_EQ(in_ledger("large"), 60U);
  EXPECT_TRUE(due().empty());
  EXPECT_EQ(rows_written(), 1U);
}

// More entries of one millisecond than one message can return.
TEST_F(BridgePublisherTest, PublishesALongBacklog) {
  checks_positions_ = false;
  process_->regions.rules.rows_per_second = 1'000'000;
  for (int i = 0; i < 12'000; ++i) replay_in("api", std::to_string(i), 60);
  pass(Millis(4000));
  EXPECT_EQ(rows_written(), 12'000U);
  EXPECT_TRUE(due().empty());
}

TEST_F(BridgePublisherTest, KeepsABacklogOfBoundedLength) {
  checks_positions_ = false;
  process_->regions.rules.rows_per_second = 2;
  for (int i = 0; i < 60'000; ++i) {
    if (i % 4000 == 0) clock_.advance(Millis(1));
    replay_in("api", std::to_string(i), 60);
  }
  size_t most = 0;
  for (int i = 0; i < 15; ++i) {
    pass(Millis(100));
    most = std::max(most, process_->publisher->waiting());
  }
  EXPECT_GE(most, 50'000U);
  EXPECT_LE(most, 56'000U);
}

TEST_F(BridgePublisherTest, PublishesTheRowsOfTheLastMinuteAgainWhenTheLedgerLostThem) {
  replay("old", 60, Due::kRule);
  pass(Millis(500));
  const auto behind = ledger_->snapshot();
  const FeedPosition known = head("here");
  replay("a", 60, Due::kRule);
  pass(Millis(300));
  replay("b", 70, Due::kRule);
  pass(Millis(300));
  const auto lost = row_of("b");
  ASSERT_TRUE(lost);
  ledger_->restore(*behind);
  ASSERT_EQ(in_ledger("a"), 0U);
  pass(Millis(2000));
  EXPECT_EQ(in_ledger("a"), 60U);
  EXPECT_EQ(row_of("b"), lost);
  // In a new epoch, so that other regions do not take the new batches for those that were lost.
  EXPECT_GT(head("here").epoch, known.epoch);
  EXPECT_EQ(process_->importer->stats().lost, 1U);
  // Once.
  const uint64_t rows = rows_written();
  const FeedPosition after = head("here");
  pass(Millis(3000));
  EXPECT_EQ(rows_written(), rows);
  EXPECT_EQ(head("here"), after);
  EXPECT_EQ(saved()->cursors["here"], after);
}

// Another region that had imported the lost rows and one that had not both know them afterwards.
TEST_F(BridgePublisherTest, OtherRegionsReadTheRowsThatWerePublishedAgain) {
  replay("a", 60, Due::kRule);
  pass(Millis(300));
  const auto behind = ledger_->snapshot();
  replay("b", 70, Due::kRule);
  pass(Millis(300));
  ledger_->restore(*behind);
  pass(Millis(2000));
  const auto origin = std::exchange(origin_, std::make_shared<origins::InProcessOrigin>(clock_));
  const auto process = make_process("elsewhere");
  pass(Millis(1000), {process.get()});
  EXPECT_EQ(at_origin("here", "a"), 60U);
  EXPECT_EQ(at_origin("here", "b"), 70U);
}

// Regression: another region read a batch that the ledger lost before its writer knew of it. The
// next batch had the same number, and the other region took it for read.
TEST_F(BridgePublisherTest, PublishesNoRowsUnderTheNumberOfALostBatch) {
  for (const bool fails : {false, true}) {
    const std::string name = fails ? "error" : "silence";
    SCOPED_TRACE(name);
    replay(name + "-old", 60, Due::kRule);
    pass(Millis(500));
    const auto behind = ledger_->snapshot();
    process_->ledger->is_reachable = false;  // its own feed would tell
    process_->ledger->publish_is_silent = !fails;
    process_->ledger->publish_times_out = fails;
    replay(name, 60, Due::kNow);
    pass(Millis(200));
    ASSERT_EQ(in_ledger(name), 60U);
    const FeedPosition read = head("here");
    ledger_->restore(*behind);
    ASSERT_LT(head("here"), read);
    replay(name, 90, Due::kNow);
    process_->ledger->publish_is_silent = process_->ledger->publish_times_out = false;
    process_->ledger->is_reachable = true;
    pass(Millis(8000));
    ASSERT_EQ(in_ledger(name), 90U);
    EXPECT_EQ(head("here").epoch, read.epoch);
    EXPECT_EQ(count_after(read, name), 90U);
    EXPECT_EQ(at_origin("here", name), 90U);
    // Nothing else is written for that.
    const FeedPosition after = head("here");
    EXPECT_LE(after.number, read.number + 2);
    pass(Millis(1000));
    EXPECT_EQ(head("here"), after);
  }
}

// Regression: the same, where the writer was killed. The next bridge did not know of the batch.
TEST_F(BridgePublisherTest, PublishesNoRowsUnderTheNumberOfALostBatchOfAKilledBridge) {
  bool committed = false;
  for (uint64_t call = 0; !committed && call < 30; ++call) {
    SCOPED_TRACE("killed after call " + std::to_string(call));
    const std::string name = "client-" + std::to_string(call);
    process_ = make_process(name);
    pass(Millis(2500));
    replay(name + "-old", 60, Due::kRule);
    pass(Millis(500));
    const auto behind = ledger_->snapshot();
    process_->calls.faulty = process_->calls.made + call;
    process_->calls.fault = CallFault::kDieAfter;
    replay(name, 60, Due::kNow);
    for (int i = 0; i < 100 && !process_->calls.dead; ++i) pass(Millis(10));
    if (in_ledger(name) == 0) continue;
    committed = true;
    const FeedPosition read = head("here");
    ledger_->restore(*behind);
    ASSERT_LT(head("here"), read);
    replay(name, 90, Due::kNow);
    process_ = make_process("next");
    pass(Millis(8000));
    EXPECT_EQ(in_ledger(name), 90U);
    EXPECT_EQ(head("here").epoch, read.epoch);
    EXPECT_EQ(count_after(read, name), 90U);
    EXPECT_LE(head("here").number, read.number + 2);
  }
  EXPECT_TRUE(committed);
}

// So that the record has not expired when it does.
TEST_F(BridgePublisherTest, ReservesTheNumberOfABatchBeforeItWritesIt) {
  for (const std::string identifier : {"a", "b"}) {
    replay(identifier, 60, Due::kRule);
    pass(Millis(500));
  }
  const auto reservations = [&] {
    size_t found = 0;
    origin_->bridge_store()->read_records([&](const Result<std::vector<std::string>>& records) {
      for (const std::string& record : *records) found += decode_reservation(record).has_value();
    });
    return found;
  };
  EXPECT_EQ(reservations(), 2U) << "after each batch, so that rows need not wait for it";
  const FeedPosition before = head("here");
  process_->ledger->publish_fails = ErrorCode::kUnavailable;
  replay("c", 60, Due::kRule);
  pass(Millis(500));
  EXPECT_EQ(reservations(), 2U);
  EXPECT_EQ(head("here"), before);
  pass(kRecordsKept);
  process_->ledger->publish_fails.reset();
  replay("d", 60, Due::kRule);
  pass(Millis(1000));
  EXPECT_EQ(in_ledger("d"), 60U);
  EXPECT_EQ(head("here").number, before.number + 1);
  EXPECT_LE(reservations(), 3U) << "twice a minute";
}

// After a long outage rows do not wait for a batch without rows for each write that had no reply.
TEST_F(BridgePublisherTest, BeginsAnEpochAfterManyWritesWithoutAReply) {
  replay("a", 60, Due::kRule);
  pass(Millis(500));
  const FeedPosition before = head("here");
  process_->ledger->publish_fails = ErrorCode::kTimeout;
  replay("b", 60, Due::kNow);
  pass(Millis(8000));
  ASSERT_EQ(head("here"), before);
  process_->ledger->publish_fails.reset();
  pass(Millis(8000));
  EXPECT_EQ(in_ledger("b"), 60U);
  EXPECT_GT(head("here").epoch, before.epoch);
  EXPECT_EQ(head("here").number, 1U);
}

// A call that the ledger refused has committed nothing.
TEST_F(BridgePublisherTest, WritesNoEmptyBatchAfterARefusal) {
  replay("a", 60, Due::kRule);
  pass(Millis(500));
  const FeedPosition before = head("here");
  replay("b", 60, Due::kNow);
  process_->ledger->publish_fails = ErrorCode::kUnavailable;
  pass(Millis(1000));
  ASSERT_EQ(head("here"), before);
  process_->ledger->publish_fails.reset();
  pass(Millis(1000));
  EXPECT_EQ(in_ledger("b"), 60U);
  EXPECT_EQ(head("here").number, before.number + 1);
}

// Regression: after one error, or when the bridge died, the rows were not published again.
TEST_F(BridgePublisherTest, PublishesLostRowsAgainDespiteAFaultAtAnyCall) {
  for (const CallFault fault : kCallFaults) {
    bool reached = true;
    for (uint64_t call = 0; reached && call < 200 && !HasFailure(); call += kSanitized ? 5 : 1) {
      SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)) + " at call " +
                   std::to_string(call));
      ledger_ = std::make_shared<ledgers::MemoryLedger>(clock_);
      origin_ = std::make_shared<origins::InProcessOrigin>(clock_);
      feeds_.clear();
      batches_.clear();
      const auto one = make_process("one");
      const auto two = make_process("two");
      clock_.advance(kDuration + kDuration / 2 - clock_.now().wall.time_since_epoch() % kDuration);
      replay("old", 60, Due::kRule);
      pass(Millis(500), {one.get()});
      const auto behind = ledger_->snapshot();
      for (int i = 0; i < 3; ++i) replay("new-" + std::to_string(i), 60, Due::kRule);
      pass(Millis(300), {one.get()});
      ASSERT_EQ(in_ledger("new-2"), 60U);
      ledger_->restore(*behind);
      one->calls.faulty = one->calls.made + call;
      one->calls.fault = fault;
      const uint64_t before = one->calls.made;
      pass(Millis(600), {one.get()});
      reached = one->calls.made >= before + call;
      pass(Millis(4000), {one.get(), two.get()});
      one->calls.wake();
      pass(Millis(8000), {one.get(), two.get()});
      for (int i = 0; i < 3; ++i) EXPECT_EQ(in_ledger("new-" + std::to_string(i)), 60U) << i;
    }
  }
}

// Regression: without space at the store, the same row was written again and again.
TEST_F(BridgePublisherTest, PublishesOnceWhenTheStoreHasNoSpaceForWhatWasPublished) {
  origin_ = std::make_shared<origins::InProcessOrigin>(clock_,
                                                       origins::InProcessOptions{.max_tuples = 1});
  process_ = make_process("two");
  pass(Millis(500));
  replay("a", 60, Due::kRule);
  pass(Millis(3000));
  EXPECT_EQ(in_ledger("a"), 60U);
  EXPECT_EQ(rows_written(), 1U);
  EXPECT_TRUE(due().empty());
}

// Regression: the call in flight counted as another row, and a process that ended said so.
TEST_F(BridgePublisherTest, CountsARowOnceWhileItIsBeingWritten) {
  pass(Millis(500));
  process_->ledger->delay = Millis(10'000);
  replay("a", 60, Due::kRule);
  pass(Millis(300));
  EXPECT_FALSE(process_->publisher->is_idle());
  EXPECT_EQ(process_->publisher->waiting(), 1U);
}

TEST_F(BridgePublisherTest, AnotherBridgeContinuesWithWhatWasDue) {
  process_->ledger->delay = Millis(10'000);
  for (int i = 0; i < 20; ++i) replay_in("api", std::to_string(i), 60);
  pass(Millis(300));
  process_ = make_process("two");
  pass(Millis(2500));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(in_ledger(std::to_string(i)), 60U) << i;
  EXPECT_TRUE(due().empty());
}

TEST_F(BridgePublisherTest, PublishesEverythingBeforeItEnds) {
  publish_for("north", "a", 10);
  pass(Millis(300));
  replay("a", 5, Due::kWindowEnd);
  replay("b", 5, Due::kNow);
  pass(Millis(10));
  clock_.advance(Millis(10));
  for (int i = 0; i < 5; ++i) run(*process_, Flush::kAll);
  EXPECT_EQ(in_ledger("b"), 5U);
  EXPECT_EQ(process_->publisher->waiting(), 0U);
  // Below the rule: its entry waits for the end of the window.
  ASSERT_EQ(due().size(), 1U);
  EXPECT_EQ(due()[0].kind, Due::kWindowEnd);
}

}  // namespace
}  // namespace weir::global
