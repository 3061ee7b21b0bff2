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

class StrangerLog {
 public:
  // One line about the same thing and the same front end in so long.
  static constexpr Nanos kBetweenLines = std::chrono::seconds(10);

  StrangerLog(const telemetry::FrontendMetrics& http, const telemetry::FrontendMetrics& resp)
      : doors_{Door{"http", http}, Door{"resp", resp}} {}

  // What is to be said now.
  [[nodiscard]] std::vector<std::string> run_once(MonoTime now);

 private:
  static constexpr size_t kKinds = 5;
  struct Said {
    uint64_t total = 0;
    MonoTime when{};
    bool ever = false;
  };
  struct Door {
    std::string_view name;
    const telemetry::FrontendMetrics& metrics;
    std::array<Said, kKinds> said{};
  };
  std::array<Door, 2> doors_;
};

}  // namespace weir::server
