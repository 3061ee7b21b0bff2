// Strangers cannot make the process grow: large logs through each front end stay within the byte
// budget, are answered, and say that they were decided on less.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "frontends/front_test.h"
#include "frontends/http/http_session.h"
#include "frontends/resp/encoded_test.h"
#include "frontends/resp/resp_session.h"
#include "tests/effort.h"

namespace weir::frontends {
namespace {

using testing::HasSubstr;

constexpr int kStrangers = 3000;

uint64_t resident_kibibytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  statm >> size >> resident;
  return resident * 4;
}

// Asks by one front end for as many logs of 10,000 units as would take 393 MB.
template <typename Ask>
void expect_bounded(Front& front, const Ask& ask) {
  const uint64_t before = resident_kibibytes();
  const uint64_t limit = front.limiter.stats().memory.limit;
  int degraded = 0;
  for (int i = 0; i < kStrangers; ++i) {
    const std::string answer = ask("stranger-" + std::to_string(i));
    ASSERT_THAT(answer, HasSubstr("success"));
    degraded += answer.find("degraded") != std::string::npos ? 1 : 0;
    ASSERT_LE(front.limiter.stats().memory.used(), limit);
  }
  EXPECT_EQ(degraded + front.limiter.stats().tuples, static_cast<uint64_t>(kStrangers));
  EXPECT_GT(degraded, kStrangers - 100);
  const uint64_t after = resident_kibibytes();
  const uint64_t grown = after - std::min(before, after);
  EXPECT_LE(grown, limit / 1024 + (kSanitized ? 200u : 32u) * 1024);
}

TEST(MemoryBound, HoldsForLogsAskedForOverTheRedisProtocolWithoutAKey) {
  Front front;
  RespDesk desk;
  RespSession session(front.service, desk, 7);
  Line line{front, session};
  expect_bounded(front, [&](const std::string& who) {
    return line.say(
        encoded({"WEIR.LIMIT", "api", who, "10000", "60000", "ALGORITHM", "sliding_log"}));
  });
}

TEST(MemoryBound, HoldsForLogsAskedForOverHttp) {
  Front front;
  HttpDesk desk(1);
  HttpSession session(front.service, desk);
  Line line{front, session};
  expect_bounded(front, [&](const std::string& who) {
    const std::string body = R"({"namespace":"api","identifier":")" + who +
                             R"(","limit":10000,"duration":60000,"algorithm":"sliding_log"})";
    return line.say("POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " +
                    std::string(kKey) + "\r\nContent-Length: " + std::to_string(body.size()) +
                    "\r\n\r\n" + body);
  });
}

}  // namespace
}  // namespace weir::frontends
