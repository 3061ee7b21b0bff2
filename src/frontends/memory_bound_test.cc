// Unauthenticated clients cannot make the process grow: large logs through each front end stay
// within the memory limit, are answered, and report a degraded basis.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "frontends/fixture_test.h"
#include "frontends/http/http_session.h"
#include "frontends/resp/encoded_test.h"
#include "frontends/resp/resp_session.h"
#include "tests/effort.h"

namespace weir::frontends {
namespace {

using testing::HasSubstr;

constexpr int kClients = 3000;

uint64_t resident_kibibytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  statm >> size >> resident;
  return resident * 4;
}

// Requests logs of 10,000 units through one front end; all of them would need 393 MB.
template <typename Send>
void expect_bounded(Fixture& fixture, const Send& send) {
  const uint64_t before = resident_kibibytes();
  const uint64_t limit = fixture.limiter.stats().memory.limit;
  int degraded = 0;
  for (int i = 0; i < kClients; ++i) {
    const std::string answer = send("client-" + std::to_string(i));
    ASSERT_THAT(answer, HasSubstr("success"));
    degraded += answer.find("degraded") != std::string::npos ? 1 : 0;
    ASSERT_LE(fixture.limiter.stats().memory.used(), limit);
  }
  EXPECT_EQ(degraded + fixture.limiter.stats().tuples, static_cast<uint64_t>(kClients));
  EXPECT_GT(degraded, kClients - 100);
  const uint64_t after = resident_kibibytes();
  const uint64_t grown = after - std::min(before, after);
  EXPECT_LE(grown, limit / 1024 + (kSanitized ? 200u : 32u) * 1024);
}

TEST(MemoryBound, HoldsForLogsOverTheRedisProtocolWithoutAKey) {
  Fixture fixture;
  RespScratch scratch;
  RespSession session(fixture.service, scratch, 7);
  TestConnection line{fixture, session};
  expect_bounded(fixture, [&](const std::string& identifier) {
    return line.send(
        encoded({"WEIR.LIMIT", "api", identifier, "10000", "60000", "ALGORITHM", "sliding_log"}));
  });
}

TEST(MemoryBound, HoldsForLogsOverHttp) {
  Fixture fixture;
  HttpScratch scratch(1);
  HttpSession session(fixture.service, scratch);
  TestConnection line{fixture, session};
  expect_bounded(fixture, [&](const std::string& identifier) {
    const std::string body = R"({"namespace":"api","identifier":")" + identifier +
                             R"(","limit":10000,"duration":60000,"algorithm":"sliding_log"})";
    return line.send("POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " +
                     std::string(kKey) + "\r\nContent-Length: " + std::to_string(body.size()) +
                     "\r\n\r\n" + body);
  });
}

}  // namespace
}  // namespace weir::frontends
