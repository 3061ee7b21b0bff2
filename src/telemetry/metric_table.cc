#include "telemetry/metric_table.h"

#include <iterator>

namespace weir::telemetry {
namespace {

using enum Metric;
using enum MetricGroup;
using enum MetricType;

// metric, group, type, name, unit, labels, help, source
constexpr MetricInfo kTable[] = {
    {kDecisions, kFrontend, kCounter, "weir_decisions_total", "decisions",
     "frontend, outcome, basis", "Decisions, by outcome and by the information they were based on.",
     "FrontendMetrics::decisions"},
    {kRequests, kFrontend, kCounter, "weir_requests_total", "requests", "frontend",
     "Requests answered.", "FrontendStat::kRequests"},
    {kBadRequests, kFrontend, kCounter, "weir_bad_requests_total", "requests", "frontend",
     "Requests answered with an error.", "FrontendStat::kBad"},
    {kConnectionsTotal, kFrontend, kCounter, "weir_connections_total", "connections", "frontend",
     "Connections accepted.", "FrontendStat::kOpened"},
    {kConnectionsRefused, kFrontend, kCounter, "weir_connections_refused_total", "connections",
     "frontend, reason",
     "Connections refused: max-connections, max-connections-per-address or connection-memory was "
     "reached.",
     "FrontendStat::kRefused, kRefusedAddress, kRefusedMemory"},
    {kConnectionsEvicted, kFrontend, kCounter, "weir_connections_evicted_total", "connections",
     "frontend", "Unauthenticated idle connections closed in favour of new ones.",
     "FrontendStat::kEvicted"},
    {kAuthFailures, kFrontend, kCounter, "weir_auth_failures_total", "requests", "frontend, reason",
     "Requests refused because the key was missing, malformed or wrong.",
     "FrontendStat::kMissingKey, kMalformedKey, kWrongKey"},
    {kCrossProtocol, kFrontend, kCounter, "weir_cross_protocol_total", "connections", "frontend",
     "Connections closed because they sent HTTP to the Redis protocol port.",
     "FrontendStat::kCrossProtocol"},
    {kTlsFailures, kFrontend, kCounter, "weir_tls_failures_total", "connections",
     "frontend, reason",
     "TLS handshakes that failed: the client did not send TLS, had no valid certificate, or other.",
     "FrontendStat::kTlsNotTls, kTlsCertificate, kTlsOther"},
    {kConnectionsTimedOut, kFrontend, kCounter, "weir_connections_timed_out_total", "connections",
     "frontend", "Connections closed because they were idle or too slow.",
     "FrontendStat::kTimedOut"},
    {kConnections, kFrontend, kGauge, "weir_connections", "connections", "frontend",
     "Open connections.", "FrontendStat::kOpened, kClosed"},
    {kRequestSeconds, kFrontend, kHistogram, "weir_request_seconds", "seconds", "frontend",
     "Time from reading a request to its response.", "FrontendMetrics::latency"},
    {kCells, kLimiter, kGauge, "weir_cells", "tuples", "", "Tuples in memory.",
     "LimiterStats::tuples"},
    {kEvictions, kLimiter, kCounter, "weir_evictions_total", "tuples", "",
     "Tuples evicted to free memory; a store has their counts.", "LimiterStats::evicted"},
    {kExpirations, kLimiter, kCounter, "weir_expirations_total", "tuples", "",
     "Tuples removed after their windows expired.", "LimiterStats::expired"},
    {kSketched, kLimiter, kCounter, "weir_sketched_total", "decisions", "",
     "Decisions made in the sketch because the table was full.", "LimiterStats::sketched"},
    {kNoMemory, kLimiter, kCounter, "weir_no_memory_total", "decisions", "",
     "Decisions made in the sketch, or by a log that could not grow, because the memory limit was "
     "reached.",
     "LimiterStats::no_memory"},
    {kRebuilt, kLimiter, kCounter, "weir_rebuilt_total", "tuples", "",
     "Tuples whose state was created again: another rate, or a clock that was set back.",
     "LimiterStats::rebuilt"},
    {kMemoryBytes, kLimiter, kGauge, "weir_memory_bytes", "bytes", "part",
     "Memory reserved for counts, by use.", "LimiterStats::memory"},
    {kMemoryLimitBytes, kLimiter, kGauge, "weir_memory_limit_bytes", "bytes", "",
     "The limit of the memory for counts.", "MemoryStats::limit"},
    {kTableBytes, kLimiter, kGauge, "weir_table_bytes", "bytes", "",
     "Memory reserved for the table of tuples alone.", "LimiterStats::memory_bytes"},
    {kOriginReady, kOrigin, kGauge, "weir_origin_ready", "0 or 1", "",
     "1 while the origin is connected.", "OriginMetrics::ready"},
    {kOriginBreakerClosed, kOrigin, kGauge, "weir_origin_breaker_closed", "0 or 1", "",
     "1 while calls are sent to the origin; 0 after most calls failed.", "OriginMetrics::closed"},
    {kOriginWritable, kOrigin, kGauge, "weir_origin_writable", "0 or 1", "",
     "0 while the origin refuses writes.", "OriginMetrics::writable"},
    {kOriginConnections, kOrigin, kCounter, "weir_origin_connections_total", "connections", "",
     "Connections made to the origin.", "OriginMetrics::connections"},
    {kNodes, kOrigin, kGauge, "weir_nodes", "nodes", "", "Nodes that share the origin.",
     "OriginMetrics::nodes"},
    {kOriginClockAhead, kOrigin, kGauge, "weir_origin_clock_ahead_seconds", "seconds", "",
     "How far the clock of the origin is ahead of the local clock.", "OriginMetrics::clock_ahead"},
    {kOriginCommands, kOrigin, kCounter, "weir_origin_commands_total", "commands", "kind",
     "Commands sent to the origin.", "OriginMetrics::commands"},
    {kOriginErrors, kOrigin, kCounter, "weir_origin_errors_total", "calls", "reason",
     "Failed calls to the origin.", "OriginMetrics::errors"},
    {kOriginSeconds, kOrigin, kHistogram, "weir_origin_seconds", "seconds", "",
     "Time from sending a call to the origin to its reply.", "OriginMetrics::latency"},
    {kOriginInvalid, kOrigin, kCounter, "weir_origin_invalid_total", "values", "",
     "Values in the origin that are not valid counts, ignored.", "OriginMetrics::invalid"},
    {kRefreshes, kOrigin, kCounter, "weir_refreshes_total", "reads", "kind, result",
     "Calls to the origin before a decision, by cause and result: reads of unknown or old counts, "
     "and steps, which ask for admissions.",
     "LimiterStats::cold, stale, steps"},
    {kUnread, kOrigin, kCounter, "weir_unread_total", "decisions", "",
     "Decisions made without the read of the origin that they needed.", "LimiterStats::unread"},
    {kStrictActivations, kOrigin, kCounter, "weir_strict_activations_total", "tuples", "",
     "Tuples that became strict after a denial: for a time the origin decides each admission.",
     "LimiterStats::made_strict"},
    {kReplayed, kOrigin, kCounter, "weir_replayed_total", "cells", "",
     "Cells replayed to the origin and acknowledged.", "LimiterStats::replayed"},
    {kReplayErrors, kOrigin, kCounter, "weir_replay_errors_total", "messages", "",
     "Replay messages that failed; they are sent again.", "LimiterStats::replay_errors"},
    {kLateReplays, kOrigin, kCounter, "weir_late_replays_total", "cells", "",
     "Cells that expired before they were replayed.", "LimiterStats::late_replays"},
    {kHealedCells, kOrigin, kCounter, "weir_healed_cells_total", "cells", "",
     "Cells of which the origin had lost a part, replayed again.", "LimiterStats::healed"},
    {kDirtyCells, kOrigin, kGauge, "weir_dirty_cells", "cells", "",
     "Cells with counts that the origin has not acknowledged.", "LimiterStats::unacked"},
    {kReplayLag, kOrigin, kGauge, "weir_replay_lag_seconds", "seconds", "",
     "Age of the oldest count that the origin has not acknowledged.", "LimiterStats::replay_lag"},
    {kLedgerReady, kLedger, kGauge, "weir_ledger_ready", "0 or 1", "",
     "1 if the ledger answered the last call of this process.", "LedgerMetrics::ready"},
    {kLedgerBreakerClosed, kLedger, kGauge, "weir_ledger_breaker_closed", "0 or 1", "",
     "1 while calls are sent to the ledger; 0 after most calls failed.", "LedgerMetrics::closed"},
    {kLedgerConnections, kLedger, kCounter, "weir_ledger_connections_total", "connections", "",
     "Connections made to the ledger.", "LedgerMetrics::connections"},
    {kLedgerClockAhead, kLedger, kGauge, "weir_ledger_clock_ahead_seconds", "seconds", "",
     "How far the clock of the ledger is ahead of the local clock.", "LedgerMetrics::clock_ahead"},
    {kLedgerCalls, kLedger, kCounter, "weir_ledger_calls_total", "calls", "kind",
     "Calls to the ledger.", "LedgerMetrics::calls"},
    {kLedgerErrors, kLedger, kCounter, "weir_ledger_errors_total", "calls", "reason",
     "Failed calls to the ledger.", "LedgerMetrics::errors"},
    {kLedgerRetries, kLedger, kCounter, "weir_ledger_retries_total", "transactions", "",
     "Transactions repeated after a deadlock.", "LedgerMetrics::retries"},
    {kLedgerSeconds, kLedger, kHistogram, "weir_ledger_seconds", "seconds", "",
     "Time from a call to the ledger to its reply.", "LedgerMetrics::latency"},
    {kPublishedRows, kSync, kCounter, "weir_published_rows_total", "rows", "rule",
     "Rows published to other regions, by the rule that required it.",
     "SyncStats::presence, contended, exhaustion, roll_over"},
    {kPublishErrors, kSync, kCounter, "weir_publish_errors_total", "messages", "",
     "Publish messages that failed; they are sent again.", "SyncStats::publish_errors"},
    {kPublishDropped, kSync, kCounter, "weir_publish_dropped_total", "rows", "",
     "Rows that the ledger rejected.", "SyncStats::dropped"},
    {kPublishQueueFull, kSync, kCounter, "weir_publish_queue_full_total", "rows", "",
     "Rows that did not fit in the publish queue; they are tried again later.",
     "SyncStats::left_out"},
    {kPublishWaiting, kSync, kGauge, "weir_publish_waiting", "rows", "",
     "Rows in the publish queue.", "SyncStats::waiting"},
    {kPublishLag, kSync, kGauge, "weir_publish_lag_seconds", "seconds", "",
     "Age of the oldest row in the publish queue.", "SyncStats::publish_lag"},
    {kRowBudgetUsed, kSync, kGauge, "weir_row_budget_used_ratio", "0 to 1", "",
     "The used part of the budget of published rows.", "SyncStats::budget_used"},
    {kImportedRows, kSync, kCounter, "weir_imported_rows_total", "rows", "",
     "Rows that this process read from the ledger, as the bridge.", "SyncStats::imported"},
    {kImportErrors, kSync, kCounter, "weir_import_errors_total", "reads", "",
     "Reads of the ledger that failed.", "SyncStats::import_errors"},
    {kImportRows, kSync, kGauge, "weir_import_rows", "rows", "",
     "Rows in the last reply of the ledger.", "SyncStats::last_import"},
    {kImportInvalid, kSync, kCounter, "weir_import_invalid_total", "rows", "",
     "Invalid rows in the ledger, ignored.", "SyncStats::invalid"},
    {kLedgerWritable, kSync, kGauge, "weir_ledger_writable", "0 or 1", "",
     "0 while the ledger refuses writes.", "SyncStats::write_lag"},
    {kImportLag, kSync, kGauge, "weir_import_lag_seconds", "seconds", "",
     "Time since the request of the last reply of the ledger.", "SyncStats::import_lag"},
    {kAppliedRows, kSync, kCounter, "weir_applied_rows_total", "rows", "",
     "Rows of tuples that this process serves, received from the bridge.", "SyncStats::applied"},
    {kImportNoMemory, kSync, kCounter, "weir_import_no_memory_total", "tuples", "",
     "Imported tuples that were dropped because the bridge without an origin had no memory for "
     "them.",
     "SyncStats::no_room"},
    {kBridge, kSync, kGauge, "weir_bridge", "0 or 1", "",
     "1 on the process that exchanges rows with the ledger for its region.", "SyncStats::bridge"},
    {kBridgeMessagesMissed, kSync, kCounter, "weir_bridge_messages_missed_total", "gaps", "",
     "Gaps in the messages of the bridge; after one, tuples are read from the origin again.",
     "SyncStats::messages_missed"},
    {kSharedKeys, kSync, kGauge, "weir_shared_keys", "tuples", "",
     "Tuples of this process that other regions may count, too.", "SyncStats::keys"},
    {kFullReads, kSync, kCounter, "weir_full_reads_total", "reads", "", "Full reads of the ledger.",
     "SyncStats::full_reads"},
    {kFullReadAge, kSync, kGauge, "weir_full_read_age_seconds", "seconds", "",
     "Time since the last full read.", "SyncStats::full_read_age"},
    {kFullReadSeconds, kSync, kGauge, "weir_full_read_seconds", "seconds", "",
     "Duration of the last full read.", "SyncStats::full_read_took"},
    {kLedgerLosses, kSync, kCounter, "weir_ledger_losses_total", "losses", "",
     "Times that the ledger lost the last rows of this region; they were published again.",
     "SyncStats::lost"},
    {kLedgerDeletedRows, kSync, kCounter, "weir_ledger_deleted_rows_total", "rows", "",
     "Expired rows that this process deleted.", "SyncStats::deleted"},
    {kLedgerRulesDiffer, kSync, kGauge, "weir_ledger_rules_differ", "0 or 1", "",
     "1 if the rules in the ledger differ from those of this process.", "SyncStats::rules_differ"},
    {kRegions, kSync, kGauge, "weir_regions", "regions", "", "Regions that share the ledger.",
     "SyncStats::regions"},
    {kBoundRatio, kSync, kGauge, "weir_bound_ratio", "limits", "workspace, namespace",
     "The bound of admissions in all regions in one window of fixed_window or sliding_window, as a "
     "multiple of the limit, without requests in flight; with labels for namespaces with a wider "
     "bound, 16 at most.",
     "SyncStats::bound, wider_bounds"},
    {kStateBoundRatio, kSync, kGauge, "weir_state_bound_ratio", "limits or bursts",
     "algorithm, workspace, namespace",
     "The same for the other algorithms: sliding_window_strict, sliding_log in a time shorter than "
     "the duration; gcra, token_bucket in bursts, above rate x time.",
     "SyncStats::backlog_bound, log_bound, wider_bounds"},
};

constexpr bool is_in_order() {
  size_t at = 0;
  for (const MetricInfo& row : kTable) {
    if (static_cast<size_t>(row.metric) != at++) return false;
  }
  return at == static_cast<size_t>(Metric::kCount);
}
static_assert(is_in_order(), "one row for each metric, in the order of the enum");

}  // namespace

std::span<const MetricInfo> metric_table() {
  return kTable;
}

const MetricInfo& info_of(Metric metric) {
  return kTable[static_cast<size_t>(metric)];
}

}  // namespace weir::telemetry
