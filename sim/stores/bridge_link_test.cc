// The link carries the calls of a bridge and its messages, and loses them as its faults say.

#include "sim/stores/bridge_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "origins/in_process_origin.h"
#include "sim/stores/origin_link.h"

namespace weir::sim {
namespace {

struct Watcher final : LinkWatcher {
  void disrupted() override { ++disruptions; }
  void bridge_disrupted() override { ++bridge_disruptions; }
  void bridge_sent(BridgeStep step, size_t /*entries*/) override { sent.push_back(step); }
  void bridge_applied(BridgeStep step) override { applied.push_back(step); }
  void granted(bool ours) override { is_bridge = ours; }
  int disruptions = 0;
  int bridge_disruptions = 0;
  bool is_bridge = false;
  std::vector<BridgeStep> sent, applied;
};

// Two processes with a link to one origin each.
class BridgeLinkTest : public ::testing::Test {
 protected:
  BridgeLinkTest() { one_.watcher = &watcher_; }

  [[nodiscard]] BridgeStore& store() { return *one_.bridge_store(); }
  void run_for(Millis time) {
    const MonoTime end = timeline_.now().mono + time;
    timeline_.post_at(end, [] {});
    while (timeline_.step(end)) {
    }
  }
  void acquire() {
    store().acquire("one", Millis(1000),
                    [this](const auto& grant) { ++(grant ? answers_ : errors_); });
  }
  void subscribe() {
    subscription_ = two_.bridge_store()->subscribe(
        [this](const BridgeMessage& message) { numbers_.push_back(message.number); });
  }

  Timeline timeline_{1};
  std::shared_ptr<origins::InProcessOrigin> origin_ =
      std::make_shared<origins::InProcessOrigin>(timeline_);
  Watcher watcher_;
  OriginLink one_{timeline_, origin_->another_endpoint(), 9};
  OriginLink two_{timeline_, origin_->another_endpoint(), 10};
  int answers_ = 0;
  int errors_ = 0;
  std::vector<uint64_t> numbers_;
  Subscription subscription_;
};

TEST_F(BridgeLinkTest, ReportsEachStepWhenItIsSentAndWhenItIsApplied) {
  acquire();
  EXPECT_EQ(watcher_.sent, std::vector{BridgeStep::kAcquire});
  EXPECT_TRUE(watcher_.applied.empty());
  run_for(Millis(100));
  EXPECT_EQ(watcher_.applied, std::vector{BridgeStep::kAcquire});
  EXPECT_TRUE(watcher_.is_bridge);
  EXPECT_EQ(answers_, 1);
}

TEST_F(BridgeLinkTest, FailsWhenRefusedAndNeverAnswersWhenSilentWithoutDelayingOwnCounts) {
  one_.faults.connectivity = Connectivity::kRefused;
  acquire();
  EXPECT_EQ(errors_, 1);
  one_.faults.connectivity = Connectivity::kSilent;
  acquire();
  run_for(Millis(10'000));
  EXPECT_EQ(answers_ + errors_, 1);
  EXPECT_EQ(watcher_.bridge_disruptions, 2);
  EXPECT_EQ(watcher_.disruptions, 0);
}

TEST_F(BridgeLinkTest, RepeatsACallAndAnswersOnce) {
  one_.faults.repeat_permille = 1000;
  acquire();
  run_for(Millis(100));
  EXPECT_EQ(watcher_.applied.size(), 2u);
  EXPECT_EQ(answers_, 1);
}

TEST_F(BridgeLinkTest, BrokenConnectionAppliesWritesLateAndLosesReads) {
  one_.break_holding_for(Millis(2000));
  store().add_due({{.tuple = "t", .kind = Due::kNow, .at = timeline_.now().wall}});
  store().read_due({}, timeline_.now().wall, 1, [this](const auto&) { ++answers_; });
  run_for(Millis(1999));
  EXPECT_TRUE(watcher_.applied.empty());
  run_for(Millis(10));
  EXPECT_EQ(watcher_.applied, std::vector{BridgeStep::kAddDue});
  EXPECT_EQ(answers_, 0);
}

TEST_F(BridgeLinkTest, DeliversMessagesInOrder) {
  subscribe();
  for (int i = 0; i < 50; ++i) origin_->notify("m");
  run_for(Millis(100));
  ASSERT_EQ(numbers_.size(), 50u);
  for (size_t i = 0; i < numbers_.size(); ++i) EXPECT_EQ(numbers_[i], i + 1);
}

TEST_F(BridgeLinkTest, LosesMessagesBetweenTwoConnections) {
  subscribe();
  origin_->notify("before");
  run_for(Millis(100));
  origin_->notify("in flight");
  two_.break_holding_for(Millis(0));
  run_for(Millis(100));
  origin_->notify("in the gap");
  run_for(Millis(1000));
  origin_->notify("after");
  run_for(Millis(100));
  ASSERT_GE(numbers_.size(), 2u);
  EXPECT_EQ(numbers_.front(), 1u);
  EXPECT_EQ(numbers_.back(), 4u);
  EXPECT_EQ(std::count(numbers_.begin(), numbers_.end(), 3u), 0);
}

TEST_F(BridgeLinkTest, LosesSomeMessages) {
  subscribe();
  two_.faults.lose_permille = 500;
  for (int i = 0; i < 100; ++i) origin_->notify("m");
  run_for(Millis(100));
  EXPECT_GT(two_.counters.lost_messages, 10u);
  EXPECT_EQ(numbers_.size() + two_.counters.lost_messages, 100u);
}

TEST_F(BridgeLinkTest, PausedProcessReceivesEverythingInOrderWhenItWakes) {
  subscribe();
  two_.pause_until(timeline_.now().mono + Millis(3000));
  for (int i = 0; i < 5; ++i) origin_->notify("m");
  run_for(Millis(2999));
  EXPECT_TRUE(numbers_.empty());
  run_for(Millis(10));
  EXPECT_EQ(numbers_, (std::vector<uint64_t>{1, 2, 3, 4, 5}));
}

TEST_F(BridgeLinkTest, DeliversNothingToAnEndedProcess) {
  subscribe();
  acquire();
  origin_->notify("m");
  one_.abandon();
  two_.abandon();
  run_for(Millis(100));
  EXPECT_TRUE(numbers_.empty());
  EXPECT_EQ(answers_, 0);
  BridgeGrant grant;
  origin_->acquire("two", Millis(1000), [&](const auto& received) { grant = *received; });
  EXPECT_FALSE(grant.ours) << "its call was applied";
}

}  // namespace
}  // namespace weir::sim
