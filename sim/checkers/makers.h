// One maker per checker; all_checkers() calls them all.

#pragma once

#include <memory>

#include "sim/checker.h"
#include "sim/fleet_checker.h"

namespace weir::sim {

std::unique_ptr<Checker> make_parts_never_fall();
std::unique_ptr<Checker> make_nobody_invents();
std::unique_ptr<Checker> make_one_writer();
std::unique_ptr<Checker> make_honest_verdicts();
std::unique_ptr<Checker> make_fresh_enough();
std::unique_ptr<Checker> make_window_identity();
std::unique_ptr<Checker> make_regional_bound();
std::unique_ptr<Checker> make_retrying_is_free();
std::unique_ptr<Checker> make_acked_in_time();
std::unique_ptr<Checker> make_conservation();
std::unique_ptr<Checker> make_agreement();
std::unique_ptr<Checker> make_local_algorithms();

std::unique_ptr<FleetChecker> make_global_bound();
std::unique_ptr<FleetChecker> make_exported_bound();
std::unique_ptr<FleetChecker> make_nobody_invents_abroad();
std::unique_ptr<FleetChecker> make_publish_discipline();
std::unique_ptr<FleetChecker> make_durability_order();
std::unique_ptr<FleetChecker> make_agreement_abroad();
std::unique_ptr<FleetChecker> make_few_rows();
std::unique_ptr<FleetChecker> make_published_in_time();
std::unique_ptr<FleetChecker> make_published_never_falls();
std::unique_ptr<FleetChecker> make_received_is_used();

}  // namespace weir::sim
