// The scenarios of the repository are valid, and the documentation explains every word of them.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/scenario/figures.h"
#include "sim/scenario/scenario_file.h"
#include "sim/scenario/scenario_words.h"

namespace weir::sim {
namespace {

const std::filesystem::path kRoot = WEIR_SOURCE_DIR;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Scenarios, CanAllBeRead) {
  size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "scenarios")) {
    ASSERT_EQ(entry.path().extension(), ".yaml") << entry.path();
    ++found;
    const std::string file = "scenarios/" + entry.path().filename().string();
    const auto result = read_scenario(text_of(entry.path()), file);
    ASSERT_TRUE(result.ok()) << result.error().detail;
    EXPECT_FALSE(result->expect.empty()) << file << " expects nothing";
    EXPECT_EQ(result->name, entry.path().stem().string());
  }
  EXPECT_GE(found, 40u);
}

TEST(Scenarios, HaveAllTheirWordsInTheDocumentation) {
  const std::string page = text_of(kRoot / "docs/scenarios.md");
  const auto names = [&](std::string_view word) {
    return page.find("`" + std::string(word) + "`") != std::string::npos;
  };
  for (const FaultWords& fault : fault_words()) EXPECT_TRUE(names(fault.word)) << fault.word;
  for (const auto shape : shape_words()) EXPECT_TRUE(names(shape)) << shape;
  for (const auto clock : clock_words()) EXPECT_TRUE(names(clock)) << clock;
  for (const FigureName& figure : known_figures()) EXPECT_TRUE(names(figure.key)) << figure.key;
}

}  // namespace
}  // namespace weir::sim
