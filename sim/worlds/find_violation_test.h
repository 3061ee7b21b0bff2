// Test functions: describe a violation, and expect that checkers find a planted bug.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "sim/worlds/world.h"

namespace weir::sim {

// The number of worlds of a test: `usual`, or WEIR_SIM_SEEDS.
inline uint64_t seeds_or(uint64_t usual) {
  const char* wanted = std::getenv("WEIR_SIM_SEEDS");
  return wanted != nullptr && *wanted != '\0' ? std::strtoull(wanted, nullptr, 10) : usual;
}

inline std::string describe(uint64_t seed, const RunReport& report) {
  std::string text =
      "seed " + std::to_string(seed) + ": " + report.broken.value_or("no violation") + "\n";
  for (const std::string& event : report.last_events) text += "  " + event + "\n";
  return text;
}

// Expects that one of these checkers is the first to report a violation, in a world of the first
// `most` seeds.
inline void expect_found(WorldOptions options, uint64_t most,
                         const std::vector<std::string_view>& by) {
  for (options.seed = 1; options.seed <= most; ++options.seed) {
    const RunReport report = World(options).run();
    if (!report.broken) continue;
    const std::string_view checker =
        std::string_view(*report.broken).substr(0, report.broken->find(':'));
    EXPECT_NE(std::find(by.begin(), by.end(), checker), by.end()) << describe(options.seed, report);
    ::testing::Test::RecordProperty("seeds", std::to_string(options.seed));
    return;
  }
  FAIL() << "no checker reported a violation";
}

}  // namespace weir::sim
