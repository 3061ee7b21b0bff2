#include "frontends/http/http_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "catalog/changes.h"
#include "frontends/fixture_test.h"
#include "frontends/memory_catalog_test.h"

namespace weir::frontends {
namespace {

using telemetry::FrontendStat;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct HttpClient {
  Fixture fixture;
  HttpScratch scratch{1};
  HttpSession session{fixture.service, scratch};
  TestConnection line{fixture, session};

  std::string send(std::string_view text) { return line.send(text); }
};

const std::string kBody =
    R"({"namespace":"api","identifier":"alice","limit":2,"duration":60000,"algorithm":"fixed_window"})";

std::string post(const std::string& path, const std::string& body, const std::string& fields = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + std::string(kKey) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + fields + "\r\n" + body;
}

std::string limit(const std::string& body = kBody, const std::string& fields = "") {
  return post("/v2/ratelimit.limit", body, fields);
}

std::string get(const std::string& path, const std::string& fields = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n";
}

// Request ids are random; they are replaced by "*".
std::string anonymous(const std::string& text) {
  return std::regex_replace(text, std::regex("req_[0-9a-z]{24}"), "*");
}

// Every response has the first three headers. A request id has 28 bytes on the wire.
std::string http_answer(const std::string& status, const std::string& fields,
                        const std::string& body) {
  const size_t names = body.find("\"*\"") == std::string::npos ? 0 : 27;
  return "HTTP/1.1 " + status +
         "\r\nDate: Tue, 14 Nov 2023 22:00:00 GMT\r\nContent-Type: application/json\r\n"
         "Content-Length: " +
         std::to_string(body.size() + names) + "\r\n" + fields + "\r\n" + body;
}

std::string error(const std::string& status, const std::string& title, const std::string& detail,
                  const std::string& type, const std::string& fields = "",
                  const std::string& errors = "") {
  return http_answer(status + " " + title, fields,
                     R"({"meta":{"requestId":"*"},"error":{"title":")" + title + R"(","detail":")" +
                         detail + R"(","status":)" + status + R"(,"type":"urn:weir:error:)" + type +
                         R"(","errors":[)" + errors + "]}}");
}

TEST(HttpSession, RespondsToALimitWithVerdictAndHeaders) {
  HttpClient client;
  EXPECT_EQ(
      anonymous(client.send(limit())),
      http_answer("200 OK",
                  "RateLimit-Policy: \"default\";q=2;w=60\r\nRateLimit: \"default\";r=1;t=60\r\n",
                  R"({"meta":{"requestId":"*"},"data":{"limit":2,"remaining":1,)"
                  R"("reset":1699999260000,"success":true,"basis":"local"}})"));
  EXPECT_EQ(client.line.next, Next::kRead);
  client.send(limit());
  EXPECT_EQ(
      anonymous(client.send(limit())),
      http_answer("200 OK",
                  "RateLimit-Policy: \"default\";q=2;w=60\r\nRateLimit: \"default\";r=0;t=60\r\n"
                  "Retry-After: 60\r\n",
                  R"({"meta":{"requestId":"*"},"data":{"limit":2,"remaining":0,)"
                  R"("reset":1699999260000,"success":false,"retryAfter":60000,"basis":"local"}})"));
  EXPECT_EQ(client.fixture.service.http.stats.total(FrontendStat::kRequests), 3u);
  EXPECT_EQ(client.fixture.service.http.stats.total(FrontendStat::kBad), 0u);
  EXPECT_EQ(client.fixture.service.http.decisions.total(
                telemetry::decided(Outcome::kDenied, Basis::kLocal)),
            1u);
}

TEST(HttpSession, RoundsSecondsUpSoThatNoClientRetriesTooEarly) {
  HttpClient client;
  client.send(limit());
  client.send(limit());
  const auto retry_after = [&](Millis later) {
    client.fixture.clock.advance(later);
    const std::string received = client.send(limit());
    std::smatch found;
    const std::regex expected("t=([0-9]+)\r\nRetry-After: ([0-9]+)\r\n");
    return std::regex_search(received, found, expected) ? found.str(1) + " " + found.str(2)
                                                        : received;
  };
  EXPECT_EQ(retry_after(Millis(1)), "60 60");
  EXPECT_EQ(retry_after(Millis(998)), "60 60");
  EXPECT_EQ(retry_after(Millis(1)), "59 59");
  EXPECT_EQ(retry_after(Millis(58'999)), "1 1");
}

TEST(HttpSession, RoundsAWindowUpToWholeSeconds) {
  HttpClient client;
  EXPECT_THAT(client.send(limit(R"({"namespace":"a","identifier":"b","limit":5,"duration":1001})")),
              HasSubstr("RateLimit-Policy: \"default\";q=5;w=2\r\n"));
}

TEST(HttpSession, OmitsRetryAfterIfTheCostCanNeverPass) {
  HttpClient client;
  const std::string received = client.send(
      limit(R"({"namespace":"a","identifier":"b","limit":5,"duration":1000,"cost":6})"));
  EXPECT_THAT(received, HasSubstr(R"("success":false,"basis")"));
  EXPECT_THAT(received, Not(HasSubstr("Retry-After")));
}

TEST(HttpSession, AdmitsABatchAtomicallyAndReportsTheTightestLimit) {
  HttpClient client;
  const std::string batch =
      R"([{"namespace":"a","identifier":"x\"y","limit":9,"duration":60000},)"
      R"({"namespace":"a","identifier":"b","limit":3,"duration":60000,"cost":2,)"
      R"("algorithm":"fixed_window"}])";
  EXPECT_EQ(
      anonymous(client.send(post("/v2/ratelimit.multiLimit", batch))),
      http_answer("200 OK",
                  "RateLimit-Policy: \"default\";q=3;w=60\r\nRateLimit: \"default\";r=1;t=60\r\n",
                  R"({"meta":{"requestId":"*"},"data":{"passed":true,"limits":[)"
                  R"({"namespace":"a","identifier":"x\"y","limit":9,"remaining":8,)"
                  R"("reset":1699999260000,"passed":true,"basis":"local"},)"
                  R"({"namespace":"a","identifier":"b","limit":3,"remaining":1,)"
                  R"("reset":1699999260000,"passed":true,"basis":"local"}]}})"));
  EXPECT_EQ(anonymous(client.send(post("/v2/ratelimit.multiLimit", batch))),
            http_answer(
                "200 OK",
                "RateLimit-Policy: \"default\";q=3;w=60\r\nRateLimit: \"default\";r=1;t=60\r\n"
                "Retry-After: 60\r\n",
                R"({"meta":{"requestId":"*"},"data":{"passed":false,"limits":[)"
                R"({"namespace":"a","identifier":"x\"y","limit":9,"remaining":8,)"
                R"("reset":1699999260000,"passed":true,"basis":"local"},)"
                R"({"namespace":"a","identifier":"b","limit":3,"remaining":1,)"
                R"("reset":1699999260000,"passed":false,"retryAfter":60000,"basis":"local"}]}})"));
  // Items of the refused batch that would pass alone are not counted as admitted.
  EXPECT_THAT(
      client.send(get("/metrics")),
      AllOf(
          HasSubstr(
              "\nweir_decisions_total{frontend=\"http\",outcome=\"admitted\",basis=\"local\"} 2\n"),
          HasSubstr(
              "\nweir_decisions_total{frontend=\"http\",outcome=\"denied\",basis=\"local\"} 2\n")));
}

TEST(HttpSession, CountsNoAdmissionForABatchThatCanNeverPass) {
  HttpClient client;
  EXPECT_THAT(client.send(post("/v2/ratelimit.multiLimit",
                               R"([{"namespace":"a","identifier":"x","limit":9,"duration":60000},)"
                               R"({"namespace":"a","identifier":"b","limit":3,"duration":60000,)"
                               R"("cost":4}])")),
              HasSubstr(R"("passed":false,"limits")"));
  const auto& decisions = client.fixture.service.http.decisions;
  EXPECT_EQ(decisions.total(telemetry::decided(Outcome::kAdmitted, Basis::kLocal)), 0u);
  EXPECT_EQ(decisions.total(telemetry::decided(Outcome::kDenied, Basis::kLocal)), 1u);
  EXPECT_EQ(decisions.total(telemetry::decided(Outcome::kNever, Basis::kLocal)), 1u);
}

TEST(HttpSession, ReportsAllProblemsOfABody) {
  HttpClient client;
  const std::string cost = R"({"location":"body.cost","message":"cost is -1",)"
                           R"("fix":"choose a whole number from 0 to 1000000000000"})";
  const std::string body =
      R"({"namespace":"a","identifier":"b","limit":5,"duration":1000,"cost":-1)";
  EXPECT_EQ(anonymous(client.send(limit(body + "}"))),
            error("400", "Bad Request", "cost is -1", "bad_request", "", cost));
  EXPECT_EQ(
      anonymous(client.send(limit(body + R"(,"burst":0})"))),
      error("400", "Bad Request", "the body has several problems; see errors", "bad_request", "",
            cost + R"(,{"location":"body.burst","message":"burst is 0",)"
                   R"("fix":"choose a whole number from 1 to 1000000000000"})"));
  // Found by the limiter only.
  const std::string burst =
      R"({"namespace":"a","identifier":"b","limit":5,"duration":1000,"burst":1})";
  EXPECT_THAT(client.send(limit(burst)), HasSubstr(R"("location":"body.burst")"));
  EXPECT_THAT(client.send(post("/v2/ratelimit.multiLimit", "[" + burst + "]")),
              HasSubstr(R"("location":"body[0].burst")"));
  // The next error does not repeat the problems.
  EXPECT_THAT(client.send(get("/nowhere")), HasSubstr(R"("errors":[])"));
  EXPECT_EQ(client.line.next, Next::kRead);
  EXPECT_EQ(client.fixture.service.http.stats.total(FrontendStat::kBad), 5u);
}

TEST(HttpSession, RequiresTheKeyAsABearerToken) {
  const auto request = [](const std::string& authorization) {
    HttpClient client;
    return anonymous(client.send("POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\n" +
                                 authorization + "Content-Length: " + std::to_string(kBody.size()) +
                                 "\r\n\r\n" + kBody));
  };
  const std::string key(kKey);
  EXPECT_THAT(request("Authorization: Bearer " + key + "\r\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(request("Authorization: bearer " + key + "\r\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(request(""), error("400", "Bad Request",
                               "the Authorization header is missing: send Authorization: Bearer "
                               "<root key>",
                               "bad_request"));
  for (const std::string& malformed : {"Basic " + key, key, std::string("Bearer"),
                                       "Bearer " + std::string(300, 'x'), std::string()}) {
    EXPECT_EQ(request("Authorization: " + malformed + "\r\n"),
              error("400", "Bad Request",
                    "the Authorization header is malformed: send Authorization: Bearer <root key>",
                    "bad_request"));
  }
  for (const std::string& unknown : {key + "x", key.substr(1), std::string("x")}) {
    EXPECT_EQ(request("Authorization: Bearer " + unknown + "\r\n"),
              error("401", "Unauthorized", "this key is not valid", "unauthorized",
                    "WWW-Authenticate: Bearer\r\n"));
  }
}

// The head of a request with a body and this key.
std::string post_head(const std::string& authorization, const std::string& framing) {
  return "POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\n" + authorization + framing + "\r\n";
}

TEST(HttpSession, RefusesAWrongKeyBeforeTheBodyArrivesAndDoesNotBufferIt) {
  const std::string invalid = "Authorization: Bearer weir_root_of_another_server\r\n";
  for (const auto& [authorization, status] :
       {std::pair<std::string, std::string>{"", "400"}, {invalid, "401"}}) {
    HttpClient other;
    EXPECT_THAT(other.send(post_head(authorization, "Content-Length: 9000\r\n")),
                StartsWith("HTTP/1.1 " + status));
    for (int i = 0; i < 9; ++i) {
      EXPECT_EQ(other.send(std::string(1000, 'x')), "");
      EXPECT_TRUE(other.line.in.empty());
    }
    EXPECT_THAT(other.send(get("/healthz")), EndsWith("\r\n\r\nok\n"));  // after the body
    for (const std::string framing :
         {"Content-Length: 1048576\r\n", "Transfer-Encoding: chunked\r\n",
          "Content-Length: 1\r\nExpect: 100-continue\r\n"}) {
      HttpClient large;
      EXPECT_THAT(large.send(post_head(authorization, framing)),
                  AllOf(StartsWith("HTTP/1.1 " + status), HasSubstr("\r\nConnection: close\r\n")));
      EXPECT_EQ(large.line.next, Next::kClose);
      EXPECT_TRUE(large.line.in.empty());
    }
  }
}

TEST(HttpSession, DoesNotBufferABodyOnRoutesWithoutAKey) {
  HttpClient client;
  EXPECT_THAT(client.send(get("/healthz", "Content-Length: 5\r\n") + "he"), EndsWith("ok\n"));
  EXPECT_EQ(client.send("llo"), "");
  EXPECT_THAT(client.send(get("/nowhere", "Content-Length: 20000\r\n")),
              HasSubstr("\r\nConnection: close\r\n"));
}

TEST(HttpSession, RaisesItsBufferLimitAfterAValidKey) {
  HttpClient client;
  EXPECT_EQ(client.session.max_unread(), kMaxUnauthenticatedBytes);
  EXPECT_EQ(client.session.trust(), Trust::kUnauthenticated);
  client.send(get("/healthz"));
  EXPECT_EQ(client.session.trust(), Trust::kUnauthenticated);
  const std::string request = limit();
  client.send(request.substr(0, request.size() - 1));  // the head has arrived
  EXPECT_EQ(client.session.max_unread(), kMaxUnread);
  EXPECT_EQ(client.session.trust(), Trust::kRoot);
}

TEST(HttpSession, RefusesAHeadAboveTheUnauthenticatedLimit) {
  HttpClient client;
  const std::string head = get("/", "X: " + std::string(kMaxHttpHead, 'x') + "\r\n");
  EXPECT_EQ(client.send(head.substr(0, kMaxUnauthenticatedBytes - 1)), "");
  EXPECT_THAT(client.send(head.substr(kMaxUnauthenticatedBytes - 1, 1)),
              StartsWith("HTTP/1.1 431 "));
}

TEST(HttpSession, DelaysTheResponseToAWrongKeyAndCountsTheReason) {
  HttpClient client;
  Bytes& in = client.line.in;
  Bytes& out = client.line.out;
  const auto take = [&] { return client.session.process(client.fixture.clock.now(), in, out); };
  const auto wrong = [](const std::string& key) { return "Authorization: Bearer " + key + "\r\n"; };
  for (size_t i = 0; i < WrongKeys::kKeys; ++i) {
    in.append(post_head(wrong("weir_root_of_" + std::to_string(i)), ""));
    EXPECT_EQ(take(), Next::kRead);
    EXPECT_THAT(client.line.received(), StartsWith("HTTP/1.1 401 "));
  }
  in.append(post_head(wrong("weir_root_of_nobody"), "") + get("/healthz"));
  EXPECT_EQ(take(), Next::kDelay);
  EXPECT_THAT(client.line.received(), AllOf(StartsWith("HTTP/1.1 401 "), Not(HasSubstr("200 OK"))));
  EXPECT_EQ(take(), Next::kRead);
  EXPECT_THAT(client.line.received(), StartsWith("HTTP/1.1 200 OK"));
  in.append(post_head(wrong("weir_root_of_nobody_else"), "Connection: close\r\n"));
  EXPECT_EQ(take(), Next::kDelay);
  EXPECT_EQ(take(), Next::kClose);
  client.send(post_head("", ""));
  client.send(post_head("Authorization: Basic eA==\r\n", ""));
  client.send(post_head("Authorization: Basic eA==\r\n", ""));
  const auto& stats = client.fixture.service.http.stats;
  EXPECT_EQ(stats.total(FrontendStat::kWrongKey), WrongKeys::kKeys + 2);
  EXPECT_EQ(stats.total(FrontendStat::kMissingKey), 1u);
  EXPECT_EQ(stats.total(FrontendStat::kMalformedKey), 2u);
}

// A gateway waits for less than the delay, and took a late 401 for no answer.
TEST(HttpSession, TellsAGatewayAtOnceThatItsKeyIsWrong) {
  HttpClient client;
  for (int i = 0; i < 100; ++i) {
    client.line.in.append("GET /v1/check HTTP/1.1\r\nHost: h\r\nX-Weir-Key: weir_old\r\n\r\n");
    EXPECT_EQ(client.session.process(client.fixture.clock.now(), client.line.in, client.line.out),
              Next::kRead);
    EXPECT_THAT(client.line.received(), StartsWith("HTTP/1.1 401 "));
  }
}

TEST(HttpSession, RequiresAKeyForMetricsOnPublicAddresses) {
  HttpClient client;
  client.fixture.service.metrics_key_policy = KeyPolicy::kRequired;
  EXPECT_THAT(client.send(get("/metrics")), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(client.send(get("/metrics", "Authorization: Bearer weir_root_of_nobody\r\n")),
              StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(client.send(get("/metrics", "Authorization: Bearer " + std::string(kKey) + "\r\n")),
              HasSubstr("\nweir_cells 0\n"));
  EXPECT_THAT(client.send(get("/healthz")), EndsWith("\r\n\r\nok\n"));
}

TEST(HttpSession, AcceptsContentEncodingIdentity) {
  HttpClient client;
  EXPECT_THAT(client.send(limit(kBody, "Content-Encoding: Identity\r\n")),
              StartsWith("HTTP/1.1 200 "));
}

TEST(HttpSession, ChecksTheKeyOfEveryRequest) {
  HttpClient client;
  EXPECT_THAT(client.send(limit()), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(client.send("POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\n"
                          "Authorization: Bearer weir_root_for_these_tests_onlY\r\n\r\n"),
              StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(client.send("POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\n\r\n"),
              StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(client.send(limit()), StartsWith("HTTP/1.1 200"));
}

TEST(HttpSession, ReportsHealthAndReadiness) {
  HttpClient client;
  const auto plain = [](const std::string& status, const std::string& body) {
    return "HTTP/1.1 " + status +
           "\r\nDate: Tue, 14 Nov 2023 22:00:00 GMT\r\nContent-Type: text/plain; charset=utf-8\r\n"
           "Content-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  };
  EXPECT_EQ(client.send(get("/healthz?verbose")), plain("200 OK", "ok\n"));
  EXPECT_EQ(client.send(get("/readyz")), plain("200 OK", "ready\n"));
  client.fixture.service.draining = true;
  EXPECT_EQ(client.send(get("/readyz")), plain("503 Service Unavailable", "draining\n"));
  EXPECT_EQ(client.send(get("/healthz")), plain("200 OK", "ok\n"));
}

TEST(HttpSession, RespondsToHeadAsToGetWithoutABody) {
  HttpClient client;
  const std::string whole = client.send(get("/healthz"));
  EXPECT_EQ(client.send("HEAD /healthz HTTP/1.1\r\nHost: h\r\n\r\n"),
            whole.substr(0, whole.size() - 3));
  const std::string missing = client.send("HEAD /nowhere HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(missing, StartsWith("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_THAT(missing, EndsWith("\r\n\r\n"));
}

TEST(HttpSession, ServesItsMetrics) {
  HttpClient client;
  const std::string received = client.send(get("/metrics"));
  EXPECT_THAT(received, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(received, HasSubstr("\nweir_cells 0\n"));
}

TEST(HttpSession, ListsTheMethodsOfAPath) {
  HttpClient client;
  const auto allowed = [](const std::string& methods) {
    return "HTTP/1.1 204 No Content\r\nDate: Tue, 14 Nov 2023 22:00:00 GMT\r\nAllow: " + methods +
           "\r\n\r\n";
  };
  const auto options = [](const std::string& path) {
    return "OPTIONS " + path + " HTTP/1.1\r\nHost: h\r\n\r\n";
  };
  EXPECT_EQ(client.send(options("/v2/ratelimit.limit")), allowed("POST, OPTIONS"));
  EXPECT_EQ(client.send(options("/v2/ratelimit.multiLimit")), allowed("POST, OPTIONS"));
  EXPECT_EQ(client.send(options("/metrics")), allowed("GET, HEAD, OPTIONS"));
  EXPECT_EQ(client.send(options("*")), allowed("GET, HEAD, POST, OPTIONS"));
  EXPECT_THAT(client.send(options("/nowhere")), StartsWith("HTTP/1.1 404 "));
}

TEST(HttpSession, NamesWeirAndTheRemedyAtPathsOfOtherServices) {
  HttpClient client;
  const std::pair<const char*, const char*> calls[] = {
      {"/v2/keys.verifyKey",
       "Weir has no call keys.verifyKey: it limits rates and verifies no keys of others. Its own "
       "keys have keys.createKey, getKey, listKeys, rotateKey and revokeKey"},
      {"/v2/apis.createApi",
       "Weir has no call apis.createApi: of the API of Unkey it has ratelimit.*"},
      {"/v2/ratelimit.limit/", "Weir has no call ratelimit.limit/"}};
  for (const auto& [path, detail] : calls) {
    EXPECT_EQ(
        anonymous(client.send(get(path))),
        error("404", "Not Found", std::string(detail) + "; GET /openapi.json has all paths of Weir",
              "not_found"));
  }
  // Its client shows `error` as a text.
  for (const char* path : {"/", "/pipeline", "/multi-exec"}) {
    EXPECT_THAT(client.send("POST " + std::string(path) +
                            " HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n[]"),
                EndsWith(R"({"error":"there is nothing at this path: )"
                         R"(Weir is a rate limiter and not Upstash Redis: instead of )"
                         R"(@upstash/ratelimit use @unkey/ratelimit with the address of Weir as )"
                         R"(baseUrl, or POST /v2/ratelimit.limit"})"));
  }
  EXPECT_EQ(client.fixture.service.http.stats.total(telemetry::FrontendStat::kUnsupported), 6u);
}

TEST(HttpSession, RefusesUnknownPathsAndMethods) {
  HttpClient client;
  for (const char* path : {"/", "/nowhere", "/V2/ratelimit.limit", "*"}) {
    EXPECT_EQ(anonymous(client.send(get(path))),
              error("404", "Not Found",
                    "there is nothing at this path; GET /openapi.json has all paths of Weir",
                    "not_found"));
  }
  EXPECT_EQ(anonymous(client.send(get("/v2/ratelimit.limit"))),
            error("405", "Method Not Allowed", "this path does not support this method",
                  "method_not_allowed", "Allow: POST, OPTIONS\r\n"));
  for (const char* method : {"POST", "PUT", "DELETE", "get"}) {
    EXPECT_EQ(anonymous(client.send(std::string(method) + " /healthz HTTP/1.1\r\nHost: h\r\n\r\n")),
              error("405", "Method Not Allowed", "this path does not support this method",
                    "method_not_allowed", "Allow: GET, HEAD, OPTIONS\r\n"));
  }
  EXPECT_THAT(client.send("HEAD /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\n\r\n"),
              StartsWith("HTTP/1.1 405 "));
  EXPECT_EQ(client.line.next, Next::kRead);
}

TEST(HttpSession, ClosesAfterAnInvalidRequest) {
  const std::pair<std::string, std::string> faults[] = {
      {"GET / HTTP/1.1\r\n\r\n",
       error("400", "Bad Request", "no Host header", "bad_request", "Connection: close\r\n")},
      {"GET / HTTP/3.0\r\n\r\n",
       error("505", "HTTP Version Not Supported", "only HTTP/1.1 and HTTP/1.0 are supported",
             "version_not_supported", "Connection: close\r\n")},
      {get("/", "Expect: more\r\n"),
       error("417", "Expectation Failed", "only Expect: 100-continue is supported",
             "expectation_failed", "Connection: close\r\n")},
      {get("/", "Transfer-Encoding: gzip\r\n"),
       error("501", "Not Implemented", "only Transfer-Encoding: chunked is supported",
             "not_implemented", "Connection: close\r\n")},
      {get("/", "Content-Length: 1048577\r\n"),
       error("413", "Content Too Large", "the body has more than 1 MiB", "content_too_large",
             "Connection: close\r\n")},
      {get("/", "X: " + std::string(kMaxHttpHead, 'x') + "\r\n"),
       error("431", "Request Header Fields Too Large", "the head has more than 16 KiB",
             "header_too_large", "Connection: close\r\n")},
      {"POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " +
           std::string(kKey) + "\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
       error("400", "Bad Request", "a chunk has no valid size", "bad_request",
             "Connection: close\r\n")},
      {get("/", "Content-Encoding: gzip\r\nContent-Length: 1\r\n"),
       error("415", "Unsupported Media Type",
             "only Content-Encoding: identity is supported: send the body unencoded",
             "unsupported_media_type", "Accept-Encoding: identity\r\nConnection: close\r\n")},
  };
  for (const auto& [request, expected] : faults) {
    HttpClient client;
    EXPECT_EQ(anonymous(client.send(request + get("/healthz"))), expected);
    EXPECT_EQ(client.line.next, Next::kClose);
    EXPECT_TRUE(client.line.in.empty());
    EXPECT_EQ(client.fixture.service.http.stats.total(FrontendStat::kBad), 1u);
  }
}

TEST(HttpSession, HonoursTheConnectionHeader) {
  HttpClient client;
  const std::string response = client.send(get("/healthz"));
  EXPECT_THAT(response, Not(HasSubstr("Connection:")));
  EXPECT_EQ(client.line.next, Next::kRead);
  EXPECT_THAT(client.send("GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
              HasSubstr("\r\nConnection: keep-alive\r\n"));
  EXPECT_EQ(client.line.next, Next::kRead);
  EXPECT_THAT(client.send(get("/healthz", "Connection: close\r\n") + get("/healthz")),
              HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_EQ(client.line.next, Next::kClose);
  HttpClient old;
  EXPECT_THAT(old.send("GET /healthz HTTP/1.0\r\n\r\n"), HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_EQ(old.line.next, Next::kClose);
}

TEST(HttpSession, ClosesAfterTheNextResponseInADrain) {
  HttpClient client;
  client.send(get("/healthz"));
  client.session.drain();
  EXPECT_THAT(client.send(get("/healthz")), HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_EQ(client.line.next, Next::kClose);
}

TEST(HttpSession, AnswersPipelinedRequestsBeforeItClosesInADrain) {
  HttpClient client;
  client.session.drain();
  const std::string received = client.send(get("/healthz") + limit() + get("/readyz"));
  EXPECT_EQ(received.find("Connection: close\r\n"), received.rfind("Connection: close\r\n"));
  EXPECT_THAT(received, EndsWith("\r\n\r\nready\n"));
  EXPECT_EQ(client.line.next, Next::kClose);
  EXPECT_EQ(client.fixture.service.http.stats.total(FrontendStat::kRequests), 3u);
}

TEST(HttpSession, StopsAnsweringAPipelineAfterATimeInADrain) {
  HttpClient client;
  client.session.drain();
  const std::string more = get("/healthz") + "GET /heal";
  EXPECT_THAT(client.send(more), Not(HasSubstr("Connection: close\r\n")));
  client.fixture.clock.advance(Millis(1001));
  EXPECT_THAT(client.send("thz HTTP/1.1\r\nHost: h\r\n\r\n" + more),
              HasSubstr("Connection: close\r\n"));
  EXPECT_EQ(client.line.next, Next::kClose);
}

TEST(HttpSession, SendsContinueOnceAndOnlyIfNeeded) {
  HttpClient client;
  const std::string request = limit(kBody, "Expect: 100-continue\r\n");
  const size_t head = request.size() - kBody.size();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(client.send(request.substr(0, head - 1)), "");
    EXPECT_EQ(client.send(request.substr(head - 1, 1)), "HTTP/1.1 100 Continue\r\n\r\n");
    EXPECT_EQ(client.send(request.substr(head, 5)), "");
    EXPECT_THAT(client.send(request.substr(head + 5)), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
  EXPECT_THAT(client.send(request), StartsWith("HTTP/1.1 200 OK\r\n"));
  const std::string chunked =
      "POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + std::string(kKey) +
      "\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n";
  EXPECT_EQ(client.send(chunked), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_THAT(client.send("0\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
}

TEST(HttpSession, AcceptsAChunkedBody) {
  HttpClient client;
  const std::string head =
      "POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
      "Authorization: Bearer " +
      std::string(kKey) + "\r\n\r\n";
  const std::string body = "10\r\n" + kBody.substr(0, 16) + "\r\n" + "1\r\n" + kBody.substr(16, 1) +
                           "\r\n" + "4d\r\n" + kBody.substr(17) + "\r\n0\r\n\r\n";
  ASSERT_EQ(kBody.size(), 17u + 0x4d);
  for (const size_t size : {size_t{1}, size_t{7}, head.size() + body.size()}) {
    HttpClient other;
    EXPECT_EQ(anonymous(other.line.send_in_pieces(head + body, size)),
              anonymous(HttpClient().send(limit())));
  }
  EXPECT_THAT(client.send(head + body + get("/healthz")), EndsWith("\r\n\r\nok\n"));
}

TEST(HttpSession, AnswersPipelinedRequestsInOrder) {
  HttpClient client;
  HttpClient one_by_one;
  const std::vector<std::string> requests{get("/healthz"), limit(), "\r\n\r\n" + limit(),
                                          get("/nowhere"), limit(), get("/readyz")};
  std::string all;
  std::string expected;
  for (const std::string& request : requests) {
    all += request;
    expected += anonymous(one_by_one.send(request));
  }
  EXPECT_EQ(anonymous(client.send(all)), expected);
  EXPECT_EQ(client.fixture.service.http.stats.total(FrontendStat::kRequests), 6u);
}

TEST(HttpSession, PausesAtTheLimitOfUnsentBytesAndLosesNoResponse) {
  HttpClient client;
  client.send(limit());
  const size_t each = client.send(get("/metrics")).size();
  const size_t count = 2 * kMaxUnsent / each;
  std::string all;
  for (size_t i = 0; i < count; ++i) all += get("/metrics");
  client.line.in.append(all);
  EXPECT_EQ(client.session.process(client.fixture.clock.now(), client.line.in, client.line.out),
            Next::kAgain);
  EXPECT_GT(client.line.out.size(), kMaxUnsent);
  EXPECT_LT(client.line.out.size(), kMaxUnsent + 2 * each);
  client.send("");
  EXPECT_EQ(client.fixture.service.http.stats.total(FrontendStat::kRequests), count + 2);
}

TEST(HttpSession, SendsADateHeader) {
  HttpClient client;
  client.fixture.clock.advance(Millis(999));
  EXPECT_THAT(client.send(get("/healthz")),
              HasSubstr("\r\nDate: Tue, 14 Nov 2023 22:00:00 GMT\r\n"));
  client.fixture.clock.advance(Millis(1));
  EXPECT_THAT(client.send(get("/healthz")),
              HasSubstr("\r\nDate: Tue, 14 Nov 2023 22:00:01 GMT\r\n"));
  client.fixture.clock.step_wall(Millis(int64_t{107} * 86'400'000 - 1000));
  EXPECT_THAT(client.send(get("/healthz")),
              HasSubstr("\r\nDate: Thu, 29 Feb 2024 22:00:00 GMT\r\n"));
}

TEST(HttpSession, GivesEachRequestAnotherId) {
  HttpClient client;
  const std::string received = client.send(limit() + limit() + get("/nowhere"));
  const std::regex name("req_[0-9a-z]{24}");
  std::vector<std::string> names;
  for (auto i = std::sregex_iterator(received.begin(), received.end(), name);
       i != std::sregex_iterator(); ++i) {
    names.push_back(i->str());
  }
  ASSERT_EQ(names.size(), 3u);
  EXPECT_NE(names[0], names[1]);
  EXPECT_NE(names[1], names[2]);
}

TEST(HttpSession, AnswersTheSameForAnySplitOfTheInput) {
  const std::string request = get("/healthz") + "\r\n" + limit() + get("/nowhere") +
                              get("/healthz", "Transfer-Encoding: chunked\r\n") +
                              "3;x\r\nabc\r\n0\r\n\r\n" + get("/readyz", "Connection: close\r\n") +
                              get("/healthz");
  HttpClient whole;
  const std::string expected = whole.send(request);
  ASSERT_EQ(whole.line.next, Next::kClose);
  for (size_t cut = 1; cut < request.size(); ++cut) {
    HttpClient split;
    std::string received = split.send(request.substr(0, cut));
    if (split.line.next != Next::kClose) received += split.send(request.substr(cut));
    EXPECT_EQ(received, expected) << cut;
  }
  for (const size_t size : {1, 3, 64}) {
    HttpClient slow;
    EXPECT_EQ(slow.line.send_in_pieces(request, size), expected) << size;
  }
}

TEST(HttpSession, SharesItsScratchWithSessionsOfIncompleteRequests) {
  Fixture fixture;
  HttpScratch scratch(1);
  HttpSession first(fixture.service, scratch);
  HttpSession second(fixture.service, scratch);
  TestConnection one{fixture, first};
  TestConnection two{fixture, second};
  const std::string request = limit();
  EXPECT_EQ(one.send(request.substr(0, request.size() - 3)), "");
  EXPECT_THAT(two.send(get("/nowhere") + limit("{}")), HasSubstr("several problems"));
  EXPECT_THAT(one.send(request.substr(request.size() - 3)), HasSubstr(R"("remaining":1)"));
}

TEST(HttpSession, EndsARootKeyThatIsReplacedOnAnOpenConnection) {
  HttpClient client;
  EXPECT_THAT(client.send(limit()), StartsWith("HTTP/1.1 200"));
  client.fixture.keys.replace(rules::hash_of("weir_root_that_replaces_the_first"));
  EXPECT_THAT(client.send(limit()), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(client.send(post("/v2/ratelimit.listNamespaces", "{}")), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(client.send(get("/v1/check/x", "X-Weir-Key: " + std::string(kKey) + "\r\n")),
              StartsWith("HTTP/1.1 401"));
  client.fixture.keys.replace(rules::hash_of(kKey));
  EXPECT_THAT(client.send(limit()), StartsWith("HTTP/1.1 200"));
}

TEST(HttpSession, EndsAKeyOfTheCatalogOnAnOpenConnection) {
  auto store = std::make_unique<MemoryCatalog>();
  MemoryCatalog& database = *store;
  Fixture fixture({}, std::move(store));
  HttpScratch scratch{1};
  const catalog::Author author{.actor = "root", .now = fixture.clock.now().wall};
  const auto made = [&](uint64_t seed, std::optional<WallTime> expires) {
    auto key = catalog::create_key(author,
                                   {.workspace = catalog::kDefaultWorkspace,
                                    .name = "k",
                                    .permissions = {"ratelimit.*.*"},
                                    .expires = expires},
                                   {seed, seed, seed});
    EXPECT_TRUE(database.write({&key.write, 1}));
    return key;
  };
  const catalog::NewKey revoked = made(1, {});
  const catalog::NewKey expires = made(2, author.now + Millis(1000));
  EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
  HttpSession first(fixture.service, scratch);
  HttpSession second(fixture.service, scratch);
  TestConnection one{fixture, first};
  TestConnection two{fixture, second};
  const auto with = [](const std::string& key) {
    return std::regex_replace(limit(), std::regex(std::string(kKey)), key);
  };
  EXPECT_THAT(one.send(with(revoked.secret)), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(two.send(with(expires.secret)), StartsWith("HTTP/1.1 200"));
  const auto end = catalog::revoke_key(author, revoked.key);
  EXPECT_TRUE(database.write({&end, 1}));
  EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
  EXPECT_THAT(one.send(with(revoked.secret)), StartsWith("HTTP/1.1 401"));
  fixture.clock.advance(Millis(999));
  EXPECT_THAT(two.send(with(expires.secret)), StartsWith("HTTP/1.1 200"));
  fixture.clock.advance(Millis(1));
  EXPECT_THAT(two.send(with(expires.secret)), StartsWith("HTTP/1.1 401"));
}

TEST(HttpSession, DescribesTheLongestWaitOfABatchInTheHeaders) {
  HttpClient client;
  const auto item = [](const std::string& identifier, const std::string& duration, int limit) {
    return R"({"namespace":"api","identifier":")" + identifier + R"(","limit":)" +
           std::to_string(limit) + R"(,"duration":)" + duration + R"(,"algorithm":"fixed_window"})";
  };
  const std::string brief = item("brief", "1000", 1);
  const std::string hour = item("hour", "3600000", 1);
  const std::string many = "[" + brief + "," + hour + "," + item("other", "1000", 1) + "]";
  EXPECT_THAT(client.send(post("/v2/ratelimit.multiLimit", many)), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(client.send(post("/v2/ratelimit.multiLimit", many)),
              HasSubstr("RateLimit-Policy: \"default\";q=1;w=3600\r\nRateLimit: "
                        "\"default\";r=0;t=3600\r\nRetry-After: 3600\r\n"));
  EXPECT_THAT(client.send(post("/v2/ratelimit.multiLimit", many,
                               "Prefer: status=429\r\nAccept: application/problem+json\r\n")),
              HasSubstr("Retry-After: 3600\r\n"));
}

TEST(HttpSession, AnswersWithValidJsonWhateverANameContains) {
  auto store = std::make_unique<MemoryCatalog>();
  MemoryCatalog& database = *store;
  Fixture fixture({}, std::move(store));
  const catalog::Author author{.actor = "root", .now = fixture.clock.now().wall};
  const auto ns = catalog::new_namespace(catalog::kDefaultWorkspace, "\xff\xfe", author.now);
  const std::vector<catalog::CatalogWrite> writes{
      catalog::set_namespace(author, ns, "namespace.create"),
      catalog::set_override(author, ns,
                            {.identifier = "a\x80*", .limit = 1, .duration = Millis(1000)})};
  EXPECT_TRUE(database.write(writes));
  EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
  HttpScratch scratch{1};
  HttpSession session(fixture.service, scratch);
  TestConnection line{fixture, session};
  EXPECT_THAT(line.send(post("/v2/ratelimit.listNamespaces", "{}")),
              HasSubstr(R"("name":"\ufffd\ufffd")"));
  EXPECT_THAT(line.send(post("/v2/ratelimit.listOverrides", R"({"namespace":")" + ns.id + R"("})")),
              HasSubstr(R"("identifier":"a\ufffd*")"));
}

}  // namespace
}  // namespace weir::frontends
