#include "frontends/http/check_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "frontends/fixture_test.h"
#include "frontends/http/http_session.h"
#include "frontends/http/verdict_json.h"
#include "frontends/waiting_test.h"

namespace weir::frontends {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

CheckRule rule_of(const std::string& name, const std::string& identifier, CheckMatch match = {},
                  Count limit = 2) {
  CheckRule rule{.name = name,
                 .match = std::move(match),
                 .ns = name,
                 .limit = limit,
                 .duration = Millis(60'000),
                 .algorithm = Algorithm::kFixedWindow};
  EXPECT_EQ(parse_identifier(identifier, rule.identifier), "");
  return rule;
}

CheckRules rules_of(std::vector<CheckRule> rules) {
  CheckRules all{.rules = std::move(rules)};
  all.address.trusted_proxies.push_back(parse_network("10.0.0.0/8").value());
  return all;
}

// The text of a check, with the key.
std::string check_text(const std::string& fields, const std::string& target = "/v1/check",
                       const std::string& method = "GET") {
  return method + " " + target +
         " HTTP/1.1\r\nHost: Own.Example:8080\r\nX-Weir-Key: " + std::string(kKey) + "\r\n" +
         fields + "\r\n";
}

// The matches of a request from a trusted proxy: "rule=identifier".
std::vector<std::string> matches_of(const std::vector<CheckRule>& rules, const std::string& text) {
  HttpHead head;
  HttpFault fault;
  EXPECT_EQ(parse_http_head(text, head, fault), HttpParseStatus::kComplete) << fault.detail;
  CheckRequest check;
  std::vector<Request> requests(3);
  check.read(head);
  const CheckRules all = rules_of(rules);
  check.match(all, parse_ip("10.0.0.1"), requests);
  std::vector<std::string> matches;
  for (size_t i = 0; i < requests.size(); ++i) {
    matches.push_back(check.rule(i).name + "=" + std::string(requests[i].identifier));
  }
  return matches;
}

TEST(Identifier, HasTextsAndValues) {
  Identifier identifier;
  EXPECT_EQ(parse_identifier("a {address}|{header:X-Api-Key}", identifier), "");
  using Kind = IdentifierPart::Kind;
  EXPECT_EQ(identifier.parts,
            (std::vector<IdentifierPart>{{.kind = Kind::kText, .text = "a "},
                                         {.kind = Kind::kAddress},
                                         {.kind = Kind::kText, .text = "|"},
                                         {.kind = Kind::kHeader, .text = "x-api-key"}}));
  EXPECT_EQ(identifier.encoded, "%a|");
  EXPECT_EQ(parse_identifier("all of {host}", identifier), "");
  EXPECT_EQ(identifier.encoded, "");
}

TEST(Identifier, RefusesWhatIsNoValue) {
  Identifier identifier;
  for (const std::string_view text : {"", "{", "}", "{}", "a}", "{addres}", "{header:}",
                                      "{header:a b}", "{header:a", "{{path}}", "{path}{host}"}) {
    EXPECT_NE(parse_identifier(text, identifier), "") << text;
  }
  EXPECT_THAT(parse_identifier("{nothing", identifier), StartsWith("has '{nothing' in it"));
  EXPECT_NE(parse_identifier(std::string(513, 'x'), identifier), "");
}

// A text of two values, whose separator may also be in the values.
RC_GTEST_PROP(Identifier, DiffersIfAValueDiffers, ()) {
  const auto value = rc::gen::nonEmpty(
      rc::gen::container<std::string>(rc::gen::element('a', ':', '%', '3', 'A', '|')));
  const auto identifier = [](const std::string& a, const std::string& b) {
    return matches_of({rule_of("r", "{header:a}:a{header:b}")},
                      check_text("a: " + a + "\r\nb: " + b + "\r\n"));
  };
  const std::pair<std::string, std::string> one{*value, *value};
  const std::pair<std::string, std::string> other{*value, *value};
  RC_ASSERT((identifier(one.first, one.second) == identifier(other.first, other.second)) ==
            (one == other));
}

TEST(CheckRequest, TakesTheOriginalRequestFromHeaders) {
  const std::vector<CheckRule> rules = {rule_of("r", "{method} {host} {path}")};
  EXPECT_THAT(matches_of(rules, check_text("X-Forwarded-Method: PUT\r\nX-Forwarded-Uri: "
                                           "/a/../b?c\r\nX-Forwarded-Host: API.example.com.:443"
                                           "\r\nX-Original-Method: GET\r\nX-Original-URI: /x\r\n")),
              ElementsAre("r=PUT api.example.com /b"));
  EXPECT_THAT(matches_of(rules, check_text("X-Original-Method: PUT\r\nX-Original-URI: /x?y\r\n")),
              ElementsAre("r=PUT own.example /x"));
  EXPECT_THAT(matches_of(rules, check_text("", "/v1/check?denied=403", "HEAD")),
              ElementsAre("r=HEAD own.example /"));
}

// A gateway that adds a header to that of the client adds it at the end.
TEST(CheckRequest, TakesTheLastOfSeveralHeadersOfTheGateway) {
  EXPECT_THAT(matches_of({rule_of("r", "{path}")},
                         check_text("X-Forwarded-Uri: /client\r\nX-Forwarded-Uri: /gateway\r\n")),
              ElementsAre("r=/gateway"));
}

TEST(CheckRequest, IsItselfTheOriginalRequestIfItHasItsPath) {
  const std::vector<CheckRule> rules = {rule_of("r", "{method} {host} {path}")};
  const std::string spoofed =
      "X-Forwarded-Method: PUT\r\nX-Forwarded-Uri: /x\r\nX-Forwarded-Host: x\r\n";
  EXPECT_THAT(matches_of(rules, check_text(spoofed, "/v1/check/a//b?denied=x", "POST")),
              ElementsAre("r=POST own.example /a/b"));
  EXPECT_THAT(matches_of(rules, check_text(spoofed, "/v1/check/", "POST")),
              ElementsAre("r=POST own.example /"));
}

TEST(CheckRequest, MatchesARuleOnlyInAllItsParts) {
  const std::vector<CheckRule> rules = {rule_of("r", "all",
                                                {.methods = {"POST", "PUT"},
                                                 .path = "/login",
                                                 .host = "api.example.com",
                                                 .headers = {{"x-plan", "free"}}})};
  const auto with = [&](const std::string& method, const std::string& path, const std::string& host,
                        const std::string& plan) {
    return matches_of(rules,
                      check_text("X-Forwarded-Method: " + method + "\r\nX-Forwarded-Uri: " + path +
                                 "\r\nX-Forwarded-Host: " + host + "\r\nX-PLAN: " + plan + "\r\n"))
               .size() == 1;
  };
  EXPECT_TRUE(with("POST", "/login", "api.example.com", "free"));
  EXPECT_TRUE(with("PUT", "/%6cogin?x", "API.EXAMPLE.COM:80", "free"));
  EXPECT_FALSE(with("GET", "/login", "api.example.com", "free"));
  EXPECT_TRUE(with("post", "/login", "api.example.com", "free"));
  EXPECT_TRUE(with("POST", "/login;a=b", "api.example.com", "free"));
  EXPECT_FALSE(with("POST", "/login/", "api.example.com", "free"));
  EXPECT_FALSE(with("POST", "/login2", "api.example.com", "free"));
  EXPECT_FALSE(with("POST", "/login", "example.com", "free"));
  EXPECT_FALSE(with("POST", "/login", "api.example.com", "Free"));
}

// These spellings reached the application past the rule.
TEST(CheckRequest, MatchesEveryReadingOfAPath) {
  const std::vector<CheckRule> rules = {
      rule_of("login", "{method} {path}", {.methods = {"POST"}, .path = "/login"})};
  for (const char* path :
       {"/login;a=b", "/\\login", "/%2flogin", "/%5Clogin", "/x/..;/login", "/x%2f..%2Flogin",
        "/\\x\\..\\login;x?q", "/login;%2fx", "//%6cogin;%20"}) {
    const std::string uri = "X-Forwarded-Uri: " + std::string(path) + "\r\n";
    EXPECT_THAT(matches_of(rules, check_text("X-Forwarded-Method: pOsT\r\n" + uri)),
                ElementsAre("login=POST /login"))
        << path;
  }
  for (const char* path : {"/login%3b", "/login%25", "/LOGIN", "/login/", "/xlogin", "/x;/login"}) {
    const std::string uri = "X-Forwarded-Uri: " + std::string(path) + "\r\n";
    const bool matched =
        !matches_of(rules, check_text("X-Forwarded-Method: POST\r\n" + uri)).empty();
    EXPECT_EQ(matched, std::string_view(path) == "/login%3b") << path;
  }
}

// In each reading, a client can neither leave a prefix nor choose a path without it.
TEST(CheckRequest, KeepsAPathWithinItsPrefixInEveryReading) {
  const std::vector<CheckRule> rules = {
      rule_of("api", "{path}", {.path = "/api/", .path_is_prefix = true})};
  const auto matches = [&](const std::string& path) {
    return matches_of(rules, check_text("X-Forwarded-Uri: " + path + "\r\n"));
  };
  EXPECT_THAT(matches("/api/..%2fx"), ElementsAre("api=/api/..%2Fx"));
  EXPECT_THAT(matches("/api/..;/x"), ElementsAre("api=/api/..;/x"));
  for (const char* path : {"/api/x;1", "/api/x;2", "/api/x", "/api\\x"}) {
    EXPECT_THAT(matches(path), ElementsAre("api=/api/x")) << path;
  }
}

TEST(CheckRequest, MatchesAPrefixAndAMissingHeader) {
  const std::vector<CheckRule> rules = {
      rule_of("prefix", "all", {.path = "/api/", .path_is_prefix = true}),
      rule_of("anonymous", "{address}", {.headers = {{"x-api-key", ""}}}),
      rule_of("known", "{header:x-api-key}")};
  const std::string path = "X-Forwarded-Uri: /api/x\r\n";
  EXPECT_THAT(matches_of(rules, check_text(path)), ElementsAre("prefix=all", "anonymous=10.0.0.1"));
  EXPECT_THAT(matches_of(rules, check_text("X-Forwarded-Uri: /api\r\nX-Api-Key: k\r\n")),
              ElementsAre("known=k"));
  EXPECT_THAT(matches_of(rules, check_text("X-Api-Key: \r\n")), ElementsAre("anonymous=10.0.0.1"));
}

TEST(CheckRequest, IdentifiesTheClientBehindTheProxy) {
  const std::vector<CheckRule> rules = {rule_of("r", "{address}")};
  EXPECT_THAT(matches_of(rules, check_text("X-Forwarded-For: 198.51.100.1\r\nX-Forwarded-For: "
                                           "2001:db8:1:2:3::4, 10.0.0.2\r\n")),
              ElementsAre("r=2001:db8:1:2::/64"));
  EXPECT_THAT(matches_of(rules, check_text("Forwarded: for=198.51.100.1\r\n")),
              ElementsAre("r=10.0.0.1"));
}

TEST(CheckRequest, HashesALongIdentifier) {
  const std::vector<CheckRule> rules = {rule_of("r", "{header:k}")};
  const auto of = [&](size_t size) {
    return matches_of(rules, check_text("k: " + std::string(size, 'x') + "\r\n")).at(0).substr(2);
  };
  EXPECT_EQ(of(512), std::string(512, 'x'));
  EXPECT_THAT(of(513), StartsWith("sha256:"));
  EXPECT_EQ(of(513).size(), 7u + 64u);
  EXPECT_NE(of(513), of(514));
}

TEST(CheckRequest, ReportsTheTightestItem) {
  const auto admitted = [](Count remaining) {
    return Verdict{.outcome = Outcome::kAdmitted, .remaining = remaining};
  };
  const auto denied = [](int64_t wait) {
    return Verdict{.outcome = Outcome::kDenied, .retry_after = Millis(wait)};
  };
  const Verdict never{.outcome = Outcome::kNever};
  EXPECT_EQ(tightest_of(std::vector{admitted(3), admitted(1), admitted(2)}), 1u);
  EXPECT_EQ(tightest_of(std::vector{admitted(0), denied(1), denied(9), denied(2)}), 2u);
  EXPECT_EQ(tightest_of(std::vector{denied(9), never, admitted(0)}), 1u);
}

struct CheckClient {
  Fixture fixture;
  HttpScratch scratch{1};
  HttpSession session{fixture.service, scratch};
  TestConnection line{fixture, session};

  explicit CheckClient(std::vector<CheckRule> rules) {
    fixture.service.check_rules.replace(rules_of(std::move(rules)));
    session.set_peer_address(parse_ip("10.0.0.1"));
  }
};

TEST(HttpCheck, AnswersWithStatusAndHeaders) {
  CheckClient client({rule_of("login", "{address}")});
  const std::string head =
      "Date: Tue, 14 Nov 2023 22:00:00 GMT\r\nContent-Type: text/plain; "
      "charset=utf-8\r\n";
  const std::string policy = "RateLimit-Policy: \"login\";q=2;w=60\r\n";
  EXPECT_EQ(client.line.send(check_text("")), "HTTP/1.1 200 OK\r\n" + head +
                                                  "Content-Length: 0\r\n" + policy +
                                                  "RateLimit: \"login\";r=1;t=60\r\n\r\n");
  client.line.send(check_text("", "/v1/check", "DELETE"));
  const std::string denied = "RateLimit: \"login\";r=0;t=60\r\nRetry-After: 60\r\n\r\n";
  EXPECT_EQ(client.line.send(check_text("")), "HTTP/1.1 429 Too Many Requests\r\n" + head +
                                                  "Content-Length: 20\r\n" + policy + denied +
                                                  "rate limit exceeded\n");
  EXPECT_EQ(client.line.send(check_text("", "/v1/check?a=b&denied=403", "HEAD")),
            "HTTP/1.1 403 Forbidden\r\n" + head + "Content-Length: 20\r\n" + policy + denied);
  EXPECT_THAT(client.line.send(check_text("", "/v1/check?denied=200")),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("denied is neither 403 nor 429")));
  // An original request has a query of its own.
  EXPECT_THAT(client.line.send(check_text("", "/v1/check/x?denied=200")),
              StartsWith("HTTP/1.1 429 "));
  EXPECT_EQ(client.fixture.service.http.decisions.total(
                telemetry::decided(Outcome::kDenied, Basis::kLocal)),
            3u);
}

TEST(HttpCheck, UsesTheConfiguredStatus) {
  CheckClient client({});
  CheckRules rules = rules_of({rule_of("r", "all", {}, 1)});
  rules.denied_status = 403;
  client.fixture.service.check_rules.replace(rules);
  client.line.send(check_text(""));
  EXPECT_THAT(client.line.send(check_text("")), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(client.line.send(check_text("", "/v1/check?denied=429")),
              StartsWith("HTTP/1.1 429 "));
}

TEST(HttpCheck, AdmitsWithoutHeadersIfNoRuleMatches) {
  CheckClient client({rule_of("r", "{header:missing}")});
  for (const std::string method : {"GET", "OPTIONS", "TRACE", "BREW"}) {
    EXPECT_THAT(client.line.send(check_text("", "/v1/check", method)),
                AllOf(StartsWith("HTTP/1.1 200 "), Not(HasSubstr("RateLimit"))));
  }
}

TEST(HttpCheck, ChargesAllRulesOrNone) {
  CheckClient client({rule_of("wide", "all", {}, 5), rule_of("narrow", "{address}", {}, 1)});
  const auto from = [&](const std::string& address) {
    return client.line.send(check_text("X-Forwarded-For: " + address + "\r\n"));
  };
  EXPECT_THAT(from("203.0.113.1"), HasSubstr("RateLimit: \"narrow\";r=0"));
  for (int i = 0; i < 9; ++i) {
    EXPECT_THAT(from("203.0.113.1"), AllOf(StartsWith("HTTP/1.1 429 "),
                                           HasSubstr("RateLimit-Policy: \"narrow\";q=1;w=60")));
  }
  for (int i = 2; i <= 5; ++i) {
    EXPECT_THAT(from("203.0.113." + std::to_string(i)), StartsWith("HTTP/1.1 200 "));
  }
  EXPECT_THAT(from("203.0.113.6"),
              AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr("RateLimit-Policy: \"wide\";q=5")));
}

// A gateway that lets requests pass while Weir does not answer took such a check for that, or for a
// denial.
TEST(HttpCheck, RefusesACheckThatIsWrongAsNothingElse) {
  CheckRule wrong = rule_of("wrong", "all", {}, kMaxLogLimit + 1);
  wrong.algorithm = Algorithm::kSlidingLog;
  CheckClient client({wrong});
  EXPECT_THAT(client.line.send(check_text("")), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(client.line.send(check_text("", "/v1/check?denied=403")),
              StartsWith("HTTP/1.1 400 "));
}

TEST(HttpCheck, RequiresAKeyInEitherHeader) {
  const auto answer = [](const std::string& fields) {
    CheckClient client({});
    return client.line.send("GET /v1/check HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n").substr(9, 3);
  };
  const std::string key(kKey);
  EXPECT_EQ(answer(""), "400");
  EXPECT_EQ(answer("Authorization: Basic abc\r\n"), "400");
  EXPECT_EQ(answer("Authorization: Bearer " + key + "\r\n"), "200");
  EXPECT_EQ(answer("X-Weir-Key: " + key + "\r\n"), "200");
  EXPECT_EQ(answer("X-Weir-Key: " + key + "\r\nAuthorization: Basic abc\r\n"), "200");
  EXPECT_EQ(answer("X-Weir-Key: wrong_key_of_this_test\r\nAuthorization: Bearer " + key + "\r\n"),
            "401");
  CheckClient client({});
  EXPECT_THAT(client.line.send("GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n"),
              StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(client.line.send("POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\nX-Weir-Key: " +
                               key + "\r\nContent-Length: 0\r\n\r\n"),
              StartsWith("HTTP/1.1 400 "));
}

TEST(HttpCheck, IgnoresTheBodyAndItsEncoding) {
  CheckClient client({rule_of("r", "all")});
  const std::string text =
      check_text("Content-Length: 4\r\n") + "body" + check_text("Content-Encoding: gzip\r\n");
  const std::string received = client.line.send(text);
  EXPECT_THAT(received, AllOf(HasSubstr("r=1;t=60"), HasSubstr("r=0;t=60")));
  EXPECT_EQ(client.line.next, Next::kRead);
}

TEST(HttpCheck, IsNoOtherPath) {
  CheckClient client({});
  EXPECT_THAT(client.line.send(check_text("", "/v1/checks")), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(client.line.send(check_text("", "/v1/chec")), StartsWith("HTTP/1.1 404 "));
}

// The rules may change while a decision waits for a store.
TEST(HttpCheck, ContinuesAfterAPendingDecisionWithTheSameRules) {
  for (const size_t count : {1, 2}) {
    WaitingFixture late;
    std::vector<CheckRule> rules = {rule_of("a", "all"), rule_of("b", "all", {}, 1)};
    rules.erase(rules.begin(), rules.end() - static_cast<std::ptrdiff_t>(count));
    late.service.check_rules.replace(rules_of(rules));
    HttpScratch scratch(1);
    HttpSession session(late.service, scratch);
    session.bind(late.executor, [] {});
    TestConnection line{late.fixture, session};
    EXPECT_EQ(line.send(check_text("Content-Length: 4\r\n") + "body"), "");
    ASSERT_EQ(line.next, Next::kWait);
    late.service.check_rules.replace({});
    late.backend.finish();
    EXPECT_THAT(line.send(""), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("\"b\";r=0")));
    EXPECT_EQ(line.next, Next::kRead);
    EXPECT_TRUE(line.in.empty());
    EXPECT_THAT(line.send(check_text("")), Not(HasSubstr("RateLimit")));
  }
}

TEST(HttpPreference, MakesADenialAStatus) {
  CheckClient client({});
  const auto post = [&](const std::string& path, const std::string& body,
                        const std::string& fields) {
    return client.line.send("POST " + path + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " +
                            std::string(kKey) + "\r\n" + fields +
                            "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  const std::string item = R"({"namespace":"n","identifier":"i","limit":1,"duration":60000})";
  const std::string one = "/v2/ratelimit.limit";
  const std::string many = "/v2/ratelimit.multiLimit";
  const std::string prefer = "Prefer: respond-async, Status=429; x=y\r\n";
  const auto is_applied =
      AllOf(StartsWith("HTTP/1.1 429 Too Many Requests\r\n"),
            HasSubstr("\r\nPreference-Applied: status=429\r\n"), HasSubstr("\r\nRetry-After: "));
  EXPECT_THAT(post(one, item, prefer),
              AllOf(StartsWith("HTTP/1.1 200 "), Not(HasSubstr("Preference-Applied"))));
  EXPECT_THAT(post(one, item, prefer), AllOf(is_applied, HasSubstr("\"success\":false")));
  EXPECT_THAT(post(many, "[" + item + "]", prefer),
              AllOf(is_applied, HasSubstr("\"passed\":false")));
  for (const std::string fields : {"", "Prefer: status=200\r\n", "Prefer: xstatus=429\r\n"}) {
    EXPECT_THAT(post(one, item, fields),
                AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("\"success\":false")));
    EXPECT_THAT(post(many, "[" + item + "]", fields), StartsWith("HTTP/1.1 200 "));
  }
}

}  // namespace
}  // namespace weir::frontends
