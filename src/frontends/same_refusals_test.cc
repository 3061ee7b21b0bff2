// Both front ends refuse the same requests, with the same field and range.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "frontends/fixture_test.h"
#include "frontends/http/http_session.h"
#include "frontends/resp/encoded_test.h"
#include "frontends/resp/resp_session.h"

namespace weir::frontends {
namespace {

using testing::HasSubstr;

// A request for both front ends; numbers are text.
struct TestRequest {
  std::string limit = "10";
  std::string duration = "60000";
  std::vector<std::pair<std::string, std::string>> options{};

  [[nodiscard]] std::string over_http() const {
    Fixture fixture;
    HttpScratch scratch(1);
    HttpSession session(fixture.service, scratch);
    TestConnection line{fixture, session};
    std::string body =
        R"({"namespace":"api","identifier":"a","limit":)" + limit + R"(,"duration":)" + duration;
    for (const auto& [name, value] : options) {
      body += ",\"" + name + "\":" + (name == "algorithm" ? "\"" + value + "\"" : value);
    }
    body += "}";
    return line.send("POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " +
                     std::string(kKey) + "\r\nContent-Length: " + std::to_string(body.size()) +
                     "\r\n\r\n" + body);
  }

  [[nodiscard]] std::string over_resp() const {
    Fixture fixture;
    RespScratch scratch;
    RespSession session(fixture.service, scratch, 1);
    TestConnection line{fixture, session};
    std::vector<std::string> words{"WEIR.LIMIT", "api", "a", limit, duration};
    for (const auto& [name, value] : options) {
      words.push_back(name);
      words.push_back(value);
    }
    return line.send(encoded(words));
  }
};

void expect_refused(const TestRequest& request, const std::string& field, const std::string& why) {
  const std::string http = request.over_http();
  EXPECT_TRUE(http.starts_with("HTTP/1.1 400 ")) << http;
  EXPECT_THAT(http, HasSubstr("\"location\":\"body." + field));
  EXPECT_THAT(http, HasSubstr(why));
  const std::string resp = request.over_resp();
  EXPECT_TRUE(resp.starts_with("-ERR ")) << resp;
  EXPECT_THAT(resp, HasSubstr(why));
  std::string capitals = field;
  for (char& c : capitals) c = static_cast<char>(std::toupper(c));
  EXPECT_TRUE(resp.find(field) != resp.npos || resp.find(capitals) != resp.npos) << resp;
}

void expect_accepted(const TestRequest& request) {
  EXPECT_TRUE(request.over_http().starts_with("HTTP/1.1 200 ")) << request.over_http();
  EXPECT_TRUE(request.over_resp().starts_with("*12\r\n")) << request.over_resp();
}

TEST(BothFrontends, HaveTheSameBounds) {
  expect_accepted({.duration = "100"});
  expect_refused({.duration = "99"}, "duration", "a whole number from 100 to 2592000000");
  expect_accepted({.duration = "2592000000"});
  expect_refused({.duration = "2592000001"}, "duration", "a whole number from 100 to 2592000000");
  expect_accepted({.limit = "1000000000000"});
  for (const char* limit : {"0", "-1", "1000000000001"}) {
    expect_refused({.limit = limit}, "limit", "a whole number from 1 to 1000000000000");
  }
  expect_accepted({.options = {{"cost", "0"}}});
  for (const char* cost : {"-1", "1000000000001"}) {
    expect_refused({.options = {{"cost", cost}}}, "cost", "a whole number from 0 to 1000000000000");
  }
}

TEST(BothFrontends, RefuseTheSameOptions) {
  expect_accepted({.options = {{"algorithm", "gcra"}, {"burst", "20"}}});
  expect_refused({.options = {{"cost", "1"}, {"cost", "1"}}}, "cost", "is given twice");
  expect_refused({.options = {{"algorithm", "gcra"}, {"algorithm", "gcra"}}}, "algorithm",
                 "is given twice");
  expect_refused({.options = {{"algorithm", "gcra"}, {"burst", "2"}, {"burst", "3"}}}, "burst",
                 "is given twice");
  expect_refused({.options = {{"algorithm", "leaky"}}}, "algorithm", "leaky");
  expect_refused({.options = {{"burst", "20"}}}, "burst", "gcra");
  EXPECT_TRUE(TestRequest({.options = {{"price", "1"}}}).over_http().starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(TestRequest({.options = {{"price", "1"}}}).over_resp().starts_with("-ERR "));
}

}  // namespace
}  // namespace weir::frontends
