// One factory per checker; all_region_checkers() and all_global_checkers() call them.

#pragma once

#include <memory>

#include "sim/checkers/global_checker.h"
#include "sim/checkers/region_checker.h"

namespace weir::sim {

std::unique_ptr<RegionChecker> make_counts_never_decrease();
std::unique_ptr<RegionChecker> make_no_invented_counts();
std::unique_ptr<RegionChecker> make_one_writer();
std::unique_ptr<RegionChecker> make_consistent_verdicts();
std::unique_ptr<RegionChecker> make_fresh_enough();
std::unique_ptr<RegionChecker> make_window_identity();
std::unique_ptr<RegionChecker> make_regional_bound();
std::unique_ptr<RegionChecker> make_idempotent_replay();
std::unique_ptr<RegionChecker> make_acked_in_time();
std::unique_ptr<RegionChecker> make_conservation();
std::unique_ptr<RegionChecker> make_agreement();
std::unique_ptr<RegionChecker> make_local_algorithms();
std::unique_ptr<RegionChecker> make_changed_settings();
std::unique_ptr<RegionChecker> make_answered_in_time();

std::unique_ptr<GlobalChecker> make_global_bound();
std::unique_ptr<GlobalChecker> make_global_burst_bound();
std::unique_ptr<GlobalChecker> make_exported_bound();
std::unique_ptr<GlobalChecker> make_no_invented_foreign_counts();
std::unique_ptr<GlobalChecker> make_publish_rule();
std::unique_ptr<GlobalChecker> make_durability_order();
std::unique_ptr<GlobalChecker> make_agreement_across_regions();
std::unique_ptr<GlobalChecker> make_row_cost();
std::unique_ptr<GlobalChecker> make_published_in_time();
std::unique_ptr<GlobalChecker> make_published_never_decreases();
std::unique_ptr<GlobalChecker> make_imports_are_used();

}  // namespace weir::sim
