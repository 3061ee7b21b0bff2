#include "frontends/http/metrics_page.h"

#include <atomic>
#include <cmath>
#include <cstdio>
#include <utility>

namespace weir::frontends {
namespace {

using telemetry::FrontendStat;

enum class Type : uint8_t { kCounter, kGauge, kHistogram };

std::string label(std::string_view name, std::string_view value) {
  std::string text(name);
  return text.append("=\"").append(value).append("\"");
}

// Those that are not empty, between braces; nothing, if all are.
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

  void begin(std::string_view name, Type type, std::string_view help) {
    constexpr std::string_view kTypes[] = {"counter", "gauge", "histogram"};
    name_ = name;
    out_.append_all(std::string_view("# HELP "), name, ' ', help, std::string_view("\n# TYPE "),
                    name, ' ', kTypes[static_cast<int>(type)], '\n');
  }
  // `labels` with its braces, or nothing.
  void sample(std::string_view labels, uint64_t value, std::string_view suffix = "") {
    out_.append_all(name_, suffix, labels, ' ', value, '\n');
  }
  void sample_seconds(std::string_view labels, Nanos time, std::string_view suffix = "") {
    char text[32];
    std::snprintf(text, sizeof text, "%.9f", static_cast<double>(time.count()) / 1e9);
    out_.append_all(name_, suffix, labels, ' ', std::string_view(text), '\n');
  }
  void sample_ratio(double value) {
    char text[32];
    std::snprintf(text, sizeof text, std::isinf(value) ? "+Inf" : "%.6f", value);
    out_.append_all(name_, ' ', std::string_view(text), '\n');
  }
  void seconds(std::string_view name, std::string_view help, Nanos time) {
    begin(name, Type::kGauge, help);
    sample_seconds("", time);
  }
  // A sample for each name of an enum whose last is kCount.
  template <typename Name>
  void samples(std::string_view what, const telemetry::Counters<Name>& counters) {
    for (int i = 0; i < static_cast<int>(Name::kCount); ++i) {
      const auto name = static_cast<Name>(i);
      sample(braced({label(what, to_string(name))}), counters.total(name));
    }
  }
  // `labels` of each of its samples, without braces, or nothing.
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
  void single(std::string_view name, Type type, std::string_view help, uint64_t value) {
    begin(name, type, help);
    sample("", value);
  }

 private:
  Bytes& out_;
  std::string_view name_;
};

struct Door {
  std::string_view name;
  const telemetry::FrontendMetrics& metrics;
  [[nodiscard]] std::string label() const { return frontends::label("door", name); }
};

template <typename Value>
Value now(const std::atomic<Value>& value) {
  return value.load(std::memory_order_relaxed);
}

void write_origin(Page& page, const telemetry::OriginMetrics& origin) {
  page.single("weir_origin_ready", Type::kGauge, "1 while the origin is connected.",
              now(origin.ready) ? 1 : 0);
  page.single("weir_origin_breaker_closed", Type::kGauge,
              "1 while the origin is asked, 0 after most calls failed.",
              now(origin.closed) ? 1 : 0);
  page.single("weir_origin_writable", Type::kGauge, "0 while the origin refuses writes.",
              now(origin.writable) ? 1 : 0);
  page.single("weir_origin_connections_total", Type::kCounter, "Connections made to the origin.",
              now(origin.connections));
  page.single("weir_nodes", Type::kGauge, "Processes that share the origin.", now(origin.nodes));
  page.seconds("weir_origin_clock_ahead_seconds",
               "By how much the origin's clock is ahead of this one's.",
               Millis(now(origin.clock_ahead)));
  page.begin("weir_origin_commands_total", Type::kCounter, "Commands sent to the origin, by kind.");
  page.samples("kind", origin.commands);
  page.begin("weir_origin_errors_total", Type::kCounter, "Calls that failed, by reason.");
  page.samples("reason", origin.errors);
  page.begin("weir_origin_seconds", Type::kHistogram,
             "Time from sending a call to the origin to having its answer.");
  page.histogram("", origin.latency);
  page.single("weir_origin_absurd_total", Type::kCounter,
              "Values at the origin that were no count.", now(origin.invalid));
}

void write_ledger(Page& page, const telemetry::LedgerMetrics& ledger) {
  page.single("weir_ledger_ready", Type::kGauge, "1 while the ledger answers.",
              now(ledger.ready) ? 1 : 0);
  page.single("weir_ledger_breaker_closed", Type::kGauge,
              "1 while the ledger is asked, 0 after most calls failed.",
              now(ledger.closed) ? 1 : 0);
  page.single("weir_ledger_connections_total", Type::kCounter, "Connections made to the ledger.",
              now(ledger.connections));
  page.seconds("weir_ledger_clock_ahead_seconds",
               "By how much the ledger's clock is ahead of this one's.",
               Millis(now(ledger.clock_ahead)));
  page.begin("weir_ledger_calls_total", Type::kCounter, "Calls to the ledger, by kind.");
  page.samples("kind", ledger.calls);
  page.begin("weir_ledger_errors_total", Type::kCounter, "Calls that failed, by reason.");
  page.samples("reason", ledger.errors);
  page.single("weir_ledger_retries_total", Type::kCounter,
              "Transactions done again because of a deadlock.", now(ledger.retries));
  page.begin("weir_ledger_seconds", Type::kHistogram,
             "Time from a call to the ledger to having its answer.");
  page.histogram("", ledger.latency);
}

void write_sync(Page& page, const SyncStats& stats) {
  page.begin("weir_published_rows_total", Type::kCounter,
             "Rows told to other regions, by the rule that wanted them told.");
  const auto published = [&](std::string_view rule, uint64_t rows) {
    page.sample(braced({label("rule", rule)}), rows);
  };
  published("presence", stats.presence);
  published("contended", stats.contended);
  published("exhaustion", stats.exhaustion);
  published("roll_over", stats.roll_over);
  page.single("weir_publish_errors_total", Type::kCounter,
              "Messages that failed; what they told is told again.", stats.publish_errors);
  page.single("weir_publish_dropped_total", Type::kCounter, "Rows that the ledger will not take.",
              stats.dropped);
  page.single("weir_publish_left_out_total", Type::kCounter,
              "Rows that found no place to wait and are tried again later.", stats.left_out);
  page.single("weir_publish_waiting", Type::kGauge, "Rows to be told now.", stats.waiting);
  page.seconds("weir_publish_lag_seconds", "How long the first of them has been waiting.",
               stats.publish_lag);
  page.begin("weir_row_budget_used_ratio", Type::kGauge,
             "Of the rows that may be told, how many are.");
  page.sample_ratio(stats.budget_used);
  page.single("weir_imported_rows_total", Type::kCounter, "Rows heard from the ledger.",
              stats.imported);
  page.single("weir_import_errors_total", Type::kCounter, "Reads of the ledger that failed.",
              stats.import_errors);
  page.single("weir_import_rows", Type::kGauge, "Rows in the last answer.", stats.last_import);
  page.single("weir_import_absurd_total", Type::kCounter,
              "Rows that no region can have meant, ignored.", stats.invalid);
  page.single("weir_ledger_writable", Type::kGauge, "0 while the ledger accepts no writes.",
              stats.write_lag == Nanos(0) ? 1 : 0);
  page.seconds("weir_import_lag_seconds", "Time since the last answer was asked for.",
               stats.import_lag);
  page.single("weir_shared_keys", Type::kGauge, "Tuples known to the ledger, or waiting to be.",
              stats.keys);
  page.single("weir_imported_keys", Type::kGauge, "Of those, tuples without traffic here.",
              stats.keys_received);
  page.single("weir_imported_keys_total", Type::kCounter, "Such tuples ever.",
              stats.received_total);
  page.single("weir_import_no_room_total", Type::kCounter,
              "News of such tuples for which there was no room.", stats.no_room);
  page.single("weir_full_reads_total", Type::kCounter, "Times that everything was read.",
              stats.full_reads);
  page.seconds("weir_full_read_age_seconds", "Time since everything was last read.",
               stats.full_read_age);
  page.seconds("weir_full_read_seconds", "How long that took.", stats.full_read_took);
  page.single("weir_ledger_lost_rows_total", Type::kCounter,
              "Tuples of which the ledger lost something, told again.", stats.lost);
  page.single("weir_ledger_deleted_rows_total", Type::kCounter,
              "Expired rows deleted by this process.", stats.deleted);
  page.single("weir_ledger_rules_differ", Type::kGauge,
              "1 if the ledger has other rules than this process was given.",
              stats.rules_differ ? 1 : 0);
  page.single("weir_regions", Type::kGauge, "Regions that share the ledger.", stats.regions);
  page.begin("weir_bound_ratio", Type::kGauge,
             "Of a limit, how much may be admitted in all regions, beside what is under way.");
  page.sample_ratio(stats.bound);
}

void write_memory(Page& page, const LimiterStats& stats) {
  const MemoryStats& memory = stats.memory;
  page.begin("weir_memory_bytes", Type::kGauge, "Memory reserved for counts, by what for.");
  const std::pair<std::string_view, uint64_t> parts[] = {{"table", memory.table},
                                                         {"annexes", memory.annexes},
                                                         {"keys", memory.keys},
                                                         {"sketch", memory.sketch},
                                                         {"regions", memory.regions}};
  for (const auto& [part, bytes] : parts) page.sample(braced({label("part", part)}), bytes);
  page.single("weir_memory_limit_bytes", Type::kGauge, "The most that all of it may take.",
              memory.limit);
  page.single("weir_table_bytes", Type::kGauge, "Memory reserved by the table alone.",
              stats.memory_bytes);
}

}  // namespace

void write_metrics(const Service& service, Bytes& out) {
  Page page(out);
  const Door doors[] = {{"http", service.http}, {"resp", service.resp}};

  page.begin("weir_decisions_total", Type::kCounter, "Decisions by door, outcome and basis.");
  for (const Door& door : doors) {
    for (const Outcome outcome : {Outcome::kAdmitted, Outcome::kDenied, Outcome::kNever}) {
      for (const Basis basis : {Basis::kLocal, Basis::kRefreshed, Basis::kDegraded}) {
        page.sample(braced({door.label(), label("outcome", to_string(outcome)),
                            label("basis", to_string(basis))}),
                    door.metrics.decisions.total(telemetry::decided(outcome, basis)));
      }
    }
  }

  const auto door_counter = [&](std::string_view name, FrontendStat stat, std::string_view help) {
    page.begin(name, Type::kCounter, help);
    for (const Door& door : doors)
      page.sample(braced({door.label()}), door.metrics.stats.total(stat));
  };
  door_counter("weir_requests_total", FrontendStat::kRequests, "Requests answered.");
  door_counter("weir_bad_requests_total", FrontendStat::kBad,
               "Requests that were not understood or not allowed.");
  door_counter("weir_connections_total", FrontendStat::kOpened, "Connections accepted.");
  const auto door_reasons =
      [&](std::string_view name, std::string_view help,
          std::initializer_list<std::pair<std::string_view, FrontendStat>> all) {
        page.begin(name, Type::kCounter, help);
        for (const Door& door : doors) {
          for (const auto& [reason, stat] : all) {
            page.sample(braced({door.label(), label("reason", reason)}),
                        door.metrics.stats.total(stat));
          }
        }
      };
  door_reasons("weir_connections_refused_total",
               "Connections refused because there were too many, too many of one address, or too "
               "many bytes in the buffers of all.",
               {{"connections", FrontendStat::kRefused},
                {"address", FrontendStat::kRefusedAddress},
                {"memory", FrontendStat::kRefusedMemory}});
  door_counter("weir_connections_evicted_total", FrontendStat::kEvicted,
               "Connections without a key closed to make room for others.");
  door_reasons("weir_auth_failures_total", "Requests refused for their key, by what was wrong.",
               {{"missing", FrontendStat::kMissingKey},
                {"malformed", FrontendStat::kMalformedKey},
                {"wrong", FrontendStat::kWrongKey}});
  door_counter("weir_cross_protocol_total", FrontendStat::kCrossProtocol,
               "Connections closed because they sent HTTP to the port of the Redis protocol.");
  door_counter("weir_connections_timed_out_total", FrontendStat::kTimedOut,
               "Connections closed for silence or slowness.");
  page.begin("weir_connections", Type::kGauge, "Connections open now.");
  for (const Door& door : doors) {
    const auto& stats = door.metrics.stats;
    const uint64_t closed = stats.total(FrontendStat::kClosed);
    const uint64_t opened = stats.total(FrontendStat::kOpened);
    page.sample(braced({door.label()}), opened > closed ? opened - closed : 0);
  }

  page.begin("weir_request_seconds", Type::kHistogram,
             "Time from reading a request to having its answer.");
  for (const Door& door : doors) {
    page.histogram(door.label(), door.metrics.latency);
  }

  const LimiterStats stats = service.limiter.stats();
  page.single("weir_cells", Type::kGauge, "Tuples held in memory.", stats.tuples);
  page.single("weir_evictions_total", Type::kCounter,
              "Tuples forgotten to make room, their counts safe elsewhere.", stats.evicted);
  page.single("weir_expirations_total", Type::kCounter,
              "Tuples forgotten because they could matter no more.", stats.expired);
  page.single("weir_sketched_total", Type::kCounter,
              "Decisions taken in the sketch because there was no room.", stats.sketched);
  page.single("weir_no_memory_total", Type::kCounter,
              "Decisions taken in the sketch, or by a log that could not grow, because the memory "
              "was used up.",
              stats.no_memory);
  page.single("weir_rebuilt_total", Type::kCounter,
              "Tuples given a new state: another rate, or a clock set back.", stats.rebuilt);
  if (service.origin != nullptr) {
    write_origin(page, *service.origin);
    page.begin("weir_refreshes_total", Type::kCounter,
               "Reads of the origin before a decision, by why and how they ended.");
    const auto reads = [&](std::string_view kind, const ReadStats& read) {
      page.sample(braced({label("kind", kind), label("result", "answered")}),
                  read.asked - read.failed);
      page.sample(braced({label("kind", kind), label("result", "failed")}), read.failed);
    };
    reads("cold", stats.cold);
    reads("stale", stats.stale);
    reads("strict", stats.strict);
    page.single("weir_unread_total", Type::kCounter,
                "Decisions taken without the read of the origin that they needed.", stats.unread);
    page.single("weir_strict_activations_total", Type::kCounter,
                "Tuples that, once denied, are read before each admission for a while.",
                stats.made_strict);
    page.single("weir_replayed_total", Type::kCounter, "Cells told to the origin.", stats.replayed);
    page.single("weir_replay_errors_total", Type::kCounter, "Messages to it that failed.",
                stats.replay_errors);
    page.single("weir_late_replays_total", Type::kCounter,
                "Cells that expired before they could be told.", stats.late_replays);
    page.single("weir_healed_cells_total", Type::kCounter,
                "Cells of which the origin had forgotten a part, told again.", stats.healed);
    page.single("weir_dirty_cells", Type::kGauge, "Cells with something to tell the origin.",
                stats.unacked);
    page.seconds("weir_replay_lag_seconds",
                 "How long the first of them has been waiting to be heard.", stats.replay_lag);
  }
  if (service.ledger != nullptr) {
    write_ledger(page, *service.ledger);
    write_sync(page, service.limiter.sync_stats());
  }
  write_memory(page, stats);
}

}  // namespace weir::frontends
