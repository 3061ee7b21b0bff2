// The errors of the scenario reader, and their locations.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "sim/random.h"
#include "sim/scenario/scenario_file.h"
#include "sim/scenario/scenario_texts_test.h"

namespace weir::sim {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// The error without the name of the file.
std::string problem(std::string_view text, const std::vector<ScenarioChange>& changes = {}) {
  const auto result = read_scenario(text, "x.yaml", changes);
  if (result.ok()) return "nothing";
  const std::string& detail = result.error().detail;
  return detail.starts_with("x.yaml:") ? detail.substr(7) : detail;
}

// The small scenario with one value changed.
std::string problem_with(const std::string& path, const std::string& value) {
  const std::string acked = problem(kSmall, {{.path = path, .value = value}});
  const std::string location = path + "=" + value + ": ";
  return acked.starts_with(location) ? acked.substr(location.size()) : acked;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(ScenarioErrors, NameLineColumnKeyAndValue) {
  EXPECT_EQ(problem(replaced(kSmall, "poisson", "posson")),
            "6:25: traffic[0].shape: 'posson' is none of steady, poisson, on_off, edge_burst, "
            "lock_step, diurnal, hopping, hide_then_run, hold_back_then_run, fresh; did you mean "
            "poisson?");
  EXPECT_EQ(problem(replaced(kSmall, "60s", "60")),
            "4:39: limits[0].duration: '60' is not a duration such as 250ms, 10s, 3m or 1h");
  EXPECT_EQ(problem(replaced(kSmall, "limit: 100", "limit: [1, 2]")),
            "4:24: limits[0].limit: must be a whole number, not a list");
  EXPECT_EQ(problem(replaced(kSmall, "limit: 100", "limit:")),
            "4:17: limits[0].limit: must be a whole number, not nothing");
  const auto result = read_scenario(replaced(kSmall, "demand: 1", "demand: nan"), "x.yaml");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().field, "traffic[0].demand");
  EXPECT_EQ(result.error().detail,
            "x.yaml:6:42: traffic[0].demand: 'nan' is no number from 0.001 to 10000");
}

TEST(ScenarioErrors, NameUnknownKeys) {
  EXPECT_EQ(problem(replaced(kSmall, "duration", "durration")),
            "4:29: limits[0]: key 'durration' is none of name, limit, duration, algorithm, burst; "
            "did you mean duration?");
  EXPECT_THAT(problem(std::string(kSmall) + "extra: 1\n"),
              StartsWith("7:1: key 'extra' is none of about, seed, time"));
  EXPECT_EQ(problem(std::string(kSmall) + "world: {regions: 3}\n"),
            "7:1: key 'world' is given twice");
}

TEST(ScenarioErrors, NameMissingKeys) {
  EXPECT_EQ(problem(replaced(kSmall, "world: {regions: 2}\n", "")), "1:1: world is missing");
  EXPECT_EQ(problem(replaced(kSmall, "name: api, ", "")), "4:5: limits[0]: name is missing");
  EXPECT_EQ(problem(replaced(kSmall, ", demand: 1", "")),
            "6:5: traffic[0]: has no amount; give 'demand', in limits per window, or "
            "'requests' per window");
  EXPECT_THAT(problem_with("traffic.0.requests", "3"), HasSubstr("has both"));
  EXPECT_EQ(problem_with("limits", "[]"), "limits: is empty: at least one limit is needed");
  EXPECT_EQ(problem_with("traffic", "[]"), "traffic: is empty: at least one stream is needed");
  EXPECT_EQ(problem_with("world.regions", "[]"), "world.regions: is empty: there must be a region");
}

TEST(ScenarioErrors, NameValuesOutOfRange) {
  const std::vector<std::array<std::string, 3>> wrong = {
      {"limits.0.limit", "0", "'0' is no whole number from 1 to 1000000000000"},
      {"limits.0.limit", "1000000000001", "is no whole number"},
      {"limits.0.limit", "99999999999999999999999", "is no whole number"},
      {"limits.0.limit", "-1", "is no whole number"},
      {"limits.0.limit", "{from: 5, to: 4}", "limits[0].limit.to: '4' is less than 'from'"},
      {"limits.0.duration", "99ms", "'99ms' is out of range: 100ms to 720h"},
      {"limits.0.duration", "721h", "out of range"},
      {"limits.0.duration", "1.0005s", "is not a duration"},
      {"limits.0.duration", "-1s", "out of range"},
      {"limits.0.burst", "5", "limits[0].burst: leave it out: only gcra and token_bucket have one"},
      {"limits.0.algorithm", "leaky", "'leaky' is none of sliding_window, "},
      {"settings.read_deadline", "0", "'0' is out of range: 1ms to 10s"},
      {"settings.max_freshness", "61s", "out of range: 10ms to 1m"},
      {"settings.replay_within", "11s", "out of range: 0s to 10s"},
      {"settings.capacity", "63", "from 64 to 268435456"},
      {"settings.rows_per_second", "0", "is no whole number from 1"},
      {"settings.unpublished", "101%", "'101%' is out of range: 0% to 100%"},
      {"settings.unpublished", "0.25", "'0.25' is not a percentage such as 25%"},
      {"settings.unpublished", "0.05%", "is finer than a tenth of a percent"},
      {"settings.lease", "25h", "out of range: 7s to 24h"},
      {"settings.lease", "6999ms", "'6999ms' is out of range: 7s to 24h"},
      {"settings.ledger", "no", "'no' is none of off, on"},
      {"traffic.0.keys", "0", "'0' is no whole number from 1"},
      {"traffic.0.demand", "0", "'0' is no number from 0.001"},
      {"traffic.0.demand", "inf", "is no number"},
      {"traffic.0.demand", "1e3", "is no number"},
      {"traffic.0.cost", "1000000000001", "is no whole number from 0"},
      {"world.regions", "0", "'0' is no whole number from 1 to 1000"},
      {"world.nodes", "1", "'1' is no whole number from 2 to 10000"},
      {"time.measured", "999ms", "out of range: 1s to 24h"},
      {"seed", "-1", "is no whole number"},
  };
  for (const auto& [path, value, text] : wrong) {
    EXPECT_THAT(problem_with(path, value), HasSubstr(text)) << path << "=" << value;
  }
}

TEST(ScenarioErrors, NameTheLimitsOfAnAlgorithm) {
  const auto limit = [](const std::string& text) {
    return problem_with("limits.0", "{name: api, duration: 60s, " + text + "}");
  };
  EXPECT_EQ(limit("limit: 10000, algorithm: sliding_log"), "nothing");
  EXPECT_THAT(limit("limit: 10001, algorithm: sliding_log"), HasSubstr("from 1 to 10000"));
  EXPECT_EQ(limit("limit: 536870912, algorithm: gcra, burst: 1"), "nothing");
  EXPECT_THAT(limit("limit: 536870913, algorithm: token_bucket"), HasSubstr("to 536870912"));
  EXPECT_THAT(limit("limit: 5, algorithm: gcra, burst: 0"), HasSubstr("no whole number from 1"));
}

TEST(ScenarioErrors, NameTheKeysOfAShape) {
  const auto traffic = [](const std::string& text) {
    return problem_with("traffic.0", "{limit: api, " + text + "}");
  };
  EXPECT_EQ(traffic("shape: lock_step"), "nothing");
  EXPECT_THAT(traffic("shape: lock_step, demand: 1"), HasSubstr("traffic[0].demand: leave it out"));
  EXPECT_THAT(traffic("shape: hide_then_run, requests: 1"), HasSubstr("leave it out"));
  EXPECT_THAT(traffic("shape: fresh, demand: 1"), HasSubstr("leave it out"));
  EXPECT_THAT(traffic("shape: fresh"), HasSubstr("requests is missing"));
  EXPECT_THAT(traffic("shape: fresh, requests: 5, keys: 4"), HasSubstr("leave it out"));
  EXPECT_THAT(traffic("shape: poisson, demand: 1, on: 1s"), HasSubstr("only on_off has it"));
  EXPECT_THAT(traffic("shape: steady, demand: 1, every: 1s"), HasSubstr("only lock_step, diurnal"));
  EXPECT_THAT(traffic("shape: steady, demand: 1, clients: 2"), HasSubstr("only lock_step has"));
  EXPECT_THAT(traffic("shape: hopping, demand: 1, regions: [r0]"),
              HasSubstr("traffic[0].shape: 'hopping' needs two regions or more"));
}

TEST(ScenarioErrors, NameUnknownAndDuplicateNames) {
  EXPECT_THAT(problem_with("traffic.0.limit", "apu"),
              EndsWith("'apu' is none of api; did you mean api?"));
  EXPECT_THAT(problem_with("traffic.0.regions", "[r2]"), HasSubstr("'r2' is none of r0, r1"));
  EXPECT_THAT(problem_with("traffic.0.regions", "[r1, r1]"),
              HasSubstr("traffic[0].regions[1]: 'r1' is named twice"));
  EXPECT_THAT(problem_with("traffic.0.regions", "[]"), HasSubstr("leave it out for all regions"));
  EXPECT_THAT(problem_with("traffic.0.spread", "3"), HasSubstr("from 1 to 2"));
  EXPECT_THAT(problem_with("limits.1", "{name: api, limit: 1, duration: 1s}"),
              HasSubstr("limits[1].name: 'api' is the name of another limit"));
  EXPECT_THAT(problem_with("world.regions", "[{name: a}, {name: a}]"),
              HasSubstr("world.regions[1].name: 'a' is the name of another region"));
  EXPECT_THAT(problem_with("world.regions", "[{name: a/b}]"), HasSubstr("is no name of 1 to 64"));
}

TEST(ScenarioErrors, NameTimesAfterTheEndOfTheRun) {
  EXPECT_EQ(
      problem_with("traffic.0.begins", "1m"),
      "traffic[0].begins: '1m' is beyond the end of what is measured, 1m after the beginning");
  EXPECT_EQ(problem_with("traffic.0.ends", "1m"), "nothing");
  EXPECT_THAT(problem_with("traffic.0.ends", "60001ms"), HasSubstr("is beyond the end"));
  EXPECT_THAT(problem_with("traffic.0.ends", "0s"), HasSubstr("is not after it begins"));
  EXPECT_THAT(problem_with("faults.0", "{what: origin_refuses, at: 60s, lasts: 1s}"),
              HasSubstr("faults[0].at: '60s' is beyond the end"));
  EXPECT_EQ(problem_with("faults.0", "{what: origin_refuses, at: 59s, lasts: 1s}"), "nothing");
  EXPECT_THAT(problem_with("faults.0", "{what: origin_refuses, at: 59s, lasts: 1001ms}"),
              HasSubstr("faults[0].lasts: '1001ms' is beyond the end"));
}

TEST(ScenarioErrors, NameTheKeysOfAFault) {
  const auto fault = [](const std::string& text) {
    return problem_with("faults.0", "{at: 1s, " + text + "}");
  };
  EXPECT_THAT(fault("what: origin_refuse, lasts: 1s"), HasSubstr("did you mean origin_refuses?"));
  EXPECT_THAT(fault("what: origin_refuses"), HasSubstr("faults[0]: lasts is missing"));
  EXPECT_THAT(fault("what: origin_emptied, lasts: 1s"),
              HasSubstr("faults[0].lasts: leave it out: origin_emptied happens at once"));
  EXPECT_THAT(fault("what: origin_refuses, lasts: 1s, amount: 5%"),
              HasSubstr("leave it out: origin_refuses has none"));
  EXPECT_THAT(fault("what: origin_slow, lasts: 1s"), HasSubstr("amount is missing"));
  EXPECT_THAT(fault("what: origin_slow, lasts: 1s, amount: 5%"), HasSubstr("is not a duration"));
  EXPECT_THAT(fault("what: origin_slow, lasts: 1s, amount: -5ms"), HasSubstr("out of range"));
  EXPECT_THAT(fault("what: network_loses, lasts: 1s, amount: 101%"), HasSubstr("out of range"));
  EXPECT_THAT(fault("what: network_loses, lasts: 1s, amount: 5ms"), HasSubstr("a percentage"));
  EXPECT_THAT(fault("what: origin_refuses, lasts: 1s, where: r7"),
              HasSubstr("faults[0].where: 'r7' is none of r0, r1"));
  EXPECT_THAT(fault("what: origin_refuses, lasts: 1s, where: r0/0"),
              HasSubstr("'r0/0' is a node; name a region"));
  EXPECT_EQ(fault("what: node_killed, lasts: 1s, where: r0/0"), "nothing");
  EXPECT_THAT(fault("what: node_killed, lasts: 1s, where: r0/1"),
              HasSubstr("'r0/1' names no node: r0 has 1, counted from 0"));
  EXPECT_THAT(fault("what: node_killed, lasts: 1s, where: r7/0"), HasSubstr("names no region"));
  EXPECT_THAT(fault("what: ledger_fails_over, amount: 1s, where: r0"), HasSubstr("one ledger"));
  EXPECT_THAT(problem_with("random_faults.0", "{what: origin_refuses, every: 1s}"),
              HasSubstr("random_faults[0]: lasts is missing"));
  EXPECT_THAT(problem_with("world.clocks", "[{shape: drifting, by: 5ms}]"),
              HasSubstr("world.clocks[0].by: leave it out"));
  EXPECT_THAT(problem_with("world.clocks", "[{shape: stepping, by: 0ms}]"),
              HasSubstr("out of range: 1ms"));
}

TEST(ScenarioErrors, NameInvalidExpectations) {
  EXPECT_THAT(problem_with("expect", "[worst_cel <= 1]"),
              HasSubstr("expect[0]: 'worst_cel <= 1' names a figure that is none of "
                        "offered_per_second, denied"));
  EXPECT_THAT(problem_with("expect", "[worst_cel <= 1]"), EndsWith("did you mean worst_cell?"));
  for (const char* bad : {"[denied]", "[denied < 1]", "[denied <=]", "[denied <= x]", "['']",
                          "[denied <= 1ms]", "[denied <= -1]", "[[denied]]", "[denied <= 1 2]"}) {
    EXPECT_THAT(problem_with("expect", bad), HasSubstr("expect[0]: ")) << bad;
  }
  EXPECT_EQ(problem_with("expect", "[denied <= 1, denied >= 1%, rows <= 5/s]"), "nothing");
}

TEST(ScenarioErrors, NameTrafficWithTooManyRequests) {
  EXPECT_THAT(problem_with("limits.0.limit", "1000000000000"),
              HasSubstr("traffic[0]: makes 1e+12 requests in all, more than 1e+09"));
}

TEST(ScenarioErrors, NameTheInvalidChange) {
  const auto change = [](const std::string& path, const std::string& value) {
    return problem(kSmall, {{.path = path, .value = value}});
  };
  EXPECT_EQ(change("settings.polcy", "floor"),
            "settings.polcy=floor: settings: key 'polcy' is none of policy, unpublished, slack, "
            "floor, lease, publish_every, import_every, rows_per_second, ledger, on_origin_loss, "
            "read_deadline, max_freshness, replay_within, capacity; did you mean policy?");
  EXPECT_THAT(change("setings.policy", "floor"), HasSubstr("did you mean settings?"));
  EXPECT_EQ(change("limits.2.limit", "5"),
            "limits.2.limit=5: 'limits.2.limit' leads to no item of limits, which has 1, counted "
            "from 0");
  EXPECT_THAT(change("limits.x.limit", "5"), HasSubstr("leads to no item of limits"));
  EXPECT_EQ(change("seed.x", "5"), "seed.x=5: seed: must be a whole number, not a map");
  EXPECT_EQ(change("about.x", "5"),
            "about.x=5: 'about.x' leads beyond about, which is 'One key at its limit.'");
  EXPECT_THAT(change("", "5"), HasSubstr("is no path"));
  EXPECT_THAT(change("a..b", "5"), HasSubstr("is no path"));
  EXPECT_THAT(change("seed", "[1"), StartsWith("seed=[1: not valid YAML: "));
  EXPECT_EQ(change("seed", ""), "seed=: seed: must be a whole number, not nothing");
}

TEST(ScenarioErrors, RejectTextThatIsNotAScenario) {
  EXPECT_THAT(problem(""), HasSubstr("is no scenario: one has about, world, limits and traffic"));
  EXPECT_THAT(problem("# nothing"), HasSubstr("is no scenario"));
  EXPECT_THAT(problem("[1, 2]"), HasSubstr("is no scenario"));
  EXPECT_THAT(problem("a: [1"), HasSubstr("not valid YAML: "));
  EXPECT_THAT(problem("a: &x 1\nb: *x\n"), StartsWith("2:4: not valid YAML: aliases are not read"));
  EXPECT_THAT(problem("a: &x [*x]\n"), HasSubstr("aliases are not read"));
  EXPECT_THAT(problem("a: \"\\\x01\"\n"), EndsWith("unknown escape character: ?"));
  EXPECT_THAT(problem("{[a]: 1}"), HasSubstr("a key must be a word"));
  EXPECT_THAT(problem("a: 1\n---\nb: 1\n"), HasSubstr("more than one document"));
  EXPECT_THAT(problem(std::string(5000, '[')), HasSubstr("nested too deeply"));
  EXPECT_THAT(problem(std::string(size_t{2} << 20, ' ')), HasSubstr("is larger than"));
  EXPECT_THAT(problem(std::string("\0\xff\xfe\x01", 4)), testing::Ne("nothing"));
  std::string many = "a: [";
  for (int i = 0; i < 100'000; ++i) many += "1,";
  EXPECT_THAT(problem(many + "]"), HasSubstr("there is too much of it"));
}

TEST(ScenarioErrors, AreOneLineForAnyText) {
  const std::string full = kFull;
  const std::string_view bits = " :,-[]{}#&*!|>'\"%@\n\t0a9.\\\x01\xff";
  Random random(1);
  const auto at = [&](const std::string& text) { return random.next() % text.size(); };
  int read_well = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = full;
    if (random.one_in(4)) text.resize(at(text) + 1);
    for (int64_t changes = random.between(1, 4); changes > 0; --changes) {
      const size_t location = at(text);
      if (random.one_in(3)) {
        text.erase(location, random.next() % 8);
      } else if (random.one_in(2)) {
        text[location] = bits[random.next() % bits.size()];
      } else {
        text.insert(location, full.substr(at(full), random.next() % 12));
      }
      if (text.empty()) text = "x";
    }
    const auto result = read_scenario(text, "x.yaml");
    if (result.ok()) {
      ++read_well;
      EXPECT_FALSE(result->regions.empty() || result->traffic.empty()) << text;
    } else {
      EXPECT_THAT(result.error().detail, StartsWith("x.yaml:"));
      EXPECT_EQ(result.error().detail.find('\n'), std::string::npos) << result.error().detail;
    }
  }
  EXPECT_GT(read_well, 20);
  EXPECT_LT(read_well, 2900);
}

}  // namespace
}  // namespace weir::sim
