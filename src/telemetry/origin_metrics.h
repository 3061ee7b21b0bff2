// The counters and the state of the connection to a shared origin.
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
  kReplay,  // write a component
  kExpire,  // set the expiry of a cell
  kRead,    // read a cell
  kStep,    // ask for admissions
  kRetire,  // fold the component of a departed node
  kNodes,   // list the live nodes
  kPing,
  kRegions,  // read or update what the ledger has of a tuple
  kDue,      // add, read or remove tuples that wait to be published
  kBridge,   // the lease, the state and the messages of the bridge
  kCount,
};

// Why a call failed.
enum class OriginError : uint8_t {
  kUnreachable,    // no connection
  kTimeout,        // connected, but no answer
  kCircuitOpen,    // not called: the circuit breaker is open
  kRefused,        // wrong password, user or database
  kReadOnly,       // a demoted master
  kWritesRefused,  // too few replicas, or a failing disk: only reads succeed
  kLoading,
  kOutOfMemory,
  kNoScript,
  kMoved,      // the server is part of a cluster
  kWrongType,  // the key of a cell has another type
  kVersion,    // the data is of another version of Weir
  kRegion,     // the data is of another region
  kOther,      // any other error, or a malformed reply
  kCount,
};

[[nodiscard]] constexpr std::string_view to_string(OriginCommand command) {
  constexpr std::string_view kNames[] = {"write", "expire", "read",    "step", "retire",
                                         "nodes", "ping",   "regions", "due",  "bridge"};
  static_assert(std::size(kNames) == static_cast<size_t>(OriginCommand::kCount));
  return kNames[static_cast<size_t>(command)];
}

[[nodiscard]] constexpr std::string_view to_string(OriginError error) {
  constexpr std::string_view kNames[] = {
      "unreachable",    "timeout", "circuit_open",  "refused",  "readonly",
      "writes_refused", "loading", "out_of_memory", "noscript", "moved",
      "wrong_type",     "version", "region",        "other"};
  static_assert(std::size(kNames) == static_cast<size_t>(OriginError::kCount));
  return kNames[static_cast<size_t>(error)];
}

struct OriginMetrics {
  Counters<OriginCommand> commands;
  Counters<OriginError> errors;
  Latency latency;  // of answered calls

  // Single numbers: relaxed.
  std::atomic<uint64_t> invalid{0};      // values that are not a count
  std::atomic<uint64_t> connections{0};  // made
  std::atomic<uint32_t> nodes{1};        // that share it
  std::atomic<bool> ready{false};        // connected
  std::atomic<bool> closed{true};        // the breaker
  std::atomic<bool> writable{true};      // it accepted the last write
  std::atomic<int64_t> clock_ahead{0};   // ms by which its clock is ahead of ours
};

}  // namespace weir::telemetry
