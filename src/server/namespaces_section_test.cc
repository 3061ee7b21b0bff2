#include "server/namespaces_section.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace weir::server {
namespace {

std::vector<std::string> problems_in(const std::string& yaml) {
  Config config;
  std::vector<std::string> problems;
  for (const ConfigProblem& problem : read_config_text(yaml, config)) {
    problems.push_back(std::to_string(problem.line) + ":" + std::to_string(problem.column) + " " +
                       problem.text);
  }
  return problems;
}

TEST(NamespacesSection, HoldsValuesOfNamespaces) {
  Config config;
  ASSERT_TRUE(read_config_text("namespaces:\n"
                               "  api: {limit: 100, duration: 1m}\n"
                               "  \"a b\": {algorithm: gcra, burst: 7, consistency: exact}\n",
                               config)
                  .empty());
  ASSERT_EQ(config.namespaces.size(), 2U);
  EXPECT_EQ(config.namespaces["api"],
            (catalog::LimitValues{.limit = 100, .duration = Millis(60'000)}));
  EXPECT_EQ(config.namespaces["a b"],
            (catalog::LimitValues{
                .algorithm = Algorithm::kGcra, .burst = 7, .consistency = Consistency::kExact}));
}

TEST(NamespacesSection, ReportsProblemsWithLineAndColumn) {
  const auto first = [](const std::string& yaml) {
    const auto problems = problems_in(yaml);
    return problems.size() == 1 ? problems[0] : std::to_string(problems.size()) + " problems";
  };
  EXPECT_EQ(first("namespaces:\n"), "1:1 namespaces is empty: add namespaces");
  EXPECT_EQ(first("namespaces: 5\n"), "1:13 namespaces must be pairs of 'name: value'");
  EXPECT_EQ(first("namespaces:\n  api: {limit: 0, duration: 1m}\n"),
            "2:16 limit is '0': it must be a whole number from 1 to 1000000000000");
  EXPECT_EQ(first("namespaces:\n  api: {limit: 5}\n"),
            "2:8 the namespace api has no duration: add it");
  EXPECT_EQ(first("namespaces:\n  api: {colour: 5}\n"),
            "2:9 'colour' is not a part of the namespace api; its parts are limit, duration, "
            "algorithm, burst, consistency");
  EXPECT_NE(first("namespaces:\n  api: {limit: 5, duration: 1s, burst: 5}\n").find("2:"),
            std::string::npos)
      << "a burst needs gcra or token_bucket";
}

TEST(NamespacesSection, IsValidInTheDocumentation) {
  std::ifstream file(std::string(WEIR_SOURCE_DIR) + "/docs/configuration.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  const size_t begin = page.find("```yaml\nnamespaces:");
  ASSERT_NE(begin, std::string::npos);
  const size_t from = begin + 8;
  EXPECT_EQ(problems_in(page.substr(from, page.find("```", from) - from)),
            std::vector<std::string>{});
}

}  // namespace
}  // namespace weir::server
