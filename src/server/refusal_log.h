// Lines for the log about clients that should not be there: wrong keys, other protocols,
// connections for which there is no place. As many lines as that, however many clients.
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
  // One line about the same thing and the same front end in so long.
  static constexpr Nanos kMinInterval = std::chrono::seconds(10);

  RefusalLog(const telemetry::FrontendMetrics& http, const telemetry::FrontendMetrics& resp)
      : frontends_{Frontend{"http", http}, Frontend{"resp", resp}} {}

  // What is to be said now.
  [[nodiscard]] std::vector<std::string> run_once(MonoTime now);

 private:
  static constexpr size_t kKinds = 5;
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
