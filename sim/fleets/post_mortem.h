// Tests whether a fleet keeps its guarantees: a cheap test at each answer, thorough ones at the
// end.
//
// FleetOptions::checks runs all checkers of a world after every event as well, but only small
// fleets can afford that.

#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "sim/fleets/fault_injector.h"
#include "sim/fleets/fleet.h"

namespace weir::sim {

// One thread at a time.
class PostMortem {
 public:
  explicit PostMortem(Fleet& fleet) : fleet_(fleet) {}

  // Tests whether the verdict follows from the counts that the node knew.
  void observe(const FleetAnswer& answer);

  // Reads from every node the counts of a sample of keys, once no count can be stale, and returns
  // the number of keys and regions in which two nodes disagree.
  [[nodiscard]] uint64_t count_disagreements();

  // Tests whether at each admission all regions together were within the bound, without recent
  // admissions; only cells that no fault affected.
  void check_bound(const FaultInjector& injector, double bound);

  // Takes over the first violation that a checker found.
  void add_violation() {
    if (!broken_) broken_ = fleet_.violation();
  }
  [[nodiscard]] const std::optional<std::string>& broken() const { return broken_; }
  [[nodiscard]] std::vector<std::string> last_events() const;

 private:
  struct Event {
    Millis when{0};
    size_t key = 0;
    uint32_t node = 0;
    Count cost = 0;
    Verdict verdict;
  };
  void report_violation(std::string what);
  [[nodiscard]] std::string named(size_t key) const;

  Fleet& fleet_;
  std::deque<Event> last_;
  std::optional<std::string> broken_;
};

}  // namespace weir::sim
