// What the way to a shared origin counts about itself, and how it is.
//
// Safe from any thread.

#pragma once

#include <atomic>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "telemetry/counters.h"
#include "telemetry/latency.h"

namespace weir::telemetry {

enum class OriginCommand : uint8_t {
  kTell,     // a component is written
  kExpire,   // a cell's end is set
  kRead,     // a cell is read
  kPublish,  // word is left of what the ledger has of a cell
  kRetire,   // a component is given to those who stay
  kNodes,    // who lives
  kPing,
  kCount,
};

// Why a call failed.
enum class OriginError : uint8_t {
  kUnreachable,    // no connection
  kTimeout,        // connected, but no answer
  kCircuitOpen,    // not asked, since most calls had failed
  kRefused,        // a password, a user or a database is wrong
  kReadOnly,       // a master no more
  kWritesRefused,  // too few replicas, or a disk that fails: only reads are answered
  kLoading,
  kOutOfMemory,
  kNoScript,
  kMoved,      // it is a part of a cluster
  kWrongType,  // something else stands where a cell should
  kOther,      // any other error, or an answer that is none
  kCount,
};

[[nodiscard]] constexpr std::string_view to_string(OriginCommand command) {
  constexpr std::string_view kNames[] = {"write",  "expire", "read", "publish",
                                         "retire", "nodes",  "ping"};
  return kNames[static_cast<size_t>(command)];
}

[[nodiscard]] constexpr std::string_view to_string(OriginError error) {
  constexpr std::string_view kNames[] = {
      "unreachable", "timeout",       "circuit_open", "refused", "readonly",   "writes_refused",
      "loading",     "out_of_memory", "noscript",     "moved",   "wrong_type", "other"};
  static_assert(std::size(kNames) == static_cast<size_t>(OriginError::kCount));
  return kNames[static_cast<size_t>(error)];
}

struct OriginMetrics {
  Counters<OriginCommand> commands;
  Counters<OriginError> errors;
  Latency latency;  // of calls that were answered

  // Single numbers: relaxed.
  std::atomic<uint64_t> invalid{0};      // values that were no count
  std::atomic<uint64_t> connections{0};  // made
  std::atomic<uint32_t> nodes{1};        // that share it
  std::atomic<bool> ready{false};        // connected
  std::atomic<bool> closed{true};        // the breaker
  std::atomic<bool> writable{true};      // it accepted the last write
  std::atomic<int64_t> clock_ahead{0};   // ms by which its clock is ahead of ours
};

}  // namespace weir::telemetry
