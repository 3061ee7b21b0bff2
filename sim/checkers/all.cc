#include "sim/checkers/makers.h"

namespace weir::sim {

std::vector<std::unique_ptr<Checker>> all_checkers() {
  std::vector<std::unique_ptr<Checker>> all;
  all.push_back(make_parts_never_fall());
  all.push_back(make_nobody_invents());
  all.push_back(make_one_writer());
  all.push_back(make_honest_verdicts());
  all.push_back(make_fresh_enough());
  all.push_back(make_window_identity());
  all.push_back(make_regional_bound());
  all.push_back(make_retrying_is_free());
  all.push_back(make_acked_in_time());
  all.push_back(make_conservation());
  all.push_back(make_agreement());
  all.push_back(make_local_algorithms());
  return all;
}

std::vector<std::unique_ptr<FleetChecker>> all_fleet_checkers() {
  std::vector<std::unique_ptr<FleetChecker>> all;
  all.push_back(make_nobody_invents_abroad());
  all.push_back(make_durability_order());
  all.push_back(make_published_never_falls());
  all.push_back(make_publish_discipline());
  all.push_back(make_published_in_time());
  all.push_back(make_received_is_used());
  all.push_back(make_global_bound());
  all.push_back(make_exported_bound());
  all.push_back(make_agreement_abroad());
  all.push_back(make_few_rows());
  return all;
}

}  // namespace weir::sim
