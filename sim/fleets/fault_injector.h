// Injects the faults of a scenario into a fleet. Random faults are drawn before the run; each fault
// begins and ends at its time.

#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/fleets/fleet.h"
#include "sim/scenario/scenario.h"

namespace weir::sim {

// Belongs to the fleet's timeline. Must not outlive the fleet.
class FaultInjector {
 public:
  FaultInjector(const Scenario& scenario, Fleet& fleet);

  // Ends all faults and starts every node.
  void stop_faults();

  [[nodiscard]] const std::vector<FaultPlan>& all() const { return faults_; }
  // Whether no fault, and no recovery from one, overlaps this time.
  [[nodiscard]] bool is_unaffected(WallTime from, WallTime to) const;

 private:
  void draw(const Scenario& scenario, const FaultRate& rate);
  void schedule(size_t fault);
  void begin(size_t fault);
  void end(size_t fault);
  void apply_once(const FaultPlan& fault);
  void update_links();
  void set(Node& node);
  [[nodiscard]] bool matches(const FaultPlan& fault, const Node& node) const;
  void for_each_matching_node(const FaultPlan& fault, const std::function<void(Node&)>& visit);
  void for_each_matching_region(const FaultPlan& fault, const std::function<void(uint32_t)>& visit);

  Fleet& fleet_;
  const WallTime began_;
  Random random_;
  std::vector<FaultPlan> faults_;
  std::vector<bool> active_;
  bool calm_ = false;
};

}  // namespace weir::sim
