#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::bench {
namespace {

// What a figure is held against.
enum class BarKind : uint8_t { kNone, kRatioAtMost, kRatioAtLeast, kMillionsAtLeast };
struct Bar {
  BarKind kind = BarKind::kNone;
  double value = 0;
};

// How a row's time is set against another's.
enum class Against : uint8_t {
  kNothing,
  kFloor,         // how many times as long as the other: less is better
  kFewerThreads,  // throughput as a multiple of the other's: more is better
};

struct Row {
  const char* what;
  const char* name;  // of the benchmark
  Against against = Against::kNothing;
  const char* other = "";
  Bar bar = {};
};

struct Section {
  const char* title;
  std::vector<Row> rows;
};

const std::vector<Section>& sections() {
  constexpr Bar kFloorBar{.kind = BarKind::kRatioAtMost, .value = 1.5};
  static const std::vector<Section> all = {
      {"One hot key",
       {{"check, one thread",
         "hot_key/check",
         Against::kNothing,
         "",
         {BarKind::kMillionsAtLeast, 20}},
        {"check, two threads together",
         "hot_key/check x2",
         Against::kFewerThreads,
         "hot_key/check",
         {BarKind::kRatioAtLeast, 0.5}},
        {"check, reading the system's clock", "hot_key/check_clock"},
        {"check_each of 16", "hot_key/check_each"},
        {"check_all of 3 tuples (per batch)", "hot_key/check_all"},
        {"denied, one thread", "hot_key/denied"},
        {"denied, two threads together", "hot_key/denied x2", Against::kFewerThreads,
         "hot_key/denied"},
        {"sliding_window", "hot_key/sliding_window"},
        {"sliding_window_strict", "hot_key/sliding_window_strict"},
        {"fixed_window", "hot_key/fixed_window"},
        {"sliding_log, 6,400 in the log", "hot_key/sliding_log"},
        {"gcra", "hot_key/gcra"},
        {"token_bucket", "hot_key/token_bucket"}}},
      {"1 M keys, uniform",
       {{"touching memory, one at a time", "many_keys/touch/one_at_a_time"},
        {"check, one at a time", "many_keys/weir/one_at_a_time", Against::kFloor,
         "many_keys/touch/one_at_a_time", kFloorBar},
        {"touching memory, overlapping", "many_keys/touch/overlapping"},
        {"check, overlapping", "many_keys/weir/overlapping", Against::kFloor,
         "many_keys/touch/overlapping"},
        {"touching memory, batches of 16", "many_keys/touch/batches"},
        {"check_each, batches of 16", "many_keys/weir/batches", Against::kFloor,
         "many_keys/touch/batches", kFloorBar},
        {"check_each, two threads together", "many_keys/weir/batches x2", Against::kFewerThreads,
         "many_keys/weir/batches"}}},
      {"New tuples",
       {{"in fresh memory", "new_tuples/fresh"},
        {"in place of expired ones", "new_tuples/replacing"}}},
  };
  return all;
}

// Weir beside both peers, each by the name of its benchmark.
struct PeerRow {
  const char* what;
  const char* weir;
  const char* map;
  const char* rate;
  Bar bar = {};
};

const std::vector<PeerRow>& peer_rows() {
  constexpr Bar kPeerBar{.kind = BarKind::kRatioAtLeast, .value = 4};
  static const std::vector<PeerRow> all = {
      {"one hot key, one thread", "hot_key/check", "hot_key/map", "hot_key/rate"},
      {"one hot key, two threads", "hot_key/check x2", "hot_key/map x2", "hot_key/rate x2"},
      {"1 M keys, one at a time", "many_keys/weir/one_at_a_time", "many_keys/map/one_at_a_time",
       "many_keys/rate/one_at_a_time", kPeerBar},
      {"1 M keys, one at a time, two threads", "many_keys/weir/one_at_a_time x2",
       "many_keys/map/one_at_a_time x2", "many_keys/rate/one_at_a_time x2"},
      {"1 M keys, overlapping", "many_keys/weir/overlapping", "many_keys/map/overlapping",
       "many_keys/rate/overlapping"},
      {"1 M keys, batches of 16 (1)", "many_keys/weir/batches", "many_keys/map/overlapping",
       "many_keys/rate/overlapping", kPeerBar},
      {"1 M keys, batches of 16, two threads (1)", "many_keys/weir/batches x2",
       "many_keys/map/overlapping x2", "many_keys/rate/overlapping x2"},
  };
  return all;
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string words_of(const Bar& bar) {
  switch (bar.kind) {
    case BarKind::kNone: break;
    case BarKind::kRatioAtMost: return fmt::format("≤ {}x", bar.value);
    case BarKind::kRatioAtLeast: return fmt::format("≥ {}x", bar.value);
    case BarKind::kMillionsAtLeast: return fmt::format("≥ {} M/s", bar.value);
  }
  return {};
}

std::string met(const Bar& bar, double nanos, const std::optional<Ratio>& ratio) {
  const auto answer = [](bool yes) { return yes ? "yes" : "NO"; };
  switch (bar.kind) {
    case BarKind::kNone: break;
    case BarKind::kRatioAtMost: return ratio ? answer(ratio->of_medians <= bar.value) : "";
    case BarKind::kRatioAtLeast: return ratio ? answer(ratio->of_medians >= bar.value) : "";
    case BarKind::kMillionsAtLeast: return answer(1000 / nanos >= bar.value);
  }
  return {};
}

std::string words_of(const std::optional<Ratio>& ratio) {
  if (!ratio) return {};
  return fmt::format("{:.2f}x ({:.2f}–{:.2f})", ratio->of_medians, ratio->least, ratio->most);
}

std::string line_of(const Row& row, const Results& results) {
  const auto nanos = results.median(row.name);
  if (!nanos) return {};
  std::optional<Ratio> ratio;
  const char* of = "";
  if (row.against == Against::kFloor) {
    ratio = results.ratio(row.name, row.other);
    of = "the time of touching";
  } else if (row.against == Against::kFewerThreads) {
    ratio = results.ratio(row.other, row.name);
    of = "one thread's rate";
  }
  return trimmed(fmt::format("  {:<38}{:>9.1f} ns {:>7.2f} M/s   {:<19} {:<21} {:<9} {}", row.what,
                             *nanos, 1000 / *nanos, words_of(ratio), ratio ? of : "",
                             words_of(row.bar), met(row.bar, *nanos, ratio)));
}

std::string line_of(const PeerRow& row, const Results& results) {
  const auto weir = results.median(row.weir);
  const auto map = results.median(row.map);
  const auto rate = results.median(row.rate);
  if (!weir || !map || !rate) return {};
  const auto map_ratio = results.ratio(row.map, row.weir);
  const auto rate_ratio = results.ratio(row.rate, row.weir);
  const std::string both =
      row.bar.kind == BarKind::kNone
          ? ""
          : fmt::format("{} / {}", met(row.bar, *weir, map_ratio), met(row.bar, *weir, rate_ratio));
  return trimmed(fmt::format("  {:<40}{:>7.1f} {:>8.1f} {:<22} {:>8.1f} {:<22} {:<5} {}", row.what,
                             *weir, *map, words_of(map_ratio), *rate, words_of(rate_ratio),
                             words_of(row.bar), both));
}

std::string peer_section(const Results& results) {
  std::string lines;
  for (const PeerRow& row : peer_rows()) lines += line_of(row, results);
  if (lines.empty()) return {};
  return fmt::format("{:<42}{:>7} {:>8} {:<22} {:>8} {:<22} {:<5} {}\n",
                     "Against peers (ns; x: times Weir's)", "weir", "map", "+ mutex", "keyed",
                     "rate", "bar", "met") +
         lines + "  (1) peers know no batches: they are asked overlapping\n";
}

std::string memory_section(const MemoryUses& memory) {
  const MemoryUse& weir = memory.weir;
  const bool within = weir.bytes_per_tuple() <= 256 && weir.sketched == 0;
  const auto line = [](const char* what, double bytes) {
    return fmt::format("  {:<38}{:>9.1f} bytes per tuple", what, bytes);
  };
  const double reserved = static_cast<double>(weir.reserved_bytes) /
                          static_cast<double>(std::max<uint64_t>(weir.tuples, 1));
  return fmt::format("Memory, 1 M identifiers of 40 bytes\n{}  {:<37} {:<9} {}\n{}\n{}\n{}\n",
                     line("weir, all in", weir.bytes_per_tuple()),
                     fmt::format("{} held, {} had no place", weir.tuples, weir.sketched), "≤ 256",
                     within ? "yes" : "NO", line("weir, reserved by the table", reserved),
                     line("map + mutex", memory.map.bytes_per_tuple()),
                     line("keyed rate", memory.rate.bytes_per_tuple()));
}

}  // namespace

std::string report(const Results& results) {
  std::string out =
      trimmed(fmt::format("{:<40}{:>12} {:>11}   {:<19} {:<21} {:<9} {}", "", "a decision",
                          "all threads", "ratio (min–max)", "of what", "bar", "met"));
  for (const Section& section : sections()) {
    std::string lines;
    for (const Row& row : section.rows) lines += line_of(row, results);
    if (!lines.empty()) out += fmt::format("{}\n{}", section.title, lines);
  }
  if (results.memory()) out += memory_section(*results.memory());
  return out + peer_section(results);
}

}  // namespace weir::bench
