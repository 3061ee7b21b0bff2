// The counters and the state of the connection to a ledger.
//
// Safe from any thread.

#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "telemetry/counters.h"
#include "telemetry/latency.h"

namespace weir::telemetry {

enum class LedgerCall : uint8_t { kPublish, kFeeds, kPage, kHeartbeat, kClean, kProbe, kCount };

// Why a call failed.
enum class LedgerError : uint8_t {
  kUnreachable,    // no connection
  kTimeout,        // connected, but no answer in time
  kCircuitOpen,    // not called: the circuit breaker is open
  kOverload,       // not called: too many calls are queued
  kDeadlock,       // deadlock with other transactions, also after retries
  kLocked,         // another transaction holds a row
  kReadOnly,       // a replica, or a demoted primary
  kFull,           // no space left
  kMissingTables,  // the schema was not migrated
  kRefused,        // wrong user, password, certificate or database
  kBadRows,        // the rows themselves cannot be written
  kCorrupt,        // a damaged file, or a file that is not a database
  kOther,
  kCount,
};

[[nodiscard]] constexpr std::string_view to_string(LedgerCall call) {
  constexpr std::string_view kNames[] = {"publish", "feeds", "page", "heartbeat", "clean", "probe"};
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
  Latency latency;  // of answered calls

  // Single numbers: relaxed.
  std::atomic<uint64_t> rows_published{0};
  std::atomic<uint64_t> rows_read{0};
  std::atomic<uint64_t> invalid{0};      // rows that were skipped
  std::atomic<uint64_t> retries{0};      // after a deadlock
  std::atomic<uint64_t> connections{0};  // made
  std::atomic<bool> ready{false};        // the last call that reached the ledger succeeded
  std::atomic<bool> closed{true};        // the breaker
  std::atomic<int64_t> clock_ahead{0};   // ms by which its clock is ahead of ours
};

}  // namespace weir::telemetry
