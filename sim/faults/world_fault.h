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
  kLedgerMessageLoss,  // between nodes and the ledger; also errors, lag and truncated imports
  kLedgerOutages,
  kLedgerFailovers,  // recent rows are lost, or the clock of the ledger is set
  kRejectedRows,
  kRowBudget,   // few rows per second are allowed
  kClockSteps,  // the clock of one node is set now and then
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
                     "rejected_rows",
                     "row_budget",
                     "clock_steps"};

using WorldFaults = std::set<WorldFault>;

}  // namespace weir::sim
