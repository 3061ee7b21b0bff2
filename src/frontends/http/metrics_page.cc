#include "frontends/http/metrics_page.h"

#include <cstdio>

namespace weir::frontends {
namespace {

using telemetry::DoorStat;

enum class Type : uint8_t { kCounter, kGauge, kHistogram };

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
  void sample_seconds(std::string_view labels, uint64_t nanos, std::string_view suffix) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9f", static_cast<double>(nanos) / 1e9);
    out_.append_all(name_, suffix, labels, ' ', std::string_view(text), '\n');
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
  const telemetry::DoorMetrics& metrics;
  [[nodiscard]] std::string labels(const std::string& more = "") const {
    return "{door=\"" + std::string(name) + "\"" + more + "}";
  }
};

}  // namespace

void write_metrics(const Service& service, Bytes& out) {
  Page page(out);
  const Door doors[] = {{"http", service.http}, {"resp", service.resp}};

  page.begin("weir_decisions_total", Type::kCounter, "Decisions by door, outcome and basis.");
  for (const Door& door : doors) {
    for (const Outcome outcome : {Outcome::kAdmitted, Outcome::kDenied, Outcome::kNever}) {
      for (const Basis basis : {Basis::kLocal, Basis::kRefreshed, Basis::kDegraded}) {
        page.sample(door.labels(",outcome=\"" + std::string(to_string(outcome)) + "\",basis=\"" +
                                std::string(to_string(basis)) + "\""),
                    door.metrics.decisions.total(telemetry::decided(outcome, basis)));
      }
    }
  }

  const auto door_counter = [&](std::string_view name, DoorStat stat, std::string_view help) {
    page.begin(name, Type::kCounter, help);
    for (const Door& door : doors) page.sample(door.labels(), door.metrics.stats.total(stat));
  };
  door_counter("weir_requests_total", DoorStat::kRequests, "Requests answered.");
  door_counter("weir_bad_requests_total", DoorStat::kBad,
               "Requests that were not understood or not allowed.");
  door_counter("weir_connections_total", DoorStat::kOpened, "Connections accepted.");
  door_counter("weir_connections_refused_total", DoorStat::kRefused,
               "Connections closed at once because there were too many.");
  door_counter("weir_connections_timed_out_total", DoorStat::kTimedOut,
               "Connections closed for silence or slowness.");
  page.begin("weir_connections", Type::kGauge, "Connections open now.");
  for (const Door& door : doors) {
    const auto& stats = door.metrics.stats;
    const uint64_t closed = stats.total(DoorStat::kClosed);
    const uint64_t opened = stats.total(DoorStat::kOpened);
    page.sample(door.labels(), opened > closed ? opened - closed : 0);
  }

  page.begin("weir_request_seconds", Type::kHistogram,
             "Time from reading a request to having its answer.");
  for (const Door& door : doors) {
    uint64_t sum = 0;
    for (size_t i = 0; i <= telemetry::kLatencyEnds.size(); ++i) {
      sum += door.metrics.latency.total(static_cast<telemetry::LatencyBucket>(i));
      char end[32] = "+Inf";
      if (i < telemetry::kLatencyEnds.size()) {
        std::snprintf(end, sizeof end, "%g", static_cast<double>(telemetry::kLatencyEnds[i]) / 1e6);
      }
      page.sample(door.labels(",le=\"" + std::string(end) + "\""), sum, "_bucket");
    }
    page.sample_seconds(door.labels(), door.metrics.stats.total(DoorStat::kNanos), "_sum");
    page.sample(door.labels(), sum, "_count");
  }

  const LimiterStats stats = service.limiter.stats();
  page.single("weir_cells", Type::kGauge, "Tuples held in memory.", stats.tuples);
  page.single("weir_evictions_total", Type::kCounter,
              "Tuples forgotten to make room, their counts safe elsewhere.", stats.evicted);
  page.single("weir_expirations_total", Type::kCounter,
              "Tuples forgotten because they could matter no more.", stats.expired);
  page.single("weir_sketched_total", Type::kCounter,
              "Decisions taken in the sketch because the table was full.", stats.sketched);
  page.single("weir_rebuilt_total", Type::kCounter,
              "Tuples given a new state: another rate, or a clock set back.", stats.rebuilt);
  const auto origin = service.origin ? service.origin() : std::nullopt;
  if (origin) {
    page.single("weir_origin_ready", Type::kGauge, "1 while the origin is connected.",
                origin->ready ? 1 : 0);
    page.single("weir_origin_breaker_closed", Type::kGauge, "1 while the origin is asked.",
                origin->breaker_closed ? 1 : 0);
    page.single("weir_nodes", Type::kGauge, "Processes that share the origin.", origin->nodes);
    page.single("weir_origin_commands_total", Type::kCounter, "Commands sent to the origin.",
                origin->commands);
    page.begin("weir_origin_errors_total", Type::kCounter, "Calls that failed, by reason.");
    page.sample("{reason=\"failed\"}", origin->failures);
    page.sample("{reason=\"circuit_open\"}", origin->circuit_open);
    page.single("weir_origin_absurd_total", Type::kCounter,
                "Values at the origin that were no count.", origin->absurd);
    page.single("weir_refreshes_total", Type::kCounter, "Reads of the origin before a decision.",
                stats.refreshes);
    page.single("weir_refresh_errors_total", Type::kCounter, "Such reads that failed.",
                stats.refresh_errors);
    page.single("weir_replayed_total", Type::kCounter, "Cells told to the origin.", stats.replayed);
    page.single("weir_replay_errors_total", Type::kCounter, "Messages to it that failed.",
                stats.replay_errors);
    page.single("weir_late_replays_total", Type::kCounter,
                "Cells that expired before they could be told.", stats.late_replays);
  }
  page.single("weir_table_bytes", Type::kGauge, "Memory reserved by the table.",
              stats.memory_bytes);
}

}  // namespace weir::frontends
