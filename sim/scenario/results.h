// The results of a scenario: figures, series over time, and data for plots.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/request.h"
#include "weir/time.h"

namespace weir::sim {

// One number. Scenarios and JSON name it by its key, whose meaning never changes.
struct Figure {
  std::string key;    // "worst_cell"
  std::string label;  // "worst cell, in limits"
  std::string unit;   // "", "/s", "ms", "%", "s"
  double value = 0;
  bool less_is_better = true;
};

// A value for each second of the measured time and the calm time after it.
struct Series {
  std::string key;    // "rows"
  std::string label;  // "ledger rows written per second"
  std::vector<double> values;
};

// The requested and admitted cost of one key in each second; regions are in the fleet's order.
struct Spotlight {
  std::string name;  // "api/user-0"
  Count limit = 0;
  Millis duration{0};
  std::vector<std::vector<uint32_t>> admitted;  // by region, by second
  std::vector<uint32_t> offered;                // by second
};

struct FaultSpan {
  std::string label;  // "the origin refuses, eu"
  double from = 0;    // seconds from the start of the measured time
  double to = 0;      // the same as `from`: an instant
};

// An expectation of the scenario, and whether it was met.
struct ExpectationResult {
  std::string expectation;  // "worst_cell <= 1.35"
  double actual = 0;
  bool met = false;
};

struct Results {
  std::string scenario = {};
  std::string about = {};
  std::string variant =
      {};  // the difference to the scenario as written: "settings.policy=floor"; or empty
  uint64_t seed = 0;
  uint64_t fingerprint = 0;
  uint64_t events = 0;
  double simulated_seconds = 0;
  double measured_seconds = 0;
  double took_seconds = 0;  // filled in by the caller
  double sync_seconds = 0;  // of those, CPU time of sharing in all nodes during the measured time
  std::vector<std::string> regions = {};
  uint32_t nodes = 0;
  uint64_t keys = 0;

  std::vector<Figure> figures = {};  // in display order
  std::vector<Series> series = {};
  std::vector<Spotlight> spotlights = {};
  std::vector<double> cell_shares =
      {};  // admitted cost in limits, of windows with requests for at least a limit
  std::vector<double> delays_ms =
      {};  // from an admission to its use in another region; a sample if there are many
  std::vector<FaultSpan> faults = {};
  std::vector<ExpectationResult> expectations = {};
  std::optional<std::string> broken = {};     // "invariant: text" of the first violation
  std::vector<std::string> last_events = {};  // before it

  [[nodiscard]] bool fine() const {
    if (broken) return false;
    for (const ExpectationResult& each : expectations) {
      if (!each.met) return false;
    }
    return true;
  }
  [[nodiscard]] std::optional<double> figure(std::string_view key) const {
    for (const Figure& each : figures) {
      if (each.key == key) return each.value;
    }
    return std::nullopt;
  }
};

}  // namespace weir::sim
