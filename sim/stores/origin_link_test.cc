// The link passes the contract of an origin, and loses messages as its faults say.

#include "sim/stores/origin_link.h"

#include "origins/in_process_origin.h"
#include "tests/contracts/origin_contract.h"

namespace weir::contracts {

// Delays and repeats every message; the contract still holds.
struct Repeating {
  using Clock = doubles::ManualClock;
  static constexpr bool kTimeIsReal = false;
  explicit Repeating(const Clock& at) : clock(at) {}
  [[nodiscard]] std::shared_ptr<RegionalOrigin> make() {
    auto link = std::make_shared<sim::OriginLink>(timeline, make_in_process_origin(clock), 3);
    link->faults = {.most_delay = Millis(50), .repeat_permille = 1000};
    return link;
  }
  void settle() {
    while (timeline.step(timeline.now().mono + Millis(1000))) {
    }
  }
  const Clock& clock;
  sim::Timeline timeline{5};
};

INSTANTIATE_TYPED_TEST_SUITE_P(OriginLink, OriginContract, Repeating);

}  // namespace weir::contracts

namespace weir::sim {
namespace {

TEST(OriginLink, LosesRequestsAndRepliesAndAnswersAtMostOnce) {
  Timeline timeline(1);
  auto origin = std::make_shared<origins::InProcessOrigin>(timeline);
  OriginLink link(timeline, origin, 9);
  link.faults = {.most_delay = Millis(10), .lose_permille = 333, .repeat_permille = 500};
  int replies = 0;
  constexpr int kMessages = 1000;
  for (int i = 0; i < kMessages; ++i) {
    link.replay({{.cell = {"t", i},
                  .writer = {1, 1},
                  .total = 1,
                  .expires_at = timeline.now().wall + Millis(1'000'000)}},
                [&](const auto&) { ++replies; });
  }
  while (timeline.step(timeline.now().mono + Millis(1000))) {
  }
  EXPECT_GT(link.counters.lost_requests, 200u);
  EXPECT_GT(link.counters.lost_replies, 200u);
  EXPECT_GT(link.counters.repeated, 200u);
  EXPECT_LE(replies, kMessages - static_cast<int>(link.counters.lost_requests));
  EXPECT_GT(replies, kMessages / 3);
}

// One link to an empty origin, with a message to send over it.
class LinkTest : public ::testing::Test {
 protected:
  void send(Count total) {
    link_.replay({{.cell = cell_,
                   .writer = {1, 1},
                   .total = total,
                   .expires_at = timeline_.now().wall + Millis(1'000'000)}},
                 [this](const auto& totals) { ++(totals ? answers_ : errors_); });
  }
  void run_for(Millis time) {
    const MonoTime end = timeline_.now().mono + time;
    timeline_.post_at(end, [] {});
    while (timeline_.step(end)) {
    }
  }
  Count total() { return origin_->components(cell_)[{1, 1}]; }

  Timeline timeline_{1};
  std::shared_ptr<origins::InProcessOrigin> origin_ =
      std::make_shared<origins::InProcessOrigin>(timeline_);
  OriginLink link_{timeline_, origin_, 9};
  CellId cell_{"t", 1};
  int answers_ = 0;
  int errors_ = 0;
};

TEST_F(LinkTest, FailsAtOnceWhenRefusedAndNeverAnswersWhenSilent) {
  link_.faults.connectivity = Connectivity::kRefused;
  send(1);
  EXPECT_EQ(errors_, 1);
  link_.faults.connectivity = Connectivity::kSilent;
  send(2);
  run_for(Millis(10'000));
  EXPECT_EQ(answers_ + errors_, 1);
  EXPECT_EQ(total(), 0u);
}

TEST_F(LinkTest, LosesMessagesInFlightWhenItBecomesSilent) {
  send(1);
  link_.faults.connectivity = Connectivity::kSilent;
  run_for(Millis(1000));
  EXPECT_EQ(total(), 0u);
  EXPECT_EQ(answers_, 0);
}

TEST_F(LinkTest, AnswersAfterAnyDeadlineWhenSlow) {
  link_.faults.slow = Millis(400);
  send(1);
  run_for(Millis(799));
  EXPECT_EQ(total(), 1u);
  EXPECT_EQ(answers_, 0);
  run_for(Millis(100));
  EXPECT_EQ(answers_, 1);
}

TEST_F(LinkTest, BrokenConnectionDeliversItsMessageAfterTheNextEpochBegan) {
  const uint64_t epoch = link_.epoch();
  link_.break_holding_for(Millis(2000));
  send(1);
  run_for(Millis(400));
  EXPECT_NE(link_.epoch(), epoch);
  EXPECT_EQ(total(), 0u);
  run_for(Millis(1601));
  EXPECT_EQ(total(), 1u);
  EXPECT_EQ(answers_ + errors_, 0);
  send(2);
  run_for(Millis(100));
  EXPECT_EQ(answers_, 1);
}

TEST_F(LinkTest, DeliversMessagesOfAnEndedProcess) {
  send(1);
  link_.abandon();
  run_for(Millis(100));
  EXPECT_EQ(total(), 1u);
  EXPECT_EQ(answers_ + errors_, 0);
}

}  // namespace
}  // namespace weir::sim
