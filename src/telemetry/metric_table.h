// The table of all metrics: the page /metrics takes names, types and help texts from it, and
// docs/metrics.md is generated from it (`weir metrics`).
//
// Tests fail if the page, the table and docs/metrics.md differ.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace weir::telemetry {

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram };

[[nodiscard]] constexpr std::string_view to_string(MetricType type) {
  constexpr std::string_view kNames[] = {"counter", "gauge", "histogram"};
  return kNames[static_cast<size_t>(type)];
}

// Which servers export a metric.
enum class MetricGroup : uint8_t {
  kFrontend,  // every server
  kLimiter,   // every server
  kOrigin,    // a server with an origin
  kLedger,    // a server with a ledger
  kSync,      // a server with a ledger
};

enum class Metric : uint8_t {
  kDecisions,
  kRequests,
  kBadRequests,
  kConnectionsTotal,
  kConnectionsRefused,
  kConnectionsEvicted,
  kAuthFailures,
  kCrossProtocol,
  kUnsupported,
  kTlsFailures,
  kConnectionsTimedOut,
  kConnections,
  kRequestSeconds,

  kCells,
  kEvictions,
  kExpirations,
  kSketched,
  kNoMemory,
  kRebuilt,
  kMemoryBytes,
  kMemoryLimitBytes,
  kTableBytes,

  kOriginReady,
  kOriginBreakerClosed,
  kOriginWritable,
  kOriginConnections,
  kNodes,
  kOriginClockAhead,
  kOriginCommands,
  kOriginErrors,
  kOriginSeconds,
  kOriginInvalid,
  kRefreshes,
  kUnread,
  kStrictActivations,
  kReplayed,
  kReplayErrors,
  kLateReplays,
  kHealedCells,
  kDirtyCells,
  kReplayLag,

  kLedgerReady,
  kLedgerBreakerClosed,
  kLedgerConnections,
  kLedgerClockAhead,
  kLedgerCalls,
  kLedgerErrors,
  kLedgerRetries,
  kLedgerSeconds,

  kPublishedRows,
  kPublishErrors,
  kPublishDropped,
  kPublishQueueFull,
  kPublishWaiting,
  kPublishLag,
  kRowBudgetUsed,
  kImportedRows,
  kImportErrors,
  kImportRows,
  kImportInvalid,
  kLedgerWritable,
  kImportLag,
  kAppliedRows,
  kImportNoMemory,
  kBridge,
  kBridgeMessagesMissed,
  kSharedKeys,
  kFullReads,
  kFullReadAge,
  kFullReadSeconds,
  kLedgerLosses,
  kLedgerDeletedRows,
  kLedgerRulesDiffer,
  kRegions,
  kBoundRatio,
  kStateBoundRatio,

  kCount,
};

struct MetricInfo {
  Metric metric;
  MetricGroup group;
  MetricType type;
  std::string_view name;
  std::string_view unit;
  std::string_view labels;  // names, separated by ", "; empty: none
  std::string_view help;    // one sentence
  std::string_view source;  // the code that counts it
};

// One row for each metric, in the order of the enum.
[[nodiscard]] std::span<const MetricInfo> metric_table();

[[nodiscard]] const MetricInfo& info_of(Metric metric);

}  // namespace weir::telemetry
