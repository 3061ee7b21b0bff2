// Runs every scenario of the repository: its expectations are met, and no invariant breaks.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/fleets/run.h"
#include "sim/scenario/scenario_file.h"

namespace weir::sim {
namespace {

// Scenarios with tens of thousands of keys take minutes: CMakeLists.txt has a test of its own for
// each.
bool is_large(const std::string& name) {
  return name.starts_with("rfc-fleet-") || name.starts_with("scale-");
}

// Each of these takes as long as ten others.
bool is_long(const std::string& name) {
  return name == "growth" || name == "rfc-fleet" || name == "sizing" ||
         name == "attack-contended-starves-presence" || name == "attack-flood-of-fresh-keys";
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  const auto folder = std::filesystem::path(WEIR_SOURCE_DIR) / "scenarios";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (!is_large(name)) all.push_back(name);
  }
  std::sort(all.begin(), all.end());
  return all;
}

Results run(const std::string& name) {
  const std::string path = std::string(WEIR_SOURCE_DIR) + "/scenarios/" + name + ".yaml";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return run_scenario(read_scenario(text.str(), path).value());
}

class RepositoryScenario : public ::testing::TestWithParam<std::string> {};

TEST_P(RepositoryScenario, MeetsItsExpectationsAndGivesTheSameResultTwice) {
  const Results results = run(GetParam());
  if (!is_long(GetParam())) {
    EXPECT_EQ(run(GetParam()).fingerprint, results.fingerprint);
  }
  EXPECT_EQ(results.broken, std::nullopt);
  for (const ExpectationResult& expectation : results.expectations) {
    EXPECT_TRUE(expectation.met) << expectation.expectation << ", actual " << expectation.actual;
  }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, RepositoryScenario, ::testing::ValuesIn(names()),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace weir::sim
