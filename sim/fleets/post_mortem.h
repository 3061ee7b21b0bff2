// Looks whether a fleet keeps what it promises: cheaply at each answer, thoroughly at the end.
//
// A world (sim/world.h) is looked at after every event by many more checkers; a fleet is too large
// for that.

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

  // Whether what the node knew fits what it answered.
  void observe(const FleetAnswer& answer);

  // Asks every node for what it knows of a number of keys, once what they know can no more be
  // old, and counts the keys and regions in which two differ.
  [[nodiscard]] uint64_t count_disagreements();

  // At each admission all regions together were within the bound, what is recent aside; of cells
  // that no fault came near.
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
