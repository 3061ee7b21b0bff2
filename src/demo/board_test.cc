#include "demo/board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace weir::demo {
namespace {

using testing::Each;
using testing::Field;

// The start is the start of a fixed window for all lengths of the demo.
Instant at(Nanos since_start) {
  return {.wall = WallTime(Millis(1'000'000'000'000) + std::chrono::floor<Millis>(since_start)),
          .mono = MonoTime(std::chrono::seconds(1) + since_start)};
}
constexpr Millis kMs{1};

DemoBoard quiet_board(Count limit = 10) {
  return {at(0 * kMs), {.limit = limit, .window = 5000 * kMs, .requests_per_second = 0}};
}

TEST(DemoBoard, HasARowForEveryAlgorithm) {
  const DemoBoard board = quiet_board();
  std::set<Algorithm> algorithms;
  for (const DemoRow& row : board.rows()) algorithms.insert(row.algorithm);
  EXPECT_EQ(algorithms.size(), kAlgorithmCount);
}

TEST(DemoBoard, AdmitsABurstUpToTheLimitInEveryRow) {
  DemoBoard board = quiet_board(7);
  board.press(at(0 * kMs), ' ');
  board.step(at(0 * kMs));
  EXPECT_EQ(board.offered(), 10u);
  EXPECT_THAT(board.rows(), Each(Field(&DemoRow::admitted, 7u)));
  EXPECT_THAT(board.rows(), Each(Field(&DemoRow::denied, 3u)));
  EXPECT_THAT(board.rows(), Each(Field(&DemoRow::remaining, 0u)));
}

TEST(DemoBoard, KeepsTheNewestOutcomesInOrder) {
  DemoBoard board = quiet_board(7);
  board.burst(at(0 * kMs));
  for (const DemoRow& row : board.rows()) {
    ASSERT_EQ(row.recent.size(), 10u);
    EXPECT_EQ(row.recent.at(6), Outcome::kAdmitted);
    EXPECT_EQ(row.recent.at(7), Outcome::kDenied);
  }
  for (size_t i = 0; i < DemoBoard::kRecent; ++i) board.burst(at(0 * kMs));
  for (const DemoRow& row : board.rows()) {
    EXPECT_EQ(row.recent.size(), DemoBoard::kRecent);
    EXPECT_EQ(row.recent.front(), Outcome::kDenied);
  }
}

TEST(DemoBoard, ShowsTheRetryTimeUntilARequestIsAdmitted) {
  DemoBoard board = quiet_board(9);
  board.burst(at(0 * kMs));
  MonoTime last = at(0 * kMs).mono;
  for (const DemoRow& row : board.rows()) {
    ASSERT_TRUE(row.retry_at) << to_string(row.algorithm);
    EXPECT_GT(*row.retry_at, at(0 * kMs).mono);
    last = std::max(last, *row.retry_at);
  }
  board.press(at(last.time_since_epoch() - std::chrono::seconds(1)), '1');
  board.step(at(last.time_since_epoch() - std::chrono::seconds(1)));
  EXPECT_THAT(board.rows(), Each(Field(&DemoRow::admitted, 10u)));
  EXPECT_THAT(board.rows(), Each(Field(&DemoRow::retry_at, std::nullopt)));
}

TEST(DemoBoard, OffersSteadyRequestsWhenTheyAreDue) {
  DemoBoard board(at(0 * kMs), {.limit = 100, .window = 5000 * kMs, .requests_per_second = 4});
  board.step(at(0 * kMs));
  EXPECT_EQ(board.offered(), 1u);
  board.step(at(249 * kMs));
  EXPECT_EQ(board.offered(), 1u);
  board.step(at(250 * kMs));
  EXPECT_EQ(board.offered(), 2u);
  board.step(at(999 * kMs));
  EXPECT_EQ(board.offered(), 4u);
}

TEST(DemoBoard, OffersNothingWhilePaused) {
  DemoBoard board(at(0 * kMs), {.requests_per_second = 9});
  board.press(at(0 * kMs), '0');
  board.step(at(900 * kMs));
  EXPECT_EQ(board.offered(), 0u);
}

TEST(DemoBoard, DoesNotCatchUpAfterAPause) {
  DemoBoard board = quiet_board();
  board.press(at(60'000 * kMs), '5');
  board.step(at(60'000 * kMs));
  EXPECT_EQ(board.offered(), 1u);
}

TEST(DemoBoard, RepeatingARateKeyOffersNoRequestEarly) {
  DemoBoard board = quiet_board();
  for (int i = 0; i < 100; ++i) {
    board.press(at(i * kMs), '1');
    board.step(at(i * kMs));
  }
  EXPECT_EQ(board.offered(), 1u);
}

TEST(DemoBoard, AFasterRateTakesEffectAtOnce) {
  DemoBoard board = quiet_board();
  board.press(at(0 * kMs), '1');
  board.step(at(0 * kMs));
  board.press(at(10 * kMs), '5');
  board.step(at(209 * kMs));
  EXPECT_EQ(board.offered(), 1u);
  board.step(at(210 * kMs));
  EXPECT_EQ(board.offered(), 2u);
}

TEST(DemoBoard, DropsRequestsThatWereDueDuringASuspension) {
  DemoBoard board(at(0 * kMs), {.requests_per_second = 10});
  board.step(at(std::chrono::hours(1)));
  EXPECT_EQ(board.offered(), 11u);  // of the last second, including both ends
}

TEST(DemoBoard, ChangesTheLimitByATenthWithinItsRange) {
  DemoBoard board = quiet_board(10);
  board.press(at(0 * kMs), '+');
  EXPECT_EQ(board.settings().limit, 11);
  for (int i = 0; i < 100; ++i) board.press(at(0 * kMs), '-');
  EXPECT_EQ(board.settings().limit, 1);
  for (int i = 0; i < 200; ++i) board.press(at(0 * kMs), '+');
  EXPECT_EQ(board.settings().limit, DemoSettings::kMaxLimit);
  board.burst(at(0 * kMs));
  EXPECT_THAT(board.rows(), Each(Field(&DemoRow::admitted, 10u)));
}

TEST(DemoBoard, ClearsRetryTimesWhenTheLimitChanges) {
  DemoBoard board = quiet_board(1);
  board.burst(at(0 * kMs));
  board.press(at(0 * kMs), '+');
  EXPECT_THAT(board.rows(), Each(Field(&DemoRow::retry_at, std::nullopt)));
}

TEST(DemoBoard, CyclesThroughThreeWindows) {
  DemoBoard board = quiet_board();
  std::vector<int64_t> windows;
  for (int i = 0; i < 4; ++i) {
    board.press(at(0 * kMs), 'w');
    windows.push_back(board.settings().window.count());
  }
  EXPECT_THAT(windows, testing::ElementsAre(10000, 1000, 5000, 10000));
}

TEST(DemoBoard, ResetClearsTotalsAndCountsButKeepsSettings) {
  DemoBoard board = quiet_board(10);
  board.burst(at(0 * kMs));
  board.press(at(0 * kMs), '+');
  board.press(at(1 * kMs), 'r');
  EXPECT_EQ(board.offered(), 0u);
  EXPECT_EQ(board.settings().limit, 11);
  EXPECT_THAT(board.rows(), Each(Field(&DemoRow::admitted, 0u)));
  EXPECT_THAT(board.rows(), Each(Field(&DemoRow::remaining, 11u)));
}

TEST(DemoBoard, IgnoresOtherKeys) {
  DemoBoard board = quiet_board();
  for (const char key : std::string_view("xyz\t\r\n[~")) board.press(at(0 * kMs), key);
  EXPECT_EQ(board.offered(), 0u);
  EXPECT_EQ(board.settings().limit, 10);
  EXPECT_EQ(board.settings().requests_per_second, 0);
}

}  // namespace
}  // namespace weir::demo
