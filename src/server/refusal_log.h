// Log lines about refused clients: wrong keys, HTTP on the Redis protocol port, what
// only other services do, failed TLS handshakes, connections above a limit. The number of lines
// does not depend on the number of clients.
//
// One thread at a time.

#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/frontend_metrics.h"
#include "weir/time.h"

namespace weir::server {

class RefusalLog {
 public:
  // Between two lines of the same kind and front end.
  static constexpr Nanos kMinInterval = std::chrono::seconds(10);

  RefusalLog(const telemetry::FrontendMetrics& http, const telemetry::FrontendMetrics& resp)
      : frontends_{Frontend{"http", http}, Frontend{"resp", resp}} {}

  // The lines that are due now.
  [[nodiscard]] std::vector<std::string> run_once(MonoTime now);

 private:
  static constexpr size_t kKinds = 9;
  struct Reported {
    uint64_t total = 0;
    MonoTime when{};
    bool ever = false;
  };
  struct Frontend {
    std::string_view name;
    const telemetry::FrontendMetrics& metrics;
    std::array<Reported, kKinds> reported{};
  };
  std::array<Frontend, 2> frontends_;
};

}  // namespace weir::server
