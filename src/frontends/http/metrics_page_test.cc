#include "frontends/http/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "frontends/fixture_test.h"
#include "telemetry/metric_table.h"

namespace weir::frontends {
namespace {

using telemetry::FrontendStat;
using testing::HasSubstr;

std::string page(const Fixture& fixture) {
  Bytes out;
  write_metrics(fixture.service, out);
  return std::string(out.unread());
}

TEST(MetricsPage, HasTheTextFormatOfPrometheus) {
  const Fixture fixture;
  std::istringstream lines(page(fixture));
  const std::regex help("# HELP (weir_[a-z_]+) [A-Z].*\\.");
  const std::regex type("# TYPE (weir_[a-z_]+) (counter|gauge|histogram)");
  const std::regex sample(R"re((weir_[a-z_]+)(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.]+)re");
  std::set<std::string> helped;
  std::set<std::string> series;
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_match(line, found, help)) {
      EXPECT_TRUE(helped.insert(found[1]).second) << line << " again";
      family = found[1];
    } else if (std::regex_match(line, found, type)) {
      EXPECT_EQ(found[1], family);
      // The name of a counter ends in _total.
      EXPECT_EQ(found[2] == "counter", family.ends_with("_total")) << line;
    } else {
      ASSERT_TRUE(std::regex_match(line, found, sample)) << line;
      EXPECT_TRUE(found.str(1).starts_with(family)) << line;
      EXPECT_TRUE(series.insert(line.substr(0, line.find(' '))).second) << line << " again";
    }
  }
  EXPECT_EQ(helped.size(), 22u);
}

// The family names of a page, and the label names of each.
std::map<std::string, std::set<std::string>> families(const std::string& text) {
  std::map<std::string, std::set<std::string>> found;
  std::istringstream lines(text);
  const std::regex label("([a-z]+)=\"");
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      found[family];
    }
    if (line.starts_with('#')) continue;
    for (std::sregex_iterator i(line.begin(), line.end(), label), end; i != end; ++i) {
      if ((*i)[1] != "le") found[family].insert((*i)[1]);
    }
  }
  return found;
}

// The same from the table, of the groups that `exported` accepts.
template <typename Exported>
std::map<std::string, std::set<std::string>> table(const Exported& exported) {
  std::map<std::string, std::set<std::string>> expected;
  for (const telemetry::MetricInfo& info : telemetry::metric_table()) {
    if (!exported(info.group)) continue;
    std::set<std::string>& labels = expected[std::string(info.name)];
    std::istringstream names{std::string(info.labels)};
    for (std::string name; std::getline(names >> std::ws, name, ',');) labels.insert(name);
  }
  return expected;
}

TEST(MetricsPage, HasExactlyTheMetricsAndLabelsOfTheTable) {
  using telemetry::MetricGroup;
  Fixture fixture;
  EXPECT_EQ(families(page(fixture)), table([](MetricGroup group) {
              return group == MetricGroup::kFrontend || group == MetricGroup::kLimiter;
            }));
  const telemetry::OriginMetrics origin;
  const telemetry::LedgerMetrics ledger;
  fixture.service.origin = &origin;
  fixture.service.ledger = &ledger;
  auto all = table([](MetricGroup) { return true; });
  // Only namespaces with a wider bound have labels.
  EXPECT_EQ(all.at("weir_bound_ratio"), (std::set<std::string>{"workspace", "namespace"}));
  all.at("weir_bound_ratio").clear();
  EXPECT_EQ(all.at("weir_state_bound_ratio"),
            (std::set<std::string>{"algorithm", "workspace", "namespace"}));
  all.at("weir_state_bound_ratio") = {"algorithm"};
  EXPECT_EQ(families(page(fixture)), all);
}

TEST(MetricsPage, HasTheBoundOfEachNamespaceThatHasAWiderOne) {
  SyncStats stats;
  stats.bound = 1.35;
  stats.wider_bounds = {{.workspace = "acme", .ns = "login", .bound = 2.1},
                        {.workspace = "", .ns = "a\\b\"c\n\xe9", .bound = 3}};
  Bytes out;
  write_sync_metrics(stats, out);
  EXPECT_THAT(
      std::string(out.unread()),
      HasSubstr("\nweir_bound_ratio 1.350000\n"
                "weir_bound_ratio{workspace=\"acme\",namespace=\"login\"} 2.100000\n"
                "weir_bound_ratio{workspace=\"\",namespace=\"a\\\\x5cb\\\"c\\\\x0a\\\\xe9\"} "
                "3.000000\n"));
}

TEST(MetricsPage, HasTheBoundOfEachAlgorithmWhoseStateAnOriginKeeps) {
  SyncStats stats;
  stats.bound = 1.35;
  stats.backlog_bound = 1.95;
  stats.log_bound = 2.4;
  stats.wider_bounds = {
      {.workspace = "acme", .ns = "login", .bound = 2, .backlog_bound = 3.5, .log_bound = 2.5}};
  Bytes out;
  write_sync_metrics(stats, out);
  const std::string text(out.unread());
  const auto samples_of = [](const std::string& name, const std::string& bound,
                             const std::string& wider) {
    const std::string algorithm = "weir_state_bound_ratio{algorithm=\"" + name + "\"";
    return algorithm + "} " + bound + "\n" + algorithm +
           ",workspace=\"acme\",namespace=\"login\"} " + wider + "\n";
  };
  EXPECT_THAT(text, HasSubstr(samples_of("gcra", "1.950000", "3.500000")));
  EXPECT_THAT(text, HasSubstr(samples_of("token_bucket", "1.950000", "3.500000")));
  EXPECT_THAT(text, HasSubstr(samples_of("sliding_window_strict", "2.400000", "2.500000")));
  EXPECT_THAT(text, HasSubstr(samples_of("sliding_log", "2.400000", "2.500000")));
}

TEST(MetricsPage, CountsDecisionsByFrontendOutcomeAndBasis) {
  Fixture fixture;
  fixture.service.http.decisions.add(telemetry::decided(Outcome::kAdmitted, Basis::kLocal), 3);
  fixture.service.resp.decisions.add(telemetry::decided(Outcome::kNever, Basis::kDegraded), 4);
  const std::string text = page(fixture);
  EXPECT_THAT(
      text,
      HasSubstr(
          "\nweir_decisions_total{frontend=\"http\",outcome=\"admitted\",basis=\"local\"} 3\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "\nweir_decisions_total{frontend=\"resp\",outcome=\"never\",basis=\"degraded\"} 4\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "\nweir_decisions_total{frontend=\"resp\",outcome=\"denied\",basis=\"local\"} 0\n"));
}

TEST(MetricsPage, CountsRequestsAndConnectionsPerFrontend) {
  Fixture fixture;
  const std::pair<FrontendStat, std::string> counters[] = {
      {FrontendStat::kRequests, "weir_requests_total"},
      {FrontendStat::kBad, "weir_bad_requests_total"},
      {FrontendStat::kOpened, "weir_connections_total"},
      {FrontendStat::kEvicted, "weir_connections_evicted_total"},
      {FrontendStat::kCrossProtocol, "weir_cross_protocol_total"},
      {FrontendStat::kUnsupported, "weir_unsupported_total"},
      {FrontendStat::kTimedOut, "weir_connections_timed_out_total"}};
  uint64_t amount = 5;
  for (const auto& [stat, name] : counters) {
    fixture.service.http.stats.add(stat, amount);
    fixture.service.resp.stats.add(stat, 2 * amount);
    EXPECT_THAT(page(fixture),
                HasSubstr("\n" + name + "{frontend=\"http\"} " + std::to_string(amount) + "\n" +
                          name + "{frontend=\"resp\"} " + std::to_string(2 * amount) + "\n"));
    ++amount;
  }
}

TEST(MetricsPage, CountsRefusalsByReason) {
  Fixture fixture;
  const std::pair<FrontendStat, std::string> counters[] = {
      {FrontendStat::kRefused,
       "weir_connections_refused_total{frontend=\"resp\",reason=\"connections\"}"},
      {FrontendStat::kRefusedAddress,
       "weir_connections_refused_total{frontend=\"resp\",reason=\"address\"}"},
      {FrontendStat::kRefusedMemory,
       "weir_connections_refused_total{frontend=\"resp\",reason=\"memory\"}"},
      {FrontendStat::kMissingKey, "weir_auth_failures_total{frontend=\"resp\",reason=\"missing\"}"},
      {FrontendStat::kMalformedKey,
       "weir_auth_failures_total{frontend=\"resp\",reason=\"malformed\"}"},
      {FrontendStat::kWrongKey, "weir_auth_failures_total{frontend=\"resp\",reason=\"wrong\"}"}};
  uint64_t amount = 5;
  for (const auto& [stat, sample] : counters) {
    fixture.service.resp.stats.add(stat, ++amount);
    EXPECT_THAT(page(fixture), HasSubstr("\n" + sample + " " + std::to_string(amount) + "\n"));
  }
}

TEST(MetricsPage, ReportsOpenConnectionsAndNeverANegativeNumber) {
  Fixture fixture;
  fixture.service.http.stats.add(FrontendStat::kOpened, 5);
  fixture.service.http.stats.add(FrontendStat::kClosed, 2);
  fixture.service.resp.stats.add(FrontendStat::kClosed, 1);
  EXPECT_THAT(
      page(fixture),
      HasSubstr(
          "\nweir_connections{frontend=\"http\"} 3\nweir_connections{frontend=\"resp\"} 0\n"));
}

TEST(MetricsPage, HasCumulativeLatencyBuckets) {
  Fixture fixture;
  fixture.service.http.add_latency(Nanos(1000), 2);         // the first bucket's upper end
  fixture.service.http.add_latency(Nanos(1001), 1);         // above it
  fixture.service.http.add_latency(Nanos(200'000'000), 1);  // above all buckets
  const std::string text = page(fixture);
  const std::pair<const char*, int> buckets[] = {
      {"1e-06", 2}, {"2e-06", 3}, {"0.001", 3}, {"0.1", 3}, {"+Inf", 4}};
  for (const auto& [end, count] : buckets) {
    EXPECT_THAT(text, HasSubstr("\nweir_request_seconds_bucket{frontend=\"http\",le=\"" +
                                std::string(end) + "\"} " + std::to_string(count) + "\n"));
  }
  EXPECT_THAT(text, HasSubstr("\nweir_request_seconds_sum{frontend=\"http\"} 0.200003001\n"));
  EXPECT_THAT(text, HasSubstr("\nweir_request_seconds_count{frontend=\"http\"} 4\n"));
}

TEST(MetricsPage, ReportsTuplesAndTableBytes) {
  Fixture fixture;
  ASSERT_TRUE(
      fixture.limiter.check({.ns = "a", .identifier = "b", .limit = 1, .duration = Millis(1000)})
          .ok());
  const std::string text = page(fixture);
  EXPECT_THAT(text, HasSubstr("\nweir_cells 1\n"));
  EXPECT_THAT(text, HasSubstr("\nweir_table_bytes " +
                              std::to_string(fixture.limiter.stats().memory_bytes) + "\n"));
}

TEST(MetricsPage, ReportsMemoryByUseAndItsLimit) {
  Fixture fixture;
  const std::string name(100, 'x');
  // Few logs of this size fit into the 1 MiB of this limiter.
  for (int i = 0; i < 10; ++i) {
    const std::string own = name + std::to_string(i);
    ASSERT_TRUE(fixture.limiter
                    .check({.ns = "a",
                            .identifier = own,
                            .limit = 10'000,
                            .duration = Millis(1000),
                            .algorithm = Algorithm::kSlidingLog})
                    .ok());
  }
  const std::string text = page(fixture);
  const LimiterStats stats = fixture.limiter.stats();
  const std::pair<const char*, uint64_t> parts[] = {{"table", stats.memory.table},
                                                    {"rings_and_logs", stats.memory.annexes},
                                                    {"keys", stats.memory.keys},
                                                    {"sketch", stats.memory.sketch}};
  for (const auto& [part, bytes] : parts) {
    EXPECT_GT(bytes, 0u) << part;
    EXPECT_THAT(text, HasSubstr("\nweir_memory_bytes{part=\"" + std::string(part) + "\"} " +
                                std::to_string(bytes) + "\n"));
  }
  EXPECT_THAT(text, HasSubstr("\nweir_memory_bytes{part=\"regions\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("\nweir_memory_limit_bytes 1048576\n"));
  EXPECT_GT(stats.no_memory, 0u);
  EXPECT_THAT(text, HasSubstr("\nweir_no_memory_total " + std::to_string(stats.no_memory) + "\n"));
}

}  // namespace
}  // namespace weir::frontends
