#include "server/check_section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace weir::server {
namespace {

using frontends::AddressHeader;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// "line:column: text" of each problem.
std::vector<std::string> problems_in_check(const std::string& yaml) {
  Config config;
  std::vector<std::string> problems;
  for (const ConfigProblem& problem : read_config_text(yaml, config)) {
    problems.push_back(std::to_string(problem.line) + ":" + std::to_string(problem.column) + ": " +
                       problem.text);
  }
  return problems;
}

constexpr const char* kSection = R"(region: eu
check:
  denied-status: 403
  trusted-proxies: [127.0.0.1, 10.0.0.0/8, "::1", unix]
  address-header: forwarded
  ipv6-prefix: 56
  rules:
    - name: login
      match: {method: [POST, PUT], path: /login, host: API.example.com, headers: {X-Plan: free}}
      namespace: sign-in
      identifier: "{address}"
      limit: 5
      duration: 60s
      cost: 2
      algorithm: gcra
      burst: 3
      consistency: exact
      on-origin-loss: deny
    - {name: api, match: {path: /api/*, method: get}, identifier: "{header:x-api-key} {path}",
       limit: 1000, duration: 1d}
)";

TEST(CheckSection, IsReadCompletely) {
  Config config;
  ASSERT_THAT(read_config_text(kSection, config), IsEmpty());
  EXPECT_EQ(config.region, "eu");
  EXPECT_EQ(config.check.denied_status, 403);
  EXPECT_EQ(config.check.address.trusted_proxies.size(), 3u);
  EXPECT_TRUE(config.check.address.trust_unix);
  EXPECT_EQ(config.check.address.header, AddressHeader::kForwarded);
  EXPECT_EQ(config.check.address.ipv6_prefix, 56);
  ASSERT_EQ(config.check.rules.size(), 2u);
  const frontends::CheckRule& login = config.check.rules[0];
  EXPECT_EQ(login.name, "login");
  EXPECT_THAT(login.match.methods, ElementsAre("POST", "PUT"));
  EXPECT_EQ(login.match.path, "/login");
  EXPECT_FALSE(login.match.path_is_prefix);
  EXPECT_EQ(login.match.host, "api.example.com");
  EXPECT_THAT(login.match.headers, ElementsAre(std::pair("x-plan", "free")));
  EXPECT_EQ(login.ns, "sign-in");
  EXPECT_EQ(login.limit, 5u);
  EXPECT_EQ(login.duration, Millis(60'000));
  EXPECT_EQ(login.cost, 2u);
  EXPECT_EQ(login.algorithm, Algorithm::kGcra);
  EXPECT_EQ(login.burst, 3u);
  EXPECT_EQ(login.consistency, Consistency::kExact);
  EXPECT_EQ(login.on_origin_loss, OnOriginLoss::kDeny);
  const frontends::CheckRule& api = config.check.rules[1];
  EXPECT_EQ(api.ns, "api");
  EXPECT_EQ(api.match.path, "/api/");
  EXPECT_TRUE(api.match.path_is_prefix);
  EXPECT_EQ(api.identifier.parts.size(), 3u);
  EXPECT_EQ(api.duration, Millis(86'400'000));
  EXPECT_EQ(api.cost, 1u);
}

TEST(CheckSection, HasDefaults) {
  Config config;
  ASSERT_THAT(read_config_text("check: {rules: []}", config), IsEmpty());
  EXPECT_EQ(config.check, frontends::CheckRules{});
  EXPECT_EQ(config.check.denied_status, 429);
  EXPECT_EQ(config.check.address.ipv6_prefix, 64);
}

TEST(CheckSection, IsALiveSetting) {
  Config before;
  Config after;
  ASSERT_THAT(read_config_text(kSection, before), IsEmpty());
  ASSERT_THAT(read_config_text(kSection, after), IsEmpty());
  EXPECT_THAT(changed_settings(before, after, true), IsEmpty());
  after.check.rules[1].limit = 1001;
  EXPECT_THAT(changed_settings(before, after, true), ElementsAre("check"));
  EXPECT_THAT(changed_settings(before, after, false), IsEmpty());
}

TEST(CheckSection, ReportsEachProblemWithItsPosition) {
  for (const auto& [yaml, expected] : std::vector<std::pair<std::string, std::string>>{
           {"check:\n", "1:1: check is empty: add rules"},
           {"check: 3\n", "1:8: check must be pairs of 'name: value'"},
           {"check: {rule: []}\n",
            "1:9: 'rule' is not a part of check; its parts are "
            "denied-status, trusted-proxies, address-header, ipv6-prefix, "
            "rules"},
           {"check: {rules: }\n", "1:9: rules must be a list: begin each rule with '- name: ...'"},
           {"check: {denied-status: 200}\n", "1:24: denied-status is '200': it must be 403 or 429"},
           {"check: {denied-status: [429]}\n", "1:24: denied-status must be a single value"},
           {"check: {trusted-proxies: [10.0.0.0/8, 10.0.0.1/8]}\n",
            "1:39: trusted-proxies is '10.0.0.1/8': it must be an address or a network without "
            "host bits, like 127.0.0.1, 10.0.0.0/8 or 2001:db8::/32, or unix"},
           {"check: {trusted-proxies: [[a]]}\n",
            "1:27: trusted-proxies must be a list of single values"},
           {"check: {address-header: x-real-ip}\n",
            "1:25: address-header is 'x-real-ip': it must be x-forwarded-for or forwarded"},
           {"check: {ipv6-prefix: 129}\n",
            "1:22: ipv6-prefix is '129': it must be a whole number from 32 to 128"},
           {"check: {rules: []}\ncheck: {rules: []}\n", "2:1: check is given twice"},
       }) {
    EXPECT_THAT(problems_in_check(yaml), ElementsAre(expected)) << yaml;
  }
}

TEST(CheckSection, ReportsEachProblemOfARule) {
  const std::string good = "name: a, identifier: x, limit: 9, duration: 1s";
  ASSERT_THAT(problems_in_check("check: {rules: [{" + good + "}]}"), IsEmpty());
  for (const auto& [rule, expected] : std::vector<std::pair<std::string, std::string>>{
           {"3", "1:17: a rule must be pairs of 'name: value'"},
           {"{identifier: x, limit: 9, duration: 1s}", "1:17: a rule has no name: add it"},
           {"{name: a, limit: 9, duration: 1s}", "1:17: a rule has no identifier: add it"},
           {"{" + good + ", limits: 3}", "1:66: 'limits' is not a part of a rule; its parts are"},
           {"{" + good + ", limit: 3}", "1:66: limit is given twice"},
           {"{" + good + ", burst: 3}",
            "1:73: burst is 3, but sliding_window has none: leave burst"},
           {"{" + good + ", cost: 10}",
            "1:72: cost is 10, but limit admits at most 9 at once: choose a smaller cost"},
           {"{" + good + ", algorithm: leaky}", "1:77: algorithm is 'leaky': it must be sliding_"},
           {"{" + good + ", consistency: all}", "1:79: consistency is 'all': it must be converge,"},
           {"{" + good + ", on-origin-loss: x}", "1:82: on-origin-loss is 'x': it must be local,"},
           {"{" + good + ", namespace: ''}", "1:77: namespace is '': it must have 1 to 512 bytes"},
           {"{" + good + ", match: }", "1:66: match must be pairs of 'name: value'"},
           {"{" + good + ", match: {paths: /}}", "1:74: 'paths' is not a part of match; its parts"},
           {"{" + good + ", match: {path: //a*}}",
            "1:80: path is '//a*': it must be a path in normal form, like '/a*'"},
           {"{" + good + ", match: {path: a}}", "like '/a'"},
           {"{" + good + ", match: {host: 'a:80'}}",
            "1:80: host is 'a:80': it must be a host name"},
           {"{" + good + ", match: {method: 'A B'}}", "1:82: method is 'A B': it must be a method"},
           {"{" + good + ", match: {headers: {a b: c}}}",
            "1:84: 'a b' is not the name of a header"},
           {"{" + good + ", match: {headers: {a: [c]}}}",
            "1:87: a must be a single value; \"\" if"},
           {"{name: a, identifier: '{x}', limit: 9, duration: 1s}",
            "1:39: identifier is '{x}': it has '{x}' in it: the values are {address}"},
           {"{name: a, identifier: x, limit: 0, duration: 1s}", "1:49: limit is '0': it must be"},
           {"{name: a, identifier: x, limit: 1, duration: 1}", "1:62: duration is '1': it must be"},
           {"{name: a, identifier: x, limit: 1, duration: 31d}", "a time from 100ms to 30d"},
           {"{name: a, identifier: x, limit: 1, duration: 99ms}", "a time from 100ms to 30d"},
           {"{name: a, identifier: x, limit: 10001, duration: 1s, algorithm: sliding_log}",
            "1:49: limit is 10001: choose a limit from 1 to 10000"},
           {"{" + good + "}, {" + good + "}", "name is 'a', as of another rule: choose another"},
       }) {
    EXPECT_THAT(problems_in_check("check: {rules: [" + rule + "]}"),
                ElementsAre(HasSubstr(expected)))
        << rule;
  }
}

// The setting for namespaces applies to rules, too.
TEST(CheckSection, ConflictsWithAConsistencyThatARuleCannotHave) {
  const std::string rule =
      "check: {rules: [{name: slow, identifier: x, limit: 1, duration: 30d, algorithm: gcra, "
      "burst: 1000000";
  Config config;
  ASSERT_THAT(read_config_text("consistency: converge,slow=exact\n" + rule + "}]}", config),
              IsEmpty());
  EXPECT_THAT(find_conflict(config),
              HasSubstr("consistency is exact for the namespace 'slow', but in the rule 'slow' a "
                        "burst of 1000000 does not drain within"));
  Config own;
  ASSERT_THAT(read_config_text(
                  "consistency: converge,slow=exact\n" + rule + ", consistency: converge}]}", own),
              IsEmpty());
  EXPECT_EQ(find_conflict(own), "");
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(std::string(WEIR_SOURCE_DIR) + "/" + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(CheckSection, IsValidInTheDocumentation) {
  EXPECT_THAT(problems_in_check(text_of_file("examples/gateways/weir.yaml")), IsEmpty());
  for (const std::string page : {"docs/gateways.md", "docs/configuration.md"}) {
    const std::string text = text_of_file(page);
    const size_t begin = text.find("```yaml\ncheck:\n");
    ASSERT_NE(begin, std::string::npos) << page;
    const size_t end = text.find("\n```", begin);
    EXPECT_THAT(problems_in_check(text.substr(begin + 8, end - begin - 7)), IsEmpty()) << page;
  }
}

TEST(CheckSection, HasAtMostAHundredRules) {
  std::string rules;
  for (int i = 0; i < 100; ++i) {
    rules += "{name: r" + std::to_string(i) + ", identifier: x, limit: 1, duration: 1s},";
  }
  EXPECT_THAT(problems_in_check("check: {rules: [" + rules + "]}"), IsEmpty());
  EXPECT_THAT(problems_in_check("check: {rules: [" + rules + " 1]}"),
              ElementsAre(HasSubstr("rules has 101 rules: it must have at most 100")));
}

}  // namespace
}  // namespace weir::server
