// What the way to a ledger counts about itself, and how it is.
//
// Safe from any thread.

#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "telemetry/counters.h"
#include "telemetry/latency.h"

namespace weir::telemetry {

enum class LedgerCall : uint8_t { kPublish, kChanges, kPage, kHeartbeat, kClean, kProbe, kCount };

// Why a call failed.
enum class LedgerError : uint8_t {
  kUnreachable,    // no connection
  kTimeout,        // connected, but no answer in time
  kCircuitOpen,    // not asked, since most calls had failed
  kOverload,       // not asked, since too many calls wait
  kDeadlock,       // others wanted the same rows in another order, and went on doing so
  kLocked,         // others hold a row
  kReadOnly,       // a replica, or a primary no more
  kFull,           // no space left
  kMissingTables,  // nobody has migrated it
  kRefused,        // a user, a password, a certificate or a database is wrong
  kBadRows,        // the rows are to blame
  kCorrupt,        // a file that is damaged, or no database
  kOther,
  kCount,
};

[[nodiscard]] constexpr std::string_view to_string(LedgerCall call) {
  constexpr std::string_view kNames[] = {"publish",   "changes", "page",
                                         "heartbeat", "clean",   "probe"};
  return kNames[static_cast<size_t>(call)];
}

[[nodiscard]] constexpr std::string_view to_string(LedgerError error) {
  constexpr std::string_view kNames[] = {"unreachable",    "timeout", "circuit_open", "overload",
                                         "deadlock",       "locked",  "read_only",    "full",
                                         "missing_tables", "refused", "bad_rows",     "corrupt",
                                         "other"};
  static_assert(std::size(kNames) == static_cast<size_t>(LedgerError::kCount));
  return kNames[static_cast<size_t>(error)];
}

struct LedgerMetrics {
  Counters<LedgerCall> calls;
  Counters<LedgerError> errors;
  Latency latency;  // of calls that were answered

  // Single numbers: relaxed.
  std::atomic<uint64_t> rows_published{0};
  std::atomic<uint64_t> rows_read{0};
  std::atomic<uint64_t> invalid{0};      // rows that were left out
  std::atomic<uint64_t> retries{0};      // of what a deadlock undid
  std::atomic<uint64_t> connections{0};  // made
  std::atomic<bool> ready{false};        // the last call that could tell was answered
  std::atomic<bool> closed{true};        // the breaker
  std::atomic<int64_t> clock_ahead{0};   // ms by which its clock is ahead of ours
};

}  // namespace weir::telemetry
