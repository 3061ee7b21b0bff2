// A faulty twin of the origin passes the same contract, and loses what it is told to.

#include "sim/lossy_link.h"

#include "origins/in_process_origin.h"
#include "tests/contracts/origin_contract.h"

namespace weir::contracts {

// Delays and repeats every message; the contract does not mind.
struct Repeating {
  using Clock = doubles::HandClock;
  static constexpr bool kTimeIsReal = false;
  explicit Repeating(const Clock& at) : clock(at) {}
  [[nodiscard]] std::shared_ptr<RegionalOrigin> make() {
    auto link = std::make_shared<sim::LossyLink>(timeline, make_in_process_origin(clock), 3);
    link->faults = {.most_delay = Millis(50), .repeat_one_in = 1};
    return link;
  }
  void settle() {
    while (timeline.step(timeline.now().mono + Millis(1000))) {
    }
  }
  const Clock& clock;
  sim::Timeline timeline{5};
};

INSTANTIATE_TYPED_TEST_SUITE_P(LossyLink, OriginContract, Repeating);

}  // namespace weir::contracts

namespace weir::sim {
namespace {

TEST(LossyLink, LosesRequestsAndRepliesAndAnswersAtMostOnce) {
  Timeline timeline(1);
  auto origin = std::make_shared<origins::InProcessOrigin>(timeline);
  LossyLink link(timeline, origin, 9);
  link.faults = {.most_delay = Millis(10), .lose_one_in = 3, .repeat_one_in = 2};
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
  EXPECT_GT(link.marks.lost_requests, 200u);
  EXPECT_GT(link.marks.lost_replies, 200u);
  EXPECT_GT(link.marks.repeated, 200u);
  EXPECT_LE(replies, kMessages - static_cast<int>(link.marks.lost_requests));
  EXPECT_GT(replies, kMessages / 3);
}

}  // namespace
}  // namespace weir::sim
