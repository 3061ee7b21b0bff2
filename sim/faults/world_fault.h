// Kinds of what goes wrong in a world. Each can be left out, to see whether a fault needs it.

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
  kOriginMessageLoss,  // between nodes and their origin, also such as arrive twice
  kOriginDataLoss,     // all, or what is new
  kOriginOutages,      // or slow
  kLedgerMessageLoss,  // between nodes and the ledger, also what fails, lags or is cut
  kLedgerOutages,
  kLedgerFailovers,  // what is new, or its clock is set
  kRejectedRows,
  kRowBudget,   // allowed
  kClockSteps,  // are set
  kCount,
};

inline constexpr std::array<std::string_view, static_cast<size_t>(WorldFault::kCount)>
    kWorldFaultNames{"kills",         "drains",         "isolation",    "dead_connections",
                     "lost_messages", "origin_forgets", "origin_away",  "lost_news",
                     "ledger_away",   "ledger_forgets", "refused_rows", "few_rows",
                     "clocks"};

using WorldFaults = std::set<WorldFault>;

}  // namespace weir::sim
