#include "frontends/http/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "frontends/front_test.h"

namespace weir::frontends {
namespace {

using telemetry::FrontendStat;
using testing::HasSubstr;

std::string page(const Front& front) {
  Bytes out;
  write_metrics(front.service, out);
  return std::string(out.unread());
}

TEST(MetricsPage, IsWhatPrometheusReads) {
  const Front front;
  std::istringstream lines(page(front));
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
      // A counter is named like one.
      EXPECT_EQ(found[2] == "counter", family.ends_with("_total")) << line;
    } else {
      ASSERT_TRUE(std::regex_match(line, found, sample)) << line;
      EXPECT_TRUE(found.str(1).starts_with(family)) << line;
      EXPECT_TRUE(series.insert(line.substr(0, line.find(' '))).second) << line << " again";
    }
  }
  EXPECT_EQ(helped.size(), 20u);
}

TEST(MetricsPage, CountsDecisionsByDoorOutcomeAndBasis) {
  Front front;
  front.service.http.decisions.add(telemetry::decided(Outcome::kAdmitted, Basis::kLocal), 3);
  front.service.resp.decisions.add(telemetry::decided(Outcome::kNever, Basis::kDegraded), 4);
  const std::string text = page(front);
  EXPECT_THAT(
      text,
      HasSubstr("\nweir_decisions_total{door=\"http\",outcome=\"admitted\",basis=\"local\"} 3\n"));
  EXPECT_THAT(
      text,
      HasSubstr("\nweir_decisions_total{door=\"resp\",outcome=\"never\",basis=\"degraded\"} 4\n"));
  EXPECT_THAT(
      text,
      HasSubstr("\nweir_decisions_total{door=\"resp\",outcome=\"denied\",basis=\"local\"} 0\n"));
}

TEST(MetricsPage, CountsWhatHappensAtEachDoor) {
  Front front;
  const std::pair<FrontendStat, std::string> counters[] = {
      {FrontendStat::kRequests, "weir_requests_total"},
      {FrontendStat::kBad, "weir_bad_requests_total"},
      {FrontendStat::kOpened, "weir_connections_total"},
      {FrontendStat::kEvicted, "weir_connections_evicted_total"},
      {FrontendStat::kCrossProtocol, "weir_cross_protocol_total"},
      {FrontendStat::kTimedOut, "weir_connections_timed_out_total"}};
  uint64_t amount = 5;
  for (const auto& [stat, name] : counters) {
    front.service.http.stats.add(stat, amount);
    front.service.resp.stats.add(stat, 2 * amount);
    EXPECT_THAT(page(front),
                HasSubstr("\n" + name + "{door=\"http\"} " + std::to_string(amount) + "\n" + name +
                          "{door=\"resp\"} " + std::to_string(2 * amount) + "\n"));
    ++amount;
  }
}

TEST(MetricsPage, TellsWhyClientsWereRefused) {
  Front front;
  const std::pair<FrontendStat, std::string> counters[] = {
      {FrontendStat::kRefused,
       "weir_connections_refused_total{door=\"resp\",reason=\"connections\"}"},
      {FrontendStat::kRefusedAddress,
       "weir_connections_refused_total{door=\"resp\",reason=\"address\"}"},
      {FrontendStat::kRefusedMemory,
       "weir_connections_refused_total{door=\"resp\",reason=\"memory\"}"},
      {FrontendStat::kMissingKey, "weir_auth_failures_total{door=\"resp\",reason=\"missing\"}"},
      {FrontendStat::kMalformedKey, "weir_auth_failures_total{door=\"resp\",reason=\"malformed\"}"},
      {FrontendStat::kWrongKey, "weir_auth_failures_total{door=\"resp\",reason=\"wrong\"}"}};
  uint64_t amount = 5;
  for (const auto& [stat, sample] : counters) {
    front.service.resp.stats.add(stat, ++amount);
    EXPECT_THAT(page(front), HasSubstr("\n" + sample + " " + std::to_string(amount) + "\n"));
  }
}

TEST(MetricsPage, KnowsHowManyConnectionsAreOpenAndNeverFewerThanNone) {
  Front front;
  front.service.http.stats.add(FrontendStat::kOpened, 5);
  front.service.http.stats.add(FrontendStat::kClosed, 2);
  front.service.resp.stats.add(FrontendStat::kClosed, 1);
  EXPECT_THAT(
      page(front),
      HasSubstr("\nweir_connections{door=\"http\"} 3\nweir_connections{door=\"resp\"} 0\n"));
}

TEST(MetricsPage, AddsUpLatenciesInBucketsThatIncludeTheSmaller) {
  Front front;
  front.service.http.add_latency(Nanos(1000), 2);         // the first bucket's upper end
  front.service.http.add_latency(Nanos(1001), 1);         // one beyond it
  front.service.http.add_latency(Nanos(200'000'000), 1);  // beyond all
  const std::string text = page(front);
  const std::pair<const char*, int> buckets[] = {
      {"1e-06", 2}, {"2e-06", 3}, {"0.001", 3}, {"0.1", 3}, {"+Inf", 4}};
  for (const auto& [end, count] : buckets) {
    EXPECT_THAT(text, HasSubstr("\nweir_request_seconds_bucket{door=\"http\",le=\"" +
                                std::string(end) + "\"} " + std::to_string(count) + "\n"));
  }
  EXPECT_THAT(text, HasSubstr("\nweir_request_seconds_sum{door=\"http\"} 0.200003001\n"));
  EXPECT_THAT(text, HasSubstr("\nweir_request_seconds_count{door=\"http\"} 4\n"));
}

TEST(MetricsPage, TellsWhatTheLimiterHolds) {
  Front front;
  ASSERT_TRUE(
      front.limiter.check({.ns = "a", .identifier = "b", .limit = 1, .duration = Millis(1000)})
          .ok());
  const std::string text = page(front);
  EXPECT_THAT(text, HasSubstr("\nweir_cells 1\n"));
  EXPECT_THAT(text, HasSubstr("\nweir_table_bytes " +
                              std::to_string(front.limiter.stats().memory_bytes) + "\n"));
}

TEST(MetricsPage, TellsWhatMemoryIsTakenForWhatAndHowMuchMayBe) {
  Front front;
  const std::string name(100, 'x');
  // Few logs of this size fit into the 1 MiB of this limiter.
  for (int i = 0; i < 10; ++i) {
    const std::string own = name + std::to_string(i);
    ASSERT_TRUE(front.limiter
                    .check({.ns = "a",
                            .identifier = own,
                            .limit = 10'000,
                            .duration = Millis(1000),
                            .algorithm = Algorithm::kSlidingLog})
                    .ok());
  }
  const std::string text = page(front);
  const LimiterStats stats = front.limiter.stats();
  const std::pair<const char*, uint64_t> parts[] = {{"table", stats.memory.table},
                                                    {"annexes", stats.memory.annexes},
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
