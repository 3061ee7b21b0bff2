// Random small worlds, checked after every event, each reproducible from its seed.

#include "sim/world.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace weir::sim {
namespace {

std::string story(uint64_t seed, const RunReport& report) {
  std::string text = "seed " + std::to_string(seed) + ": " + report.broken.value_or("fine") + "\n";
  for (const std::string& event : report.last_events) text += "  " + event + "\n";
  return text;
}

uint64_t seeds_to_run() {
  const char* wanted = std::getenv("WEIR_SIM_SEEDS");
  return wanted != nullptr && *wanted != '\0' ? std::strtoull(wanted, nullptr, 10) : 40;
}

TEST(World, KeepsEveryInvariantAndReachesEveryInterestingState) {
  std::map<Mark, uint64_t> marks;
  uint64_t admitted = 0;
  uint64_t denied = 0;
  for (uint64_t seed = 1; seed <= seeds_to_run(); ++seed) {
    const RunReport report = World({.seed = seed}).run();
    ASSERT_FALSE(report.broken) << story(seed, report);
    for (const auto& [mark, times] : report.marks) marks[mark] += times;
    admitted += report.admitted;
    denied += report.denied;
  }
  for (int i = 0; i < static_cast<int>(Mark::kCount); ++i) {
    EXPECT_GT(marks[static_cast<Mark>(i)], 0u)
        << "never reached: " << to_string(static_cast<Mark>(i));
  }
  EXPECT_GT(admitted, 1000u);
  EXPECT_GT(denied, 1000u);
}

TEST(World, TellsTheSameStoryTwiceFromTheSameSeedAndAnotherFromAnother) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const RunReport one = World({.seed = seed}).run();
    const RunReport two = World({.seed = seed}).run();
    EXPECT_EQ(one.fingerprint, two.fingerprint);
    EXPECT_EQ(one.events, two.events);
    EXPECT_NE(one.fingerprint, World({.seed = seed + 100}).run().fingerprint);
  }
}

TEST(World, HoldsWithMoreNodesToo) {
  for (uint64_t seed = 1000; seed < 1005; ++seed) {
    const RunReport report = World({.seed = seed, .nodes = 5}).run();
    ASSERT_FALSE(report.broken) << story(seed, report);
  }
}

}  // namespace
}  // namespace weir::sim
