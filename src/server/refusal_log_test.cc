#include "server/refusal_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::server {
namespace {

using telemetry::FrontendStat;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kPeer = uint64_t{0xffff} << 48 | 0xcb007107;

TEST(RefusalLog, ReportsTheFirstWrongKeyAtOnceAndLaterOnesTogether) {
  telemetry::FrontendMetrics http;
  telemetry::FrontendMetrics resp;
  RefusalLog log(http, resp);
  const MonoTime start{};
  EXPECT_THAT(log.run_once(start), IsEmpty());
  resp.add_from(FrontendStat::kWrongKey, kPeer);
  EXPECT_THAT(log.run_once(start),
              ElementsAre("weir: resp: requests with a wrong key: 1, the last from 203.0.113.7"));
  for (int i = 0; i < 1000; ++i) resp.add_from(FrontendStat::kWrongKey, kPeer + 1);
  EXPECT_THAT(log.run_once(start + RefusalLog::kMinInterval - Nanos(1)), IsEmpty());
  EXPECT_THAT(
      log.run_once(start + RefusalLog::kMinInterval),
      ElementsAre("weir: resp: requests with a wrong key: 1000, the last from 203.0.113.8"));
  EXPECT_THAT(log.run_once(start + 3 * RefusalLog::kMinInterval), IsEmpty());
}

TEST(RefusalLog, DistinguishesFrontendsAndReasons) {
  telemetry::FrontendMetrics http;
  telemetry::FrontendMetrics resp;
  RefusalLog log(http, resp);
  http.add_from(FrontendStat::kWrongKey, kPeer);
  resp.add_from(FrontendStat::kCrossProtocol, kPeer);
  resp.add_from(FrontendStat::kUnsupported, kPeer);
  resp.stats.add(FrontendStat::kRefusedMemory, 2);
  http.stats.add(FrontendStat::kMissingKey);  // is not logged
  EXPECT_THAT(
      log.run_once(MonoTime{}),
      ElementsAre("weir: http: requests with a wrong key: 1, the last from 203.0.113.7",
                  "weir: resp: connections closed: HTTP on the Redis protocol port: 1, the last "
                  "from 203.0.113.7",
                  "weir: resp: requests for what Weir does not do, like other commands and scripts "
                  "of Redis (use CL.THROTTLE, GCRA or WEIR.LIMIT) or paths of other APIs (see "
                  "/openapi.json): 1, the last from 203.0.113.7",
                  "weir: resp: connections closed: connection-memory used up: 2"));
}

}  // namespace
}  // namespace weir::server
