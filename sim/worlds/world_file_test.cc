#include "sim/worlds/world_file.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::sim {
namespace {

TEST(WorldFile, ReadsWhatItWrote) {
  const WorldOptions options{.seed = ~uint64_t{0},
                             .regions = 2,
                             .nodes = 3,
                             .fault_time = Millis(1234),
                             .faults = FaultMode::kNone,
                             .limits_differ = true,
                             .max_region_skew = Millis(1500),
                             .visitors = 7,
                             .table = TableSize::kSmall,
                             .remote_tuples = 3,
                             .small_row_budget = true,
                             .tenants = true,
                             .kills_after_ack = true,
                             .kills_bridges = true,
                             .feed_gaps = true,
                             .bursts = true,
                             .without_origin = 1,
                             .clock = ClockFault::kJumps,
                             .steps_back = true,
                             .ledger_trouble = true,
                             .fails_over_often = true,
                             .pauses_bridges = true,
                             .all_algorithms = true,
                             .changes_settings = true,
                             .relaxed = true,
                             .read_deadline = Millis(50),
                             .on_origin_loss = OnOriginLoss::kShare,
                             .tuples = 2,
                             .disabled_faults = {WorldFault::kKills, WorldFault::kClockSteps}};
  const std::string text = write_world(options, "Two lines\nof comment");
  EXPECT_EQ(text.rfind("# Two lines\n# of comment\nseed: 18446744073709551615\n", 0), 0u);
  const auto read = read_world(text);
  ASSERT_TRUE(read.ok()) << read.error().detail;
  EXPECT_EQ(write_world(*read), write_world(options));
  EXPECT_EQ(read->disabled_faults, options.disabled_faults);
  EXPECT_EQ(read->on_origin_loss, OnOriginLoss::kShare);
}

TEST(WorldFile, ErrorsNameTheLineAndTheValue) {
  EXPECT_EQ(read_world("seed: 1\nregoins: 2\n").error().detail,
            "line 2: 'regoins' is not a setting of a world");
  EXPECT_EQ(read_world("tuples: 5").error().detail, "line 1: '5' is not a valid tuples");
  EXPECT_EQ(read_world("disabled_faults: [rain]").error().detail,
            "line 1: '[rain]' is not a valid disabled_faults");
  EXPECT_EQ(read_world("weather: fair").error().detail, "line 1: 'weather' is now faults");
  EXPECT_EQ(read_world("seed").error().detail, "line 1: 'seed' is not `name: value`");
}

TEST(WorldFile, KeepsDefaultsOfMissingSettings) {
  const auto read = read_world("# nothing\n\nseed: 5\n");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(write_world(*read), write_world({.seed = 5}));
}

}  // namespace
}  // namespace weir::sim
