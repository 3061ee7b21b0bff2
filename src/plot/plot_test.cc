#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "plot/bar_chart.h"
#include "plot/histogram.h"
#include "plot/line_image.h"
#include "plot/line_plot.h"
#include "plot/page.h"
#include "plot/text.h"
#include "plot/ticks.h"

namespace weir::plot {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

size_t times(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Readable, ShowsSignificantDigitsAndSeparatesThousands) {
  EXPECT_EQ(readable(0), "0");
  EXPECT_EQ(readable(1.0042), "1.004");
  EXPECT_EQ(readable(12.345), "12.3");
  EXPECT_EQ(readable(0.0134), "0.013");
  EXPECT_EQ(readable(0.00004), "4e-05");
  EXPECT_EQ(readable(999), "999");
  EXPECT_EQ(readable(1000), "1,000");
  EXPECT_EQ(readable(1'234'567.8), "1,234,568");
  EXPECT_EQ(readable(-1234), "-1,234");
  EXPECT_EQ(readable(kNaN), "?");
}

TEST(JsonString, EscapesQuotesControlCharactersAndTags) {
  EXPECT_EQ(json_string("a \" \\ \n <b>"), R"("a \" \\ \u000a \u003cb>")");
  EXPECT_EQ(json_string("\xc3\xa4\xff"), "\"\xc3\xa4\\ufffd\"");
}

TEST(JsonNumber, IsNullUnlessFinite) {
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(json_number(kNaN), "null");
}

TEST(Ticks, AreRoundNumbersAndReachTheMaximum) {
  EXPECT_EQ(ticks_up_to(950, 5), (std::vector<double>{0, 200, 400, 600, 800, 1000}));
  EXPECT_EQ(ticks_up_to(7, 4), (std::vector<double>{0, 2, 4, 6, 8}));
  EXPECT_EQ(ticks_up_to(0, 5), (std::vector<double>{0, 1}));
  EXPECT_EQ(ticks_up_to(kNaN, 5), (std::vector<double>{0, 1}));
  EXPECT_EQ(ticks_up_to(-3, 0), (std::vector<double>{0, 1}));
}

TEST(Downsample, KeepsBothEndsTheMinimumAndTheMaximum) {
  std::vector<double> values(3600, 5.0);
  values[1234] = 99;
  values[2345] = -7;
  values[3000] = kNaN;
  const std::vector<size_t> kept = downsample(values, 200);
  EXPECT_LE(kept.size(), 202u);
  EXPECT_TRUE(std::ranges::is_sorted(kept));
  EXPECT_EQ(std::ranges::adjacent_find(kept), kept.end());
  for (const size_t expected : {size_t{0}, size_t{1234}, size_t{2345}, values.size() - 1}) {
    EXPECT_TRUE(std::ranges::count(kept, expected) == 1) << expected;
  }
  EXPECT_EQ(downsample({1, 2, 3}, 200), (std::vector<size_t>{0, 1, 2}));
  EXPECT_TRUE(downsample({}, 200).empty());
  EXPECT_EQ(downsample({1, 2}, 0).size(), 2u);
}

LinePlot two_areas() {
  LinePlot plot{.title = "t"};
  plot.to = 3;
  plot.x = {0, 1, 2};
  plot.areas = {{"a", "var(--c0)", {1, 2, 3}}, {"b", "var(--c1)", {1, kNaN}}};
  plot.curves = {{"c", "var(--ink)", {0, 1, 2}, {1, kNaN, 2}}};
  return plot;
}

TEST(LinePlot, LeavesOutValuesThatAreNotFinite) {
  const std::string figure = to_html(two_areas());
  EXPECT_EQ(times(figure, "class=\"area\""), 2u);
  EXPECT_THAT(figure, Not(HasSubstr("nan")));
  EXPECT_THAT(figure, Not(HasSubstr("inf")));
  EXPECT_THAT(figure, HasSubstr("\"y\":[1,null,2]"));
}

TEST(LinePlot, DrawsEmptyDataAndASinglePoint) {
  for (const LinePlot::XAxis x_axis :
       {LinePlot::XAxis::kTime, LinePlot::XAxis::kLinear, LinePlot::XAxis::kLogarithmic}) {
    LinePlot plot{.title = "nothing", .x_axis = x_axis};
    EXPECT_THAT(to_html(plot), testing::AllOf(HasSubstr("</svg>"), Not(HasSubstr("nan"))));
    plot.curves = {{"one", "red", {0}, {0}}};
    plot.x = {0};
    plot.areas = {{"one", "red", {0}}};
    plot.spans = {{"f", kNaN, kNaN}};
    EXPECT_THAT(to_html(plot), testing::AllOf(HasSubstr("</svg>"), Not(HasSubstr("nan"))));
  }
  const Histogram histogram{.title = "nothing", .edges = {}, .sets = {{"a", "red", {}}}};
  EXPECT_THAT(to_html(histogram), testing::AllOf(HasSubstr("</svg>"), Not(HasSubstr("nan"))));
}

TEST(LineImage, StandsAloneAndPlacesItsPanelsBelowEachOther) {
  LinePlot first{.title = "first <panel>"};
  first.curves = {{"a", "#112233", {0, 1}, {1, 2}}, {"b & c", "#445566", {0, 1}, {2, kNaN}}};
  const LinePlot second{.title = "second"};
  const std::string svg =
      to_svg(LineImage{.title = "t", .subtitle = "s", .panels = {first, second}});
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(times(svg, "<svg "), 3u);
  EXPECT_EQ(times(svg, "class=\"curve\""), 2u);
  EXPECT_THAT(svg, HasSubstr("first &lt;panel&gt;"));
  EXPECT_THAT(svg, HasSubstr(">b &amp; c<"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("var(--")));
  EXPECT_LT(svg.find("first &lt;"), svg.find("second"));
  EXPECT_THAT(svg,
              HasSubstr("style=\"max-width:100%;height:auto\""));  // a narrow window cut it off
}

TEST(LinePlot, PlacesSpanLabelsWithoutOverlap) {
  LinePlot plot = two_areas();
  plot.spans = {{"first", 1, 2}, {"second", 1.01, 1.01}, {"third, <where>", 1.02, 2}};
  const std::string figure = to_html(plot);
  EXPECT_EQ(times(figure, "class=\"span-label\""), 3u);
  EXPECT_THAT(figure, HasSubstr("third, &lt;where&gt;</text>"));
  std::vector<std::string> heights;
  for (const char* part : {">first</text>", ">second</text>"}) {
    const size_t y = figure.rfind("y=\"", figure.find(part));
    heights.push_back(figure.substr(y, figure.find(' ', y) - y));
  }
  EXPECT_NE(heights[0], heights[1]);
}

TEST(LinePlot, ShadesManySpansWithoutLabels) {
  LinePlot plot = two_areas();
  for (int i = 0; i < 60; ++i) plot.spans.push_back({"fault", i * 0.05, i * 0.05 + 0.02});
  const std::string figure = to_html(plot);
  EXPECT_EQ(times(figure, "class=\"span-label\""), 0u);
  EXPECT_EQ(times(figure, "<title>fault</title>"), 60u);
}

BarChart two_groups() {
  return {.title = "Rates <per second>",
          .subtitle = "a machine",
          .unit = "M/s",
          .groups = {{.title = "first",
                      .bars = {{.label = "a & b", .value = 20},
                               {.label = "c", .value = kNaN, .style = BarStyle::kOther}}},
                     {.title = "empty", .bars = {}},
                     {.title = "second",
                      .bars = {{.label = "d", .value = 5, .style = BarStyle::kBaseline}}}},
          .footnotes = {"one", "two"}};
}

TEST(BarChart, DrawsABarForEachValueAndLeavesOutEmptyGroups) {
  const std::string svg = to_svg(two_groups());
  EXPECT_EQ(times(svg, "class=\"primary\""), 1u);
  EXPECT_EQ(times(svg, "class=\"other\""), 1u);
  EXPECT_EQ(times(svg, "class=\"baseline\""), 1u);
  EXPECT_THAT(svg, HasSubstr("20.0 M/s"));
  EXPECT_THAT(svg, HasSubstr("width=\"135.0\""));  // a quarter of the longest
  EXPECT_THAT(svg, Not(HasSubstr(">empty<")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, HasSubstr("Rates &lt;per second&gt;"));
  EXPECT_THAT(svg, HasSubstr("a &amp; b"));
  EXPECT_THAT(svg, HasSubstr(">two</text>"));
}

TEST(BarChart, OfNoPositiveValueIsEmpty) {
  EXPECT_EQ(to_svg({.title = "t", .subtitle = "", .unit = "", .groups = {}}), "");
  BarChart chart = two_groups();
  for (BarGroup& group : chart.groups) {
    for (Bar& bar : group.bars) bar.value = 0;
  }
  EXPECT_EQ(to_svg(chart), "");
}

// A chart of 1080 px was shown in 440 on a telephone, its labels in 4 px.
TEST(Page, KeepsLabelsReadableOnANarrowScreen) {
  LinePlot plot{.title = "t"};
  plot.width = 900;
  EXPECT_THAT(to_html(plot), HasSubstr("style=\"--w:900px\""));
  EXPECT_THAT(to_html(Histogram{.title = "h", .width = 700, .edges = {0, 1}, .sets = {}}),
              HasSubstr("style=\"--w:700px\""));
  EXPECT_THAT(to_html(Page{.title = "", .body = ""}),
              HasSubstr("svg{min-width:calc(.9*var(--w,440px))}"));
}

TEST(Page, EscapesItsTitleAndContainsStyleAndScript) {
  const std::string page = to_html(Page{.title = "<b>", .body = "<p>text</p>"});
  EXPECT_THAT(page, HasSubstr("<title>&lt;b&gt;</title>"));
  EXPECT_THAT(page, HasSubstr("<main>\n<p>text</p></main>"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(page, testing::EndsWith("</html>\n"));
}

}  // namespace
}  // namespace weir::plot
