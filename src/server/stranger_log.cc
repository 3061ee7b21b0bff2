#include "server/stranger_log.h"

#include <fmt/format.h>

#include "frontends/peer.h"

namespace weir::server {

using telemetry::FrontendStat;

std::vector<std::string> StrangerLog::run_once(MonoTime now) {
  struct Kind {
    FrontendStat stat;
    std::string_view text;
    bool has_peer;
  };
  static constexpr Kind kAll[] = {
      {FrontendStat::kWrongKey, "requests with a wrong key", true},
      {FrontendStat::kCrossProtocol, "connections closed that sent HTTP to the Redis protocol",
       true},
      {FrontendStat::kRefused, "connections refused, more than max-connections", true},
      {FrontendStat::kRefusedAddress, "connections refused, more than max-connections-per-address",
       true},
      {FrontendStat::kRefusedMemory, "connections closed, no connection-memory left", false}};
  static_assert(std::size(kAll) == kKinds);
  std::vector<std::string> lines;
  for (Door& door : doors_) {
    for (size_t i = 0; i < kKinds; ++i) {
      Said& said = door.said[i];
      const Kind& kind = kAll[i];
      const uint64_t total = door.metrics.stats.total(kind.stat);
      if (total == said.total || (said.ever && now - said.when < kBetweenLines)) continue;
      std::string line = fmt::format("weir: {}: {}: {}", door.name, kind.text, total - said.total);
      if (kind.has_peer) {
        const auto& peer = door.metrics.last_peer[static_cast<size_t>(kind.stat)];
        line += fmt::format(", the last from {}",
                            frontends::peer_text(peer.load(std::memory_order_relaxed)));
      }
      lines.push_back(std::move(line));
      said = {.total = total, .when = now, .ever = true};
    }
  }
  return lines;
}

}  // namespace weir::server
