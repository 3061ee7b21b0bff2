#include "server/refusal_log.h"

#include <fmt/format.h>

#include "frontends/peer.h"

namespace weir::server {

using telemetry::FrontendStat;

std::vector<std::string> RefusalLog::run_once(MonoTime now) {
  struct Kind {
    FrontendStat stat;
    std::string_view text;
    bool has_peer;
  };
  static constexpr Kind kAll[] = {
      {FrontendStat::kWrongKey, "requests with a wrong key", true},
      {FrontendStat::kCrossProtocol, "connections closed: HTTP on the Redis protocol port", true},
      {FrontendStat::kUnsupported,
       "requests for what Weir does not do, like other commands and scripts of Redis (use "
       "CL.THROTTLE, GCRA or WEIR.LIMIT) or paths of other APIs (see /openapi.json)",
       true},
      {FrontendStat::kTlsNotTls, "TLS handshakes failed: plain text on the TLS port", true},
      {FrontendStat::kTlsCertificate,
       "TLS handshakes failed: no client certificate that tls-client-ca has signed", true},
      {FrontendStat::kTlsOther, "TLS handshakes failed", true},
      {FrontendStat::kRefused, "connections refused: max-connections reached", true},
      {FrontendStat::kRefusedAddress, "connections refused: max-connections-per-address reached",
       true},
      {FrontendStat::kRefusedMemory, "connections closed: connection-memory used up", false}};
  static_assert(std::size(kAll) == kKinds);
  std::vector<std::string> lines;
  for (Frontend& frontend : frontends_) {
    for (size_t i = 0; i < kKinds; ++i) {
      Reported& reported = frontend.reported[i];
      const Kind& kind = kAll[i];
      const uint64_t total = frontend.metrics.stats.total(kind.stat);
      if (total == reported.total || (reported.ever && now - reported.when < kMinInterval))
        continue;
      std::string line =
          fmt::format("weir: {}: {}: {}", frontend.name, kind.text, total - reported.total);
      if (kind.has_peer) {
        const auto& peer = frontend.metrics.last_peer[static_cast<size_t>(kind.stat)];
        line += fmt::format(", the last from {}",
                            frontends::peer_text(peer.load(std::memory_order_relaxed)));
      }
      if (kind.stat == FrontendStat::kTlsOther || kind.stat == FrontendStat::kTlsCertificate) {
        line +=
            fmt::format(" ({})", frontend.metrics.last_tls_error.load(std::memory_order_relaxed));
      }
      lines.push_back(std::move(line));
      reported = {.total = total, .when = now, .ever = true};
    }
  }
  return lines;
}

}  // namespace weir::server
