#include "sim/checkers/makers.h"

namespace weir::sim {

std::vector<std::unique_ptr<RegionChecker>> all_region_checkers() {
  std::vector<std::unique_ptr<RegionChecker>> all;
  all.push_back(make_counts_never_decrease());
  all.push_back(make_no_invented_counts());
  all.push_back(make_one_writer());
  all.push_back(make_consistent_verdicts());
  all.push_back(make_fresh_enough());
  all.push_back(make_window_identity());
  all.push_back(make_regional_bound());
  all.push_back(make_idempotent_replay());
  all.push_back(make_acked_in_time());
  all.push_back(make_conservation());
  all.push_back(make_agreement());
  all.push_back(make_local_algorithms());
  all.push_back(make_changed_settings());
  all.push_back(make_answered_in_time());
  return all;
}

std::vector<std::unique_ptr<RegionChecker>> region_checkers_without_origin() {
  std::vector<std::unique_ptr<RegionChecker>> some;
  some.push_back(make_counts_never_decrease());
  some.push_back(make_no_invented_counts());
  some.push_back(make_consistent_verdicts());
  some.push_back(make_window_identity());
  some.push_back(make_local_algorithms());
  some.push_back(make_changed_settings());
  return some;
}

std::vector<std::unique_ptr<GlobalChecker>> all_global_checkers() {
  std::vector<std::unique_ptr<GlobalChecker>> all;
  all.push_back(make_no_invented_foreign_counts());
  all.push_back(make_durability_order());
  all.push_back(make_published_never_decreases());
  all.push_back(make_publish_rule());
  all.push_back(make_published_in_time());
  all.push_back(make_imports_are_used());
  all.push_back(make_global_bound());
  all.push_back(make_global_burst_bound());
  all.push_back(make_exported_bound());
  all.push_back(make_agreement_across_regions());
  all.push_back(make_row_cost());
  return all;
}

}  // namespace weir::sim
