#include "server/stranger_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::server {
namespace {

using telemetry::FrontendStat;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kPeer = uint64_t{0xffff} << 48 | 0xcb007107;

TEST(StrangerLog, TellsTheFirstWrongKeyAtOnceAndMoreOfThemTogether) {
  telemetry::FrontendMetrics http;
  telemetry::FrontendMetrics resp;
  StrangerLog log(http, resp);
  const MonoTime start{};
  EXPECT_THAT(log.run_once(start), IsEmpty());
  resp.add_from(FrontendStat::kWrongKey, kPeer);
  EXPECT_THAT(log.run_once(start),
              ElementsAre("weir: resp: requests with a wrong key: 1, the last from 203.0.113.7"));
  for (int i = 0; i < 1000; ++i) resp.add_from(FrontendStat::kWrongKey, kPeer + 1);
  EXPECT_THAT(log.run_once(start + StrangerLog::kBetweenLines - Nanos(1)), IsEmpty());
  EXPECT_THAT(
      log.run_once(start + StrangerLog::kBetweenLines),
      ElementsAre("weir: resp: requests with a wrong key: 1000, the last from 203.0.113.8"));
  EXPECT_THAT(log.run_once(start + 3 * StrangerLog::kBetweenLines), IsEmpty());
}

TEST(StrangerLog, TellsFrontEndsAndReasonsApart) {
  telemetry::FrontendMetrics http;
  telemetry::FrontendMetrics resp;
  StrangerLog log(http, resp);
  http.add_from(FrontendStat::kWrongKey, kPeer);
  resp.add_from(FrontendStat::kCrossProtocol, kPeer);
  resp.stats.add(FrontendStat::kRefusedMemory, 2);
  http.stats.add(FrontendStat::kMissingKey);  // for the metrics alone
  EXPECT_THAT(
      log.run_once(MonoTime{}),
      ElementsAre(
          "weir: http: requests with a wrong key: 1, the last from 203.0.113.7",
          "weir: resp: connections closed that sent HTTP to the Redis protocol: 1, the last "
          "from 203.0.113.7",
          "weir: resp: connections closed, no connection-memory left: 2"));
}

}  // namespace
}  // namespace weir::server
