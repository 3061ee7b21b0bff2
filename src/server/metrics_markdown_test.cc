#include "server/metrics_markdown.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "telemetry/metric_table.h"

namespace weir::server {
namespace {

TEST(MetricsMarkdown, EqualsThePageInDocs) {
  std::ifstream file(WEIR_SOURCE_DIR "/docs/metrics.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(page == metrics_markdown())
      << "docs/metrics.md differs from the table: run build/bin/weir metrics > docs/metrics.md";
}

TEST(MetricsMarkdown, HasARowForEachMetric) {
  const std::string page = metrics_markdown();
  for (const telemetry::MetricInfo& info : telemetry::metric_table()) {
    EXPECT_NE(page.find("| `" + std::string(info.name) + "` |"), std::string::npos) << info.name;
  }
}

}  // namespace
}  // namespace weir::server
