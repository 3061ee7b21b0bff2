#include "frontends/http/metrics_page.h"

#include <atomic>
#include <cmath>
#include <cstdio>
#include <utility>

#include "telemetry/metric_table.h"

namespace weir::frontends {
namespace {

using telemetry::FrontendStat;
using telemetry::Metric;

// A name may have any bytes, and the format is UTF-8. Backslashes, control characters and bytes
// that are not ASCII are written as a backslash, an x and two digits, so that no two names are the
// same.
std::string label(std::string_view name, std::string_view value) {
  std::string text(name);
  text.append("=\"");
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"') {
      text.append("\\\"");
    } else if (byte < ' ' || byte > '~' || c == '\\') {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\\\x%02x", byte);
      text.append(escaped);
    } else {
      text.push_back(c);
    }
  }
  return text.append("\"");
}

// The labels that are not empty, in braces; empty if there are none.
std::string braced(std::initializer_list<std::string_view> labels) {
  std::string text;
  for (const std::string_view each : labels) {
    if (!each.empty()) text.append(text.empty() ? "{" : ",").append(each);
  }
  return text.empty() ? text : text.append("}");
}

class Page {
 public:
  explicit Page(Bytes& out) : out_(out) {}

  void begin(Metric metric) {
    const telemetry::MetricInfo& info = telemetry::info_of(metric);
    name_ = info.name;
    out_.append_all(std::string_view("# HELP "), name_, ' ', info.help,
                    std::string_view("\n# TYPE "), name_, ' ', to_string(info.type), '\n');
  }
  // `labels` includes the braces, or is empty.
  void sample(std::string_view labels, uint64_t value, std::string_view suffix = "") {
    out_.append_all(name_, suffix, labels, ' ', value, '\n');
  }
  void sample_seconds(std::string_view labels, Nanos time, std::string_view suffix = "") {
    char text[32];
    std::snprintf(text, sizeof text, "%.9f", static_cast<double>(time.count()) / 1e9);
    out_.append_all(name_, suffix, labels, ' ', std::string_view(text), '\n');
  }
  void sample_ratio(double value, std::string_view labels = "") {
    char text[32];
    std::snprintf(text, sizeof text, std::isinf(value) ? "+Inf" : "%.6f", value);
    out_.append_all(name_, labels, ' ', std::string_view(text), '\n');
  }
  void seconds(Metric metric, Nanos time) {
    begin(metric);
    sample_seconds("", time);
  }
  // A sample for each enumerator; the last of the enum is kCount.
  template <typename Name>
  void samples(std::string_view label_name, const telemetry::Counters<Name>& counters) {
    for (int i = 0; i < static_cast<int>(Name::kCount); ++i) {
      const auto name = static_cast<Name>(i);
      sample(braced({label(label_name, to_string(name))}), counters.total(name));
    }
  }
  // `labels` without braces, or empty.
  void histogram(std::string_view labels, const telemetry::Latency& latency) {
    uint64_t sum = 0;
    for (size_t i = 0; i <= telemetry::kLatencyEnds.size(); ++i) {
      sum += latency.in_bucket(i);
      char end[32] = "+Inf";
      if (i < telemetry::kLatencyEnds.size()) {
        std::snprintf(end, sizeof end, "%g", static_cast<double>(telemetry::kLatencyEnds[i]) / 1e6);
      }
      sample(braced({labels, label("le", end)}), sum, "_bucket");
    }
    sample_seconds(braced({labels}), latency.sum(), "_sum");
    sample(braced({labels}), sum, "_count");
  }
  void single(Metric metric, uint64_t value) {
    begin(metric);
    sample("", value);
  }

 private:
  Bytes& out_;
  std::string_view name_;
};

struct Frontend {
  std::string_view name;
  const telemetry::FrontendMetrics& metrics;
  [[nodiscard]] std::string label() const { return frontends::label("frontend", name); }
};

template <typename Value>
Value value_of(const std::atomic<Value>& value) {
  return value.load(std::memory_order_relaxed);
}

void write_origin(Page& page, const telemetry::OriginMetrics& origin) {
  page.single(Metric::kOriginReady, value_of(origin.ready) ? 1 : 0);
  page.single(Metric::kOriginBreakerClosed, value_of(origin.closed) ? 1 : 0);
  page.single(Metric::kOriginWritable, value_of(origin.writable) ? 1 : 0);
  page.single(Metric::kOriginConnections, value_of(origin.connections));
  page.single(Metric::kNodes, value_of(origin.nodes));
  page.seconds(Metric::kOriginClockAhead, Millis(value_of(origin.clock_ahead)));
  page.begin(Metric::kOriginCommands);
  page.samples("kind", origin.commands);
  page.begin(Metric::kOriginErrors);
  page.samples("reason", origin.errors);
  page.begin(Metric::kOriginSeconds);
  page.histogram("", origin.latency);
  page.single(Metric::kOriginInvalid, value_of(origin.invalid));
}

void write_ledger(Page& page, const telemetry::LedgerMetrics& ledger) {
  page.single(Metric::kLedgerReady, value_of(ledger.ready) ? 1 : 0);
  page.single(Metric::kLedgerBreakerClosed, value_of(ledger.closed) ? 1 : 0);
  page.single(Metric::kLedgerConnections, value_of(ledger.connections));
  page.seconds(Metric::kLedgerClockAhead, Millis(value_of(ledger.clock_ahead)));
  page.begin(Metric::kLedgerCalls);
  page.samples("kind", ledger.calls);
  page.begin(Metric::kLedgerErrors);
  page.samples("reason", ledger.errors);
  page.single(Metric::kLedgerRetries, value_of(ledger.retries));
  page.begin(Metric::kLedgerSeconds);
  page.histogram("", ledger.latency);
}

void write_sync(Page& page, const SyncStats& stats) {
  page.begin(Metric::kPublishedRows);
  const auto published = [&](std::string_view rule, uint64_t rows) {
    page.sample(braced({label("rule", rule)}), rows);
  };
  published("presence", stats.presence);
  published("contended", stats.contended);
  published("exhaustion", stats.exhaustion);
  published("roll_over", stats.roll_over);
  page.single(Metric::kPublishErrors, stats.publish_errors);
  page.single(Metric::kPublishDropped, stats.dropped);
  page.single(Metric::kPublishQueueFull, stats.left_out);
  page.single(Metric::kPublishWaiting, stats.waiting);
  page.seconds(Metric::kPublishLag, stats.publish_lag);
  page.begin(Metric::kRowBudgetUsed);
  page.sample_ratio(stats.budget_used);
  page.single(Metric::kImportedRows, stats.imported);
  page.single(Metric::kImportErrors, stats.import_errors);
  page.single(Metric::kImportRows, stats.last_import);
  page.single(Metric::kImportInvalid, stats.invalid);
  page.single(Metric::kLedgerWritable, stats.write_lag == Nanos(0) ? 1 : 0);
  page.seconds(Metric::kImportLag, stats.import_lag);
  page.single(Metric::kAppliedRows, stats.applied);
  page.single(Metric::kImportNoMemory, stats.no_room);
  page.single(Metric::kBridge, stats.bridge ? 1 : 0);
  page.single(Metric::kBridgeMessagesMissed, stats.messages_missed);
  page.single(Metric::kSharedKeys, stats.keys);
  page.single(Metric::kFullReads, stats.full_reads);
  page.seconds(Metric::kFullReadAge, stats.full_read_age);
  page.seconds(Metric::kFullReadSeconds, stats.full_read_took);
  page.single(Metric::kLedgerLosses, stats.lost);
  page.single(Metric::kLedgerDeletedRows, stats.deleted);
  page.single(Metric::kLedgerRulesDiffer, stats.rules_differ ? 1 : 0);
  page.single(Metric::kRegions, stats.regions);
  page.begin(Metric::kBoundRatio);
  page.sample_ratio(stats.bound);
  for (const NamespaceBound& each : stats.wider_bounds) {
    page.sample_ratio(each.bound,
                      braced({label("workspace", each.workspace), label("namespace", each.ns)}));
  }
  page.begin(Metric::kStateBoundRatio);
  constexpr Algorithm kStates[] = {Algorithm::kGcra, Algorithm::kTokenBucket,
                                   Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog};
  for (const Algorithm algorithm : kStates) {
    const std::string name = label("algorithm", to_string(algorithm));
    page.sample_ratio(stats.bound_of({}, {}, algorithm), braced({name}));
    for (const NamespaceBound& each : stats.wider_bounds) {
      page.sample_ratio(each.of(algorithm), braced({name, label("workspace", each.workspace),
                                                    label("namespace", each.ns)}));
    }
  }
}

void write_memory(Page& page, const LimiterStats& stats) {
  const MemoryStats& memory = stats.memory;
  page.begin(Metric::kMemoryBytes);
  const std::pair<std::string_view, uint64_t> parts[] = {{"table", memory.table},
                                                         {"rings_and_logs", memory.annexes},
                                                         {"keys", memory.keys},
                                                         {"sketch", memory.sketch},
                                                         {"regions", memory.regions}};
  for (const auto& [part, bytes] : parts) page.sample(braced({label("part", part)}), bytes);
  page.single(Metric::kMemoryLimitBytes, memory.limit);
  page.single(Metric::kTableBytes, stats.memory_bytes);
}

}  // namespace

void write_sync_metrics(const SyncStats& stats, Bytes& out) {
  Page page(out);
  write_sync(page, stats);
}

void write_metrics(const Service& service, Bytes& out) {
  Page page(out);
  const Frontend frontends[] = {{"http", service.http}, {"resp", service.resp}};

  page.begin(Metric::kDecisions);
  for (const Frontend& frontend : frontends) {
    for (const Outcome outcome : {Outcome::kAdmitted, Outcome::kDenied, Outcome::kNever}) {
      for (const Basis basis : {Basis::kLocal, Basis::kRefreshed, Basis::kDegraded}) {
        page.sample(braced({frontend.label(), label("outcome", to_string(outcome)),
                            label("basis", to_string(basis))}),
                    frontend.metrics.decisions.total(telemetry::decided(outcome, basis)));
      }
    }
  }

  const auto frontend_counter = [&](Metric metric, FrontendStat stat) {
    page.begin(metric);
    for (const Frontend& frontend : frontends)
      page.sample(braced({frontend.label()}), frontend.metrics.stats.total(stat));
  };
  frontend_counter(Metric::kRequests, FrontendStat::kRequests);
  frontend_counter(Metric::kBadRequests, FrontendStat::kBad);
  frontend_counter(Metric::kConnectionsTotal, FrontendStat::kOpened);
  const auto frontend_reasons =
      [&](Metric metric, std::initializer_list<std::pair<std::string_view, FrontendStat>> all) {
        page.begin(metric);
        for (const Frontend& frontend : frontends) {
          for (const auto& [reason, stat] : all) {
            page.sample(braced({frontend.label(), label("reason", reason)}),
                        frontend.metrics.stats.total(stat));
          }
        }
      };
  frontend_reasons(Metric::kConnectionsRefused, {{"connections", FrontendStat::kRefused},
                                                 {"address", FrontendStat::kRefusedAddress},
                                                 {"memory", FrontendStat::kRefusedMemory}});
  frontend_counter(Metric::kConnectionsEvicted, FrontendStat::kEvicted);
  frontend_reasons(Metric::kAuthFailures, {{"missing", FrontendStat::kMissingKey},
                                           {"malformed", FrontendStat::kMalformedKey},
                                           {"wrong", FrontendStat::kWrongKey}});
  frontend_counter(Metric::kCrossProtocol, FrontendStat::kCrossProtocol);
  frontend_counter(Metric::kUnsupported, FrontendStat::kUnsupported);
  frontend_reasons(Metric::kTlsFailures, {{"not_tls", FrontendStat::kTlsNotTls},
                                          {"certificate", FrontendStat::kTlsCertificate},
                                          {"other", FrontendStat::kTlsOther}});
  frontend_counter(Metric::kConnectionsTimedOut, FrontendStat::kTimedOut);
  page.begin(Metric::kConnections);
  for (const Frontend& frontend : frontends) {
    const auto& stats = frontend.metrics.stats;
    const uint64_t closed = stats.total(FrontendStat::kClosed);
    const uint64_t opened = stats.total(FrontendStat::kOpened);
    page.sample(braced({frontend.label()}), opened > closed ? opened - closed : 0);
  }

  page.begin(Metric::kRequestSeconds);
  for (const Frontend& frontend : frontends) {
    page.histogram(frontend.label(), frontend.metrics.latency);
  }

  const LimiterStats stats = service.limiter.stats();
  page.single(Metric::kCells, stats.tuples);
  page.single(Metric::kEvictions, stats.evicted);
  page.single(Metric::kExpirations, stats.expired);
  page.single(Metric::kSketched, stats.sketched);
  page.single(Metric::kNoMemory, stats.no_memory);
  page.single(Metric::kRebuilt, stats.rebuilt);
  if (service.origin != nullptr) {
    write_origin(page, *service.origin);
    page.begin(Metric::kRefreshes);
    const auto reads = [&](std::string_view kind, const ReadStats& read) {
      page.sample(braced({label("kind", kind), label("result", "answered")}),
                  read.asked - read.failed);
      page.sample(braced({label("kind", kind), label("result", "failed")}), read.failed);
    };
    reads("cold", stats.cold);
    reads("stale", stats.stale);
    reads("step", stats.steps);
    page.single(Metric::kUnread, stats.unread);
    page.single(Metric::kStrictActivations, stats.made_strict);
    page.single(Metric::kReplayed, stats.replayed);
    page.single(Metric::kReplayErrors, stats.replay_errors);
    page.single(Metric::kLateReplays, stats.late_replays);
    page.single(Metric::kHealedCells, stats.healed);
    page.single(Metric::kDirtyCells, stats.unacked);
    page.seconds(Metric::kReplayLag, stats.replay_lag);
  }
  if (service.ledger != nullptr) {
    write_ledger(page, *service.ledger);
    write_sync(page, service.limiter.sync_stats());
  }
  write_memory(page, stats);
}

}  // namespace weir::frontends
