// Kinds of faults in a world. Each can be disabled, to find out whether a violation needs it.

#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string_view>

namespace weir::sim {

enum class WorldFault : uint8_t {
  kKills,
  kDrains,
  kIsolation,
  kDeadConnections,
  kOriginMessageLoss,  // between nodes and their origin; also repeated messages
  kOriginDataLoss,     // of everything, or of recent writes
  kOriginOutages,      // and slow replies
  kLedgerMessageLoss,  // between nodes and the ledger; also errors, lag and incomplete imports
  kLedgerOutages,
  kLedgerFailovers,  // recent rows are lost, or the clock of the ledger is set
  kFeedGaps,         // batches are missing from a feed
  kRejectedRows,
  kRowBudget,     // few rows per second are allowed
  kClockSteps,    // the clock of one node is set now and then
  kBridgeKills,   // the bridge of a region is killed at any step
  kBridgePauses,  // the bridge of a region does not run for longer than its lease
  kOriginEvicts,  // the origin evicts the counts of other regions on a tuple
  kCount,
};

inline constexpr std::array<std::string_view, static_cast<size_t>(WorldFault::kCount)>
    kWorldFaultNames{"kills",
                     "drains",
                     "isolation",
                     "dead_connections",
                     "origin_message_loss",
                     "origin_data_loss",
                     "origin_outages",
                     "ledger_message_loss",
                     "ledger_outages",
                     "ledger_failovers",
                     "feed_gaps",
                     "rejected_rows",
                     "row_budget",
                     "clock_steps",
                     "bridge_kills",
                     "bridge_pauses",
                     "origin_evicts"};

using WorldFaults = std::set<WorldFault>;

}  // namespace weir::sim
