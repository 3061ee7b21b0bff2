#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "sim/report/example_results.h"
#include "sim/report/figures.h"
#include "sim/report/html.h"
#include "sim/report/json.h"
#include "sim/report/saw_tooth.h"
#include "sim/report/summary.h"

namespace weir::sim {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

size_t widest(const std::string& text) {
  size_t max = 0;
  for (const std::string& line : lines_of(text)) max = std::max(max, line.size());
  return max;
}

size_t times(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Figures, BelongToOneGroupEachAndUnknownOnesComeLast) {
  std::vector<Figure> figures = example_results().figures;
  figures.insert(figures.begin(), {.key = "new", .label = "a new figure", .unit = "", .value = 1});
  size_t count = 0;
  const auto groups = grouped(figures);
  for (const FigureGroup& group : groups) count += group.figures.size();
  EXPECT_EQ(count, figures.size());
  EXPECT_EQ(groups.back().figures.back().key, "new");
  EXPECT_TRUE(grouped({}).empty());
}

TEST(Figures, SayThatThereWasNoBound) {
  Figure bound{.key = "bound", .label = "bound", .unit = "", .value = INFINITY};
  EXPECT_EQ(with_unit(bound, ","), "no bound");
  Results results = example_results();
  for (Figure& figure : results.figures) {
    if (figure.key == "bound") figure.value = INFINITY;
  }
  const std::string page = to_html({results}, "");
  EXPECT_THAT(page, HasSubstr("<strong>no bound</strong>"));
  EXPECT_THAT(page, Not(HasSubstr("<strong>?</strong>")));
  EXPECT_THAT(page, Not(HasSubstr("bound ?")));
}

TEST(Figures, HaveShortNamesForATerminal) {
  for (const Figure& figure : example_results().figures) {
    EXPECT_LE(short_label(figure).size(), 30u);
  }
  EXPECT_EQ(short_label({.key = "new", .label = "a new figure", .unit = ""}), "a new figure");
}

TEST(Figures, AreBetterOrWorseOnlyIfTheirTextsDifferAndTheyAreResults) {
  const Figure rows{.key = "rows", .label = "rows", .unit = "/s", .value = 10};
  const auto with = [](Figure figure, double value) {
    figure.value = value;
    return figure;
  };
  EXPECT_EQ(difference(rows, with(rows, 9)), Difference::kBetter);
  EXPECT_EQ(difference(rows, with(rows, 11)), Difference::kWorse);
  EXPECT_EQ(difference(rows, rows), Difference::kNone);
  EXPECT_EQ(difference(rows, with(rows, kNaN)), Difference::kNeither);
  const Figure bound{.key = "bound", .label = "bound", .unit = "", .value = 1};
  EXPECT_EQ(difference(bound, with(bound, 2)), Difference::kNeither);
}

TEST(Summary, FitsOneScreen) {
  const std::string text = summary(example_results());
  EXPECT_LE(widest(text), 80u) << text;
  EXPECT_LE(lines_of(text).size(), 24u) << text;
  for (const char* part :
       {"origin_outage", "A thousand keys", "3 regions, 12 nodes, 1,000 keys, seed 42",
        "worst window, in limits", "met  worst_cell <= 1.35 (actual 1.124)", "0123456789abcdef",
        "255 s simulated in 1.9 s (134x)"}) {
    EXPECT_THAT(text, HasSubstr(part)) << text;
  }
}

TEST(Summary, NamesEachUnmetExpectationAndTheActualValue) {
  const std::string text = summary(example_results({.worse = 2}));
  EXPECT_THAT(text, HasSubstr("NOT MET  rows <= 100: actual 169\n"));
}

TEST(Summary, NamesTheBrokenInvariantAndTheLastEvents) {
  Results results = example_results();
  results.broken = "regional bound: 12 admitted where 10 are allowed";
  results.last_events = {"1.000 eu/0 request", "1.001 eu/0 admitted\x1b[2J"};
  const std::string text = summary(results);
  EXPECT_THAT(text, HasSubstr("BROKEN regional bound: 12 admitted where 10 are allowed"));
  EXPECT_THAT(text, HasSubstr("  1.001 eu/0 admitted"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_LE(widest(text), 80u);
}

TEST(Summary, HandlesEmptyResults) {
  EXPECT_THAT(summary({}), HasSubstr("0 regions"));
  EXPECT_EQ(comparison({}), "");
  EXPECT_EQ(seeds_summary({}), "");
}

TEST(Comparison, MarksBetterAndWorseFiguresInEightyColumns) {
  Results other = example_results({.worse = 2});
  other.variant = "settings.policy=floor";
  const std::string text = comparison({example_results(), other});
  EXPECT_LE(widest(text), 80u) << text;
  EXPECT_LE(lines_of(text).size(), 28u) << text;
  EXPECT_THAT(text, HasSubstr("  policy=floor\n"));
  EXPECT_THAT(text, HasSubstr("169/s worse")) << text;
  EXPECT_THAT(text, HasSubstr("620 ms better"));
  EXPECT_THAT(text, HasSubstr("3 of 4"));
  EXPECT_THAT(comparison({other, other, other, other}), Not(HasSubstr("worse")));
}

TEST(SeedsSummary, ShowsMinimumMedianMaximumAndTheWorstSeed) {
  std::vector<Results> seeds;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    seeds.push_back(example_results({.worse = seed == 2 ? 3.0 : 1.0 / double(seed)}));
    seeds.back().seed = seed;
  }
  const std::string text = seeds_summary(seeds);
  EXPECT_LE(widest(text), 80u) << text;
  EXPECT_THAT(text, testing::ContainsRegex("ledger rows written +28.2/s +84.6/s +254/s +2\n"))
      << text;
  EXPECT_THAT(text, HasSubstr("2 of 3 runs met every expectation"));
  EXPECT_THAT(text, HasSubstr("seed 2:\nNOT MET"));
}

TEST(Json, RoundTripsThroughAParser) {
  Results results = example_results({.regions = 2, .seconds = 10});
  results.scenario = "quotes \" \\ \n \x01 </script> \xff \xc3\xa4";
  results.broken = "it";
  results.figures[0].value = kNaN;
  results.series[0].values[1] = std::numeric_limits<double>::infinity();
  simdjson::dom::parser parser;
  const simdjson::padded_string text(to_json(std::vector<Results>{results, results}));
  const simdjson::dom::element root = parser.parse(text);
  const auto runs = root["runs"].get_array().value();
  ASSERT_EQ(runs.size(), 2u);
  const simdjson::dom::element run = runs.at(0);
  EXPECT_EQ(run["scenario"].get_string().value(),
            "quotes \" \\ \n \x01 </script> \xef\xbf\xbd \xc3\xa4");
  EXPECT_EQ(run["seed"].get_string().value(), "42");
  EXPECT_EQ(run["broken"].get_string().value(), "it");
  EXPECT_TRUE(run["figures"].at(0)["value"].is_null());
  EXPECT_EQ(run["figures"].at(4)["key"].get_string().value(), "worst_cell");
  EXPECT_EQ(run["figures"].at(4)["value"].get_double().value(), results.figures[4].value);
  EXPECT_TRUE(run["series"].at(0)["values"].at(1).is_null());
  EXPECT_EQ(run["expectations"].at(0)["expectation"].get_string().value(), "worst_cell <= 1.35");
  EXPECT_TRUE(run["expectations"].at(0)["met"].get_bool().value());
  EXPECT_FALSE(run["passed"].get_bool().value());
  EXPECT_EQ(run["spotlights"].at(0)["admitted"].get_array().value().size(), 2u);
  EXPECT_EQ(run["spotlights"].at(0)["limit"].get_int64().value(), 600);
  EXPECT_EQ(run["cell_shares"].get_array().value().size(), results.cell_shares.size());
  EXPECT_EQ(run["faults"].at(0)["label"].get_string().value(), "the origin refuses, eu-west");
  EXPECT_EQ(to_json(results), to_json(results));
  EXPECT_EQ(times(std::string(text), "</script"), 0u);
}

TEST(Json, OfEmptyResultsIsValid) {
  simdjson::dom::parser parser;
  EXPECT_TRUE(parser.parse(to_json(Results{}))["broken"].is_null());
  EXPECT_EQ(parser.parse(to_json(std::vector<Results>{}))["runs"].get_array().value().size(), 0u);
}

TEST(SawTooth, RestartsWithEachWindow) {
  const Spotlight spotlight{
      .name = "k", .limit = 5, .duration = Millis(2000), .admitted = {}, .offered = {}};
  const SawTooth saw_tooth(spotlight, 4);
  EXPECT_EQ(saw_tooth.x(), (std::vector<double>{0, 1, 2, 2, 3, 4}));
  EXPECT_EQ(saw_tooth.cumulative(std::vector<uint32_t>{1, 2, 3, 4}),
            (std::vector<double>{0, 1, 3, 0, 3, 7}));
  EXPECT_EQ(saw_tooth.cumulative(std::vector<uint32_t>{}), (std::vector<double>(6, 0.0)));
}

TEST(SawTooth, ShowsTheTotalOfEachWindowIfThereAreTooMany) {
  const Spotlight spotlight{
      .name = "k", .limit = 5, .duration = Millis(500), .admitted = {}, .offered = {}};
  const SawTooth saw_tooth(spotlight, 200);
  EXPECT_TRUE(saw_tooth.whole_windows());
  const std::vector<double> cumulative = saw_tooth.cumulative(std::vector<uint32_t>(200, 3));
  EXPECT_EQ(cumulative, std::vector<double>(cumulative.size(), 3.0));
  EXPECT_EQ(saw_tooth.x().size(), cumulative.size());
  EXPECT_EQ(saw_tooth.x().back(), 200);
}

TEST(Report, ScalesTheLimitOfAShortWindowToOneSecond) {
  Results results = example_results({.seconds = 20});
  results.spotlights.resize(1);
  results.spotlights[0].duration = Millis(500);
  results.spotlights[0].limit = 40;
  EXPECT_THAT(to_html({results}, ""),
              HasSubstr("Admissions per second, by region; limit 40 per 0.50 s"));
}

TEST(Report, EscapesEveryName) {
  const std::string evil = "<script>alert('\"&')</script>";
  Results results = example_results({.seconds = 20});
  results.scenario = results.about = results.variant = evil;
  results.regions[0] = results.spotlights[0].name = evil;
  results.faults[0].label = results.expectations[0].expectation = results.figures[0].label = evil;
  results.series[0].label = results.series[6].label = results.figures[0].unit = evil;
  results.broken = evil;
  results.last_events = {evil};
  const std::string page = to_html({results, results}, evil);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&#39;&quot;&amp;&#39;)"));
}

TEST(Report, RefersToNoOtherFile) {
  const std::string page = to_html({example_results()}, "weir sim x.yaml");
  for (const char* part : {"http:", "https:", "src=", "href=", "@import"}) {
    EXPECT_THAT(page, Not(HasSubstr(part)));
  }
  EXPECT_THAT(page, HasSubstr("weir sim x.yaml"));
  EXPECT_THAT(page, HasSubstr("0123456789abcdef"));
  EXPECT_THAT(page, HasSubstr(">the origin refuses, eu-west</text>"));
}

TEST(Report, DrawsTheBusiestRegionsSeparatelyAndTheOthersTogether) {
  const auto areas = [](size_t regions) {
    Results results = example_results({.regions = regions, .seconds = 60});
    results.spotlights.resize(1);
    return times(to_html({results}, ""), "class=\"area\"");
  };
  EXPECT_EQ(areas(3), 3u + 4u);  // one key; traffic, with the denied requests
  EXPECT_EQ(areas(8), 8u + 9u);
  EXPECT_EQ(areas(30), 9u + 10u);
  EXPECT_THAT(to_html({example_results({.regions = 30})}, ""), HasSubstr("22 others"));
}

TEST(Report, DownsamplesLongRuns) {
  const size_t hour = to_html({example_results({.seconds = 3600})}, "").size();
  const size_t day = to_html({example_results({.seconds = 36'000})}, "").size();
  EXPECT_LT(day, hour + hour / 2);
}

TEST(Report, OfEmptyResultsIsAPage) {
  EXPECT_EQ(to_html({}, ""), "");
  EXPECT_THAT(to_html({Results{}}, ""), HasSubstr("</html>"));
  Results results = example_results({.regions = 1, .seconds = 1});
  results.cell_shares = {kNaN};
  results.delays_ms = {5};
  for (Series& series : results.series) series.values.resize(1);
  for (Figure& figure : results.figures) figure.value = kNaN;
  EXPECT_THAT(to_html({results}, ""), testing::AllOf(HasSubstr("</html>"), Not(HasSubstr("nan"))));
}

}  // namespace
}  // namespace weir::sim
