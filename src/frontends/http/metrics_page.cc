#include "frontends/http/metrics_page.h"

#include <cstdio>

namespace weir::frontends {
namespace {

using telemetry::DoorStat;

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
  const telemetry::DoorMetrics& metrics;
  [[nodiscard]] std::string label() const { return frontends::label("door", name); }
};

void write_origin(Page& page, const telemetry::OriginMetrics& origin) {
  const auto now = [](const auto& value) { return value.load(std::memory_order_relaxed); };
  const auto labelled = [&](std::string_view what, const auto& counters, auto last) {
    for (int i = 0; i < static_cast<int>(last); ++i) {
      const auto name = static_cast<decltype(last)>(i);
      page.sample(braced({label(what, to_string(name))}), counters.total(name));
    }
  };
  page.single("weir_origin_ready", Type::kGauge, "1 while the origin is connected.",
              now(origin.ready) ? 1 : 0);
  page.single("weir_origin_breaker_closed", Type::kGauge,
              "1 while the origin is asked, 0 after most calls failed.",
              now(origin.closed) ? 1 : 0);
  page.single("weir_origin_connections_total", Type::kCounter, "Connections made to the origin.",
              now(origin.connections));
  page.single("weir_nodes", Type::kGauge, "Processes that share the origin.", now(origin.nodes));
  page.begin("weir_origin_clock_ahead_seconds", Type::kGauge,
             "By how much the origin's clock is ahead of this one's.");
  page.sample_seconds("", Millis(now(origin.clock_ahead)));
  page.begin("weir_origin_commands_total", Type::kCounter, "Commands sent to the origin, by kind.");
  labelled("kind", origin.commands, telemetry::OriginCommand::kCount);
  page.begin("weir_origin_errors_total", Type::kCounter, "Calls that failed, by reason.");
  labelled("reason", origin.errors, telemetry::OriginError::kCount);
  page.begin("weir_origin_seconds", Type::kHistogram,
             "Time from sending a call to the origin to having its answer.");
  page.histogram("", origin.latency);
  page.single("weir_origin_absurd_total", Type::kCounter,
              "Values at the origin that were no count.", now(origin.absurd));
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

  const auto door_counter = [&](std::string_view name, DoorStat stat, std::string_view help) {
    page.begin(name, Type::kCounter, help);
    for (const Door& door : doors)
      page.sample(braced({door.label()}), door.metrics.stats.total(stat));
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
              "Decisions taken in the sketch because the table was full.", stats.sketched);
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
                stats.untold);
    page.begin("weir_replay_lag_seconds", Type::kGauge,
               "How long the first of them has been waiting to be heard.");
    page.sample_seconds("", stats.replay_lag);
  }
  page.single("weir_table_bytes", Type::kGauge, "Memory reserved by the table.",
              stats.memory_bytes);
}

}  // namespace weir::frontends
