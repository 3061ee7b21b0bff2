// Reads and replays of a process that also needs the counts of other regions.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "decide/engine.h"
#include "ledgers/memory_ledger.h"
#include "origins/in_process_origin.h"
#include "tests/doubles/manual_clock.h"

namespace weir::regional {
namespace {

using decide::Engine;

// An origin that fails reads, or replays, on request.
class HalfOrigin final : public RegionalOrigin {
 public:
  explicit HalfOrigin(const Clock& clock) : inner_(clock) {}

  void read(std::vector<CellRead> cells, OriginReply reply) override {
    reads.push_back(cells);
    if (fails_reads) return reply(error());
    inner_.read(std::move(cells), std::move(reply));
  }
  void replay(std::vector<CellReplay> cells, OriginReply reply) override {
    replays.insert(replays.end(), cells.begin(), cells.end());
    const bool makes_due = std::any_of(
        cells.begin(), cells.end(), [](const CellReplay& cell) { return cell.due != Due::kNever; });
    if (makes_due && loses_due > 0) {
      --loses_due;
      return;
    }
    if (fails_replays) return reply(error());
    inner_.replay(std::move(cells), std::move(reply));
  }
  [[nodiscard]] BridgeStore* bridge_store() override {
    return has_store ? inner_.bridge_store() : nullptr;
  }
  [[nodiscard]] StepStore* step_store() override {
    return keeps_state ? inner_.step_store() : nullptr;
  }
  [[nodiscard]] ExactStore* exact_store() override {
    return keeps_state ? inner_.exact_store() : nullptr;
  }
  [[nodiscard]] Reach reach() const override { return reachability; }
  [[nodiscard]] uint32_t live_nodes() const override { return nodes; }
  [[nodiscard]] std::vector<DueTuple> due() const {
    return inner_.snapshot().due.read(WallTime{}, WallTime::max(), 100);
  }

  void lose_all() { inner_.clear(); }

  int loses_due = 0;  // messages that make a tuple due
  bool fails_reads = false;
  bool fails_replays = false;
  bool has_store = true;
  bool keeps_state = false;
  Reach reachability = Reach::kPrompt;
  uint32_t nodes = 1;
  std::vector<std::vector<CellRead>> reads;
  std::vector<CellReplay> replays;

 private:
  [[nodiscard]] static Error error() {
    return {.code = ErrorCode::kUnavailable, .retry = Retry::kMayHelp, .detail = "it failed"};
  }
  origins::InProcessOrigin inner_;
};

class RegionCountsTest : public testing::Test {
 protected:
  void make(bool has_store = true) {
    origin_->has_store = has_store;
    engine_ = Engine::make(clock_, {.origin = origin_,
                                    .ledger = ledger_,
                                    .region = "east",
                                    .replay_within = Millis(0),
                                    .capacity = 1000,
                                    .seed = 1});
  }
  Verdict ask(Count cost = 1) { return ask(request(cost)); }
  Verdict ask(const Request& request) {
    std::optional<Verdict> answer;
    engine_->check_async(clock_.now(), request, executor_,
                         [&](const Result<Verdict>& verdict) { answer = *verdict; });
    executor_.run();
    return *answer;
  }
  static Request request(Count cost) {
    return {
        .ns = "api", .identifier = "alice", .limit = 100, .duration = Millis(60'000), .cost = cost};
  }
  void pass(Millis time) {
    for (Millis passed{0}; passed < time; passed += Millis(10)) {
      clock_.advance(Millis(10));
      engine_->run_replay(clock_.now(), executor_);
      engine_->run_sync(clock_.now());
      executor_.run();
    }
  }

  doubles::ManualClock clock_;
  doubles::ManualExecutor executor_{clock_};
  std::shared_ptr<HalfOrigin> origin_ = std::make_shared<HalfOrigin>(clock_);
  std::shared_ptr<ledgers::MemoryLedger> ledger_ = std::make_shared<ledgers::MemoryLedger>(clock_);
  std::shared_ptr<Engine> engine_;
};

TEST_F(RegionCountsTest, AReadRequestsTheCountsOfOtherRegionsOnce) {
  make();
  ask();
  ASSERT_EQ(origin_->reads.size(), 1U);
  ASSERT_EQ(origin_->reads[0].size(), 2U);
  EXPECT_TRUE(origin_->reads[0][0].with_regions);
  EXPECT_FALSE(origin_->reads[0][1].with_regions);
}

// Regression: the reply to a replay has no counts of other regions.
TEST_F(RegionCountsTest, AReplayDoesNotMakeATupleFreshWhoseReadFailed) {
  make();
  pass(Millis(1000));
  origin_->fails_reads = true;
  EXPECT_EQ(ask().basis, Basis::kDegraded);
  origin_->fails_reads = false;
  pass(Millis(400));  // its count is replayed
  ASSERT_FALSE(origin_->replays.empty());
  const size_t reads = origin_->reads.size();
  EXPECT_EQ(ask().basis, Basis::kRefreshed);
  EXPECT_EQ(origin_->reads.size(), reads + 1);
  // Now it is fresh, and a replay keeps it so.
  pass(Millis(400));
  EXPECT_EQ(ask().basis, Basis::kLocal);
  EXPECT_EQ(origin_->reads.size(), reads + 1);
}

TEST_F(RegionCountsTest, AReplayMakesATupleFreshIfTheOriginHasNoCountsOfOtherRegions) {
  make(false);
  pass(Millis(1000));
  origin_->fails_reads = true;
  EXPECT_EQ(ask().basis, Basis::kDegraded);
  origin_->fails_reads = false;
  pass(Millis(400));
  const size_t reads = origin_->reads.size();
  EXPECT_EQ(ask().basis, Basis::kLocal);
  EXPECT_EQ(origin_->reads.size(), reads);
}

TEST_F(RegionCountsTest, ReplaysCarryTheSmallestLimitSeen) {
  make();
  pass(Millis(1000));
  ask();
  pass(Millis(100));
  ASSERT_FALSE(origin_->replays.empty());
  EXPECT_EQ(origin_->replays.back().limit_seen, 100U);
}

TEST_F(RegionCountsTest, ADueCellIsSentAgainAfterAFailure) {
  make();
  pass(Millis(1000));
  origin_->fails_replays = true;
  ask(60);
  pass(Millis(300));
  EXPECT_TRUE(origin_->due().empty());
  origin_->fails_replays = false;
  origin_->replays.clear();
  engine_->run_replay(clock_.now(), executor_);
  executor_.run();
  bool due = false;
  for (const CellReplay& replay : origin_->replays) due = due || replay.due != Due::kNever;
  EXPECT_TRUE(due);
  ASSERT_EQ(origin_->due().size(), 1U);
  pass(Millis(500));
  ASSERT_EQ(ledger_->contents().size(), 1U);
  EXPECT_EQ(ledger_->contents()[0].count, 60U);
}

// The process may end before it notices that the message that made the cell due was lost.
TEST_F(RegionCountsTest, ACellIsDueWithEachMessageUntilOneIsAnswered) {
  make();
  pass(Millis(1000));
  // That of the first replay, before the rule was evaluated, and that of the evaluation.
  origin_->loses_due = 2;
  ask(60);
  pass(Millis(20));
  ASSERT_EQ(origin_->loses_due, 0);
  ask(1);
  engine_->run_replay(clock_.now(), executor_);
  EXPECT_EQ(origin_->replays.back().total, 61U);
  EXPECT_EQ(origin_->due().size(), 1U);
  // An answered message makes the cell due no more.
  ask(1);
  clock_.advance(Millis(300));
  executor_.run();
  engine_->run_replay(clock_.now(), executor_);
  executor_.run();
  origin_->replays.clear();
  ask(1);
  engine_->run_replay(clock_.now(), executor_);
  ASSERT_FALSE(origin_->replays.empty());
  EXPECT_EQ(origin_->replays.back().due, Due::kNever);
}

// The bridge may have read the smaller count and found nothing to publish.
TEST_F(RegionCountsTest, ACountThatTheOriginLostIsDueWhenItIsReplayed) {
  make();
  pass(Millis(1000));
  ask(20);
  pass(Millis(500));
  ASSERT_TRUE(ledger_->contents().empty());
  origin_->lose_all();
  origin_->replays.clear();
  clock_.advance(Millis(6000));
  ask(1);  // reads
  engine_->run_replay(clock_.now(), executor_);
  ASSERT_FALSE(origin_->replays.empty());
  EXPECT_EQ(origin_->replays.front().total, 21U);
  EXPECT_EQ(origin_->due().size(), 1U);
}

// Regression: with the part as its limit, the process asked the bridge every second to publish a
// count that was small by the whole limit.
TEST_F(RegionCountsTest, UsageHasTheWholeLimitIfTheProcessDecidesByAPart) {
  origin_->keeps_state = true;
  origin_->nodes = 4;
  make();
  engine_->set_on_origin_loss(OnOriginLoss::kShare);
  pass(Millis(1000));
  origin_->reachability = Reach::kNone;
  Request log = request(1);
  log.algorithm = Algorithm::kSlidingLog;
  const Verdict verdict = ask(log);
  EXPECT_TRUE(verdict.admitted());
  EXPECT_EQ(verdict.basis, Basis::kDegraded);
  size_t counted = 0;
  engine_->inspect_sync(clock_.now(), [&](const global::SharedCell& cell) {
    EXPECT_EQ(cell.usage.limit, 100U);
    counted += cell.usage.counted;
  });
  EXPECT_EQ(counted, 1U);
}

}  // namespace
}  // namespace weir::regional
