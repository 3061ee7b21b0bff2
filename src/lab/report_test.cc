#include "lab/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/series.h"
#include "lab/shapes.h"
#include "lab/text_table.h"

namespace weir::lab {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr Limit kLimit = {.limit = 2, .duration = Millis(1000), .burst = 2};

Traffic three_requests() {
  Traffic traffic{.name = "three", .keys = {"quiet", "busy"}, .arrivals = {}};
  for (const int64_t tick : {5'100, 5'150, 6'200}) {
    traffic.arrivals.push_back({.at = WallTime(Millis(tick)), .cost = 1, .key = 1});
  }
  traffic.arrivals.insert(traffic.arrivals.begin(), {.at = WallTime(Millis(10)), .cost = 2});
  return traffic;
}

TEST(Excerpt, ShowsTheBusiestKeyFromTheWindowOfItsFirstRequest) {
  const Excerpt excerpt = excerpt_of(three_requests(), kLimit.duration, 12);
  EXPECT_EQ(excerpt.key, 1u);
  EXPECT_EQ(excerpt.from, WallTime(Millis(5000)));
  EXPECT_EQ(excerpt.steps, 20u);
  EXPECT_EQ(excerpt_of(three_requests(), kLimit.duration, 1).steps, 10u);
}

TEST(Series, HaveTheCostOfEachStepAndOfTheTrailingWindow) {
  const Traffic traffic = three_requests();
  const Excerpt excerpt = excerpt_of(traffic, kLimit.duration, 12);
  const Series offered = cost_per_step(traffic, excerpt, nullptr);
  EXPECT_EQ(offered[0], 0);
  EXPECT_EQ(offered[1], 2);
  EXPECT_EQ(offered[12], 1);
  const Decisions decisions = {true, true, false, true};
  EXPECT_EQ(cost_per_step(traffic, excerpt, &decisions)[1], 1);
  const Series trailing = trailing_per_step(traffic, excerpt, {true, true, true, true});
  EXPECT_EQ(trailing[0], 0);
  EXPECT_EQ(trailing[1], 2);
  EXPECT_EQ(trailing[10], 2);  // until 6100, when the first has left
  EXPECT_EQ(trailing[11], 1);
  EXPECT_EQ(trailing[12], 1);
  EXPECT_EQ(trailing[19], 1);
}

TEST(TextTable, AlignsItsColumns) {
  EXPECT_EQ(to_text({{"name", "n"}, {{"a", "1"}, {"bcdef", "1,000"}}}),
            "name       n\n"
            "a          1\n"
            "bcdef  1,000\n");
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1'000), "1,000");
  EXPECT_EQ(grouped(1'234'567), "1,234,567");
}

TEST(Report, HasALineForEveryAlgorithm) {
  const Traffic traffic = make_traffic(*find_shape("poisson"), {});
  const Comparison comparison = compare(traffic, {});
  const std::string text = text_report({.title = "poisson", .meaning = "random"}, traffic,
                                       comparison, {{.nanos = "12"}});
  EXPECT_THAT(text, HasSubstr("poisson: random\nlimit 100 per 1,000 ms, burst 100; 20,000 requests "
                              "of 1 key in "));
  EXPECT_THAT(text, HasSubstr("fixed_window             19,191     809    131   1.31"));
  for (const Algorithm algorithm : kAlgorithms) {
    EXPECT_THAT(text, HasSubstr("\n" + std::string(to_string(algorithm)) + " "));
  }
}

TEST(Report, DrawsEveryShapeAndEscapesNames) {
  for (const Shape& shape : shapes()) {
    const Traffic traffic = make_traffic(shape, {.requests = 2000});
    const std::string svg = svg_report({.title = "<" + std::string(shape.name), .meaning = ""},
                                       traffic, compare(traffic, {}), 12);
    EXPECT_TRUE(svg.starts_with("<svg xmlns=")) << shape.name;
    EXPECT_TRUE(svg.ends_with("</svg>\n")) << shape.name;
    EXPECT_THAT(svg, HasSubstr("&lt;" + std::string(shape.name)));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    for (const char* label : {"offered", "fixed_window", "sliding_log", "gcra, token_bucket",
                              "limit / 10", ">limit<"}) {
      EXPECT_THAT(svg, HasSubstr(label)) << shape.name;
    }
  }
}

TEST(Report, DrawsASingleRequest) {
  Traffic traffic{.name = "one", .keys = {"k"}, .arrivals = {{.cost = 0}}};
  const Comparison comparison = compare(traffic, kLimit);
  EXPECT_THAT(svg_report({.title = "one", .meaning = ""}, traffic, comparison, 1000),
              HasSubstr("</svg>"));
  EXPECT_THAT(text_report({.title = "one", .meaning = ""}, traffic, comparison, {}),
              HasSubstr("1 request of 1 key"));
}

}  // namespace
}  // namespace weir::lab
