#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::bench {
namespace {

enum class TargetKind : uint8_t { kNone, kRatioAtMost, kRatioAtLeast, kMillionsAtLeast };
struct Target {
  TargetKind kind = TargetKind::kNone;
  double value = 0;
};

// The comparison of a row with another benchmark.
enum class Comparison : uint8_t {
  kNone,
  kBaseline,      // time divided by that of the other: lower is better
  kFewerThreads,  // throughput divided by that of the other: higher is better
};

struct Row {
  const char* label;
  const char* benchmark;
  Comparison comparison = Comparison::kNone;
  const char* other = "";  // benchmark
  Target target = {};
};

struct Section {
  const char* title;
  std::vector<Row> rows;
};

const std::vector<Section>& sections() {
  constexpr Target kBaselineTarget{.kind = TargetKind::kRatioAtMost, .value = 1.5};
  static const std::vector<Section> all = {
      {"One hot key",
       {{"check, one thread",
         "hot_key/check",
         Comparison::kNone,
         "",
         {TargetKind::kMillionsAtLeast, 20}},
        {"check, two threads in total",
         "hot_key/check x2",
         Comparison::kFewerThreads,
         "hot_key/check",
         {TargetKind::kRatioAtLeast, 0.5}},
        {"check, reading the system clock", "hot_key/check_clock"},
        {"check_each of 16", "hot_key/check_each"},
        {"check_all of 3 tuples (per batch)", "hot_key/check_all"},
        {"denied, one thread", "hot_key/denied"},
        {"denied, two threads in total", "hot_key/denied x2", Comparison::kFewerThreads,
         "hot_key/denied"},
        {"sliding_window", "hot_key/sliding_window"},
        {"sliding_window_strict", "hot_key/sliding_window_strict"},
        {"fixed_window", "hot_key/fixed_window"},
        {"sliding_log, 6,400 in the log", "hot_key/sliding_log"},
        {"gcra", "hot_key/gcra"},
        {"token_bucket", "hot_key/token_bucket"}}},
      {"1 M keys, uniform",
       {{"memory access, one at a time", "many_keys/touch/one_at_a_time"},
        {"check, one at a time", "many_keys/weir/one_at_a_time", Comparison::kBaseline,
         "many_keys/touch/one_at_a_time", kBaselineTarget},
        {"memory access, overlapping", "many_keys/touch/overlapping"},
        {"check, overlapping", "many_keys/weir/overlapping", Comparison::kBaseline,
         "many_keys/touch/overlapping"},
        {"memory access, batches of 16", "many_keys/touch/batches"},
        {"check_each, batches of 16", "many_keys/weir/batches", Comparison::kBaseline,
         "many_keys/touch/batches", kBaselineTarget},
        {"check_each, two threads in total", "many_keys/weir/batches x2", Comparison::kFewerThreads,
         "many_keys/weir/batches"}}},
      {"New tuples",
       {{"in fresh memory", "new_tuples/fresh"},
        {"in place of expired tuples", "new_tuples/replacing"}}},
  };
  return all;
}

// Weir and both peers, by benchmark.
struct PeerRow {
  const char* label;
  const char* weir;
  const char* map;
  const char* rate;
  Target target = {};
};

const std::vector<PeerRow>& peer_rows() {
  constexpr Target kPeerTarget{.kind = TargetKind::kRatioAtLeast, .value = 4};
  static const std::vector<PeerRow> all = {
      {"one hot key, one thread", "hot_key/check", "hot_key/map", "hot_key/rate"},
      {"one hot key, two threads", "hot_key/check x2", "hot_key/map x2", "hot_key/rate x2"},
      {"1 M keys, one at a time", "many_keys/weir/one_at_a_time", "many_keys/map/one_at_a_time",
       "many_keys/rate/one_at_a_time", kPeerTarget},
      {"1 M keys, one at a time, two threads", "many_keys/weir/one_at_a_time x2",
       "many_keys/map/one_at_a_time x2", "many_keys/rate/one_at_a_time x2"},
      {"1 M keys, overlapping", "many_keys/weir/overlapping", "many_keys/map/overlapping",
       "many_keys/rate/overlapping"},
      {"1 M keys, batches of 16 (1)", "many_keys/weir/batches", "many_keys/map/overlapping",
       "many_keys/rate/overlapping", kPeerTarget},
      {"1 M keys, batches of 16, two threads (1)", "many_keys/weir/batches x2",
       "many_keys/map/overlapping x2", "many_keys/rate/overlapping x2"},
  };
  return all;
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string to_text(const Target& target) {
  switch (target.kind) {
    case TargetKind::kNone: break;
    case TargetKind::kRatioAtMost: return fmt::format("≤ {}x", target.value);
    case TargetKind::kRatioAtLeast: return fmt::format("≥ {}x", target.value);
    case TargetKind::kMillionsAtLeast: return fmt::format("≥ {} M/s", target.value);
  }
  return {};
}

std::string met(const Target& target, double nanos, const std::optional<Ratio>& ratio) {
  const auto answer = [](bool yes) { return yes ? "yes" : "NO"; };
  switch (target.kind) {
    case TargetKind::kNone: break;
    case TargetKind::kRatioAtMost: return ratio ? answer(ratio->of_medians <= target.value) : "";
    case TargetKind::kRatioAtLeast: return ratio ? answer(ratio->of_medians >= target.value) : "";
    case TargetKind::kMillionsAtLeast: return answer(1000 / nanos >= target.value);
  }
  return {};
}

std::string to_text(const std::optional<Ratio>& ratio) {
  if (!ratio) return {};
  return fmt::format("{:.2f}x ({:.2f}–{:.2f})", ratio->of_medians, ratio->min, ratio->max);
}

std::string format_row(const Row& row, const Results& results) {
  const auto nanos = results.median(row.benchmark);
  if (!nanos) return {};
  std::optional<Ratio> ratio;
  const char* reference = "";
  if (row.comparison == Comparison::kBaseline) {
    ratio = results.ratio(row.benchmark, row.other);
    reference = "memory access time";
  } else if (row.comparison == Comparison::kFewerThreads) {
    ratio = results.ratio(row.other, row.benchmark);
    reference = "rate of one thread";
  }
  return trimmed(fmt::format("  {:<38}{:>9.1f} ns {:>7.2f} M/s   {:<19} {:<21} {:<9} {}", row.label,
                             *nanos, 1000 / *nanos, to_text(ratio), ratio ? reference : "",
                             to_text(row.target), met(row.target, *nanos, ratio)));
}

std::string format_row(const PeerRow& row, const Results& results) {
  const auto weir = results.median(row.weir);
  const auto map = results.median(row.map);
  const auto rate = results.median(row.rate);
  if (!weir || !map || !rate) return {};
  const auto map_ratio = results.ratio(row.map, row.weir);
  const auto rate_ratio = results.ratio(row.rate, row.weir);
  const std::string both = row.target.kind == TargetKind::kNone
                               ? ""
                               : fmt::format("{} / {}", met(row.target, *weir, map_ratio),
                                             met(row.target, *weir, rate_ratio));
  return trimmed(fmt::format("  {:<40}{:>7.1f} {:>8.1f} {:<22} {:>8.1f} {:<22} {:<6} {}", row.label,
                             *weir, *map, to_text(map_ratio), *rate, to_text(rate_ratio),
                             to_text(row.target), both));
}

std::string peer_section(const Results& results) {
  std::string lines;
  for (const PeerRow& row : peer_rows()) lines += format_row(row, results);
  if (lines.empty()) return {};
  return fmt::format("{:<42}{:>7} {:>8} {:<22} {:>8} {:<22} {:<6} {}\n",
                     "Compared with peers (ns; x: times Weir)", "weir", "map", "+ mutex", "keyed",
                     "rate", "target", "met") +
         lines + "  (1) peers have no batch call: overlapping requests\n";
}

std::string memory_section(const MemoryUses& memory) {
  const MemoryUse& weir = memory.weir;
  const bool within = weir.bytes_per_tuple() <= 256 && weir.sketched == 0;
  const auto line = [](const char* label, double bytes) {
    return fmt::format("  {:<38}{:>9.1f} bytes per tuple", label, bytes);
  };
  const double reserved = static_cast<double>(weir.reserved_bytes) /
                          static_cast<double>(std::max<uint64_t>(weir.tuples, 1));
  return fmt::format("Memory, 1 M identifiers of 40 bytes\n{}  {:<37} {:<9} {}\n{}\n{}\n{}\n",
                     line("weir, resident", weir.bytes_per_tuple()),
                     fmt::format("{} in table, {} not", weir.tuples, weir.sketched), "≤ 256",
                     within ? "yes" : "NO", line("weir, reserved by the table", reserved),
                     line("map + mutex", memory.map.bytes_per_tuple()),
                     line("keyed rate", memory.rate.bytes_per_tuple()));
}

}  // namespace

std::string report(const Results& results) {
  std::string out =
      trimmed(fmt::format("{:<40}{:>12} {:>11}   {:<19} {:<21} {:<9} {}", "", "per decision",
                          "all threads", "ratio (min–max)", "relative to", "target", "met"));
  for (const Section& section : sections()) {
    std::string lines;
    for (const Row& row : section.rows) lines += format_row(row, results);
    if (!lines.empty()) out += fmt::format("{}\n{}", section.title, lines);
  }
  if (results.memory()) out += memory_section(*results.memory());
  return out + peer_section(results);
}

}  // namespace weir::bench
