#include "sim/nodes/node.h"

namespace weir::sim {
namespace {

LinkBug link_bug_of(PlantedBug bug) {
  switch (bug) {
    case PlantedBug::kFalseReplayAcks: return LinkBug::kFalseAcks;
    case PlantedBug::kErrorsReadAsEmpty: return LinkBug::kErrorsAsEmpty;
    case PlantedBug::kReconnectsHidden: return LinkBug::kHidesReconnects;
    default: return LinkBug::kNone;
  }
}

LedgerBug ledger_bug_of(PlantedBug bug) {
  switch (bug) {
    case PlantedBug::kForeignPublished: return LedgerBug::kAddsForeign;
    case PlantedBug::kOwnRowAsForeign: return LedgerBug::kOwnAsForeign;
    case PlantedBug::kChangesSummed: return LedgerBug::kSumsChanges;
    case PlantedBug::kLeaseEndIgnored: return LedgerBug::kIgnoresLeaseEnd;
    case PlantedBug::kRegionsUnderestimated: return LedgerBug::kHidesRegions;
    case PlantedBug::kLimitsNotReceived: return LedgerBug::kHidesLimits;
    case PlantedBug::kFalseRowAcks: return LedgerBug::kFalseAcks;
    case PlantedBug::kChangesDropped: return LedgerBug::kDropsChanges;
    case PlantedBug::kLeasesShortened: return LedgerBug::kShortensLeases;
    default: return LedgerBug::kNone;
  }
}

}  // namespace

void stop_process(Node& node) {
  node.executor->end();
  node.link->abandon();
  if (node.ledger) node.ledger->abandon();
  node.engine = nullptr;
  node.process = nullptr;
  node.is_bridge = false;
  node.paused_until = {};
  node.touched = true;
}

void pause_process(Node& node, MonoTime until) {
  node.paused_until = until;
  node.executor->pause_until(until);
  node.link->pause_until(until);
  if (node.ledger) node.ledger->pause_until(until);
}

void plant_in_links(PlantedBug bug, Node& node) {
  node.link->bug = link_bug_of(bug);
  if (node.ledger) node.ledger->bug = ledger_bug_of(bug);
}

}  // namespace weir::sim
