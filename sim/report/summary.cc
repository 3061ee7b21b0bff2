#include "sim/report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "plot/text.h"
#include "sim/report/figures.h"

namespace weir::sim {
namespace {

using plot::readable;

constexpr size_t kWidth = 80;
constexpr size_t kGap = 2;
constexpr size_t kHalf = (kWidth - kGap) / 2;
constexpr size_t kMaxEvents = 12;

// Replaces control characters: names from a scenario must not control the terminal.
std::string printable(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, ' ');
  return out;
}

// Columns on the terminal, assuming one per code point.
size_t columns(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string cut(std::string text, size_t width) {
  if (columns(text) <= width) return text;
  size_t bytes = 0;
  for (size_t seen = 0; bytes < text.size(); ++bytes) {
    if ((text[bytes] & 0xC0) != 0x80 && seen++ == width - 2) break;
  }
  return text.substr(0, bytes) + "..";
}

std::string padded(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, columns(text)), ' ');
}

std::string right_aligned(const std::string& text, size_t width) {
  return std::string(width - std::min(width, columns(text)), ' ') + text;
}

std::string counted(uint64_t count, std::string_view one) {
  return fmt::format("{} {}{}", readable(static_cast<double>(count)), one, count == 1 ? "" : "s");
}

std::string header(const Results& results, size_t max_lines = 3) {
  std::string text = cut(printable(results.scenario), kWidth) + "\n";
  std::vector<std::string> about = wrapped(results.about, kWidth - kGap);
  if (about.size() > max_lines) {
    about.resize(max_lines);
    about.back() = cut(about.back() + " ...", kWidth - kGap);
  }
  for (const std::string& line : about) text += fmt::format("  {}\n", line);
  return text;
}

std::string fleet_size(const Results& results) {
  const std::string size =
      fmt::format("{}, {}, {}", counted(results.regions.size(), "region"),
                  counted(results.nodes, "node"), counted(results.keys, "key"));
  return cut(size, kWidth);
}

std::string run_summary(const Results& results) {
  std::string text = fmt::format("{}, {}, fingerprint {:016x}\n", speed_of(results),
                                 counted(results.events, "event"), results.fingerprint);
  const double node_seconds = results.measured_seconds * results.nodes;
  if (results.sync_seconds > 0 && node_seconds > 0) {
    text += fmt::format("region sync used {:.2f} % of a core per node\n",
                        100 * results.sync_seconds / node_seconds);
  }
  return text;
}

std::vector<std::string> figure_lines(const std::vector<FigureGroup>& groups) {
  std::vector<std::string> lines;
  for (const FigureGroup& group : groups) {
    lines.push_back(group.title);
    for (const Figure& figure : group.figures) {
      const std::string value = with_unit(figure);
      const size_t width = kHalf - kGap - 1 - std::min(columns(value), kHalf / 2);
      lines.push_back(
          fmt::format("  {} {}", padded(cut(printable(short_label(figure)), width), width), value));
    }
  }
  return lines;
}

// Two columns of whole groups with about equal length.
std::string figure_columns(const std::vector<Figure>& figures) {
  const std::vector<FigureGroup> groups = grouped(figures);
  size_t all = 0;
  for (const FigureGroup& group : groups) all += 1 + group.figures.size();
  std::vector<FigureGroup> first;
  size_t lines = 0;
  for (const FigureGroup& group : groups) {
    if (2 * lines >= all) break;
    first.push_back(group);
    lines += 1 + group.figures.size();
  }
  const std::vector<std::string> left = figure_lines(first);
  const std::vector<std::string> second =
      figure_lines({groups.begin() + static_cast<std::ptrdiff_t>(first.size()), groups.end()});
  std::string text;
  for (size_t i = 0; i < std::max(left.size(), second.size()); ++i) {
    std::string line = i < left.size() ? left[i] : "";
    if (i < second.size()) line = padded(line, kHalf + kGap) + second[i];
    text += line + "\n";
  }
  return text;
}

std::string unmet_expectations(const Results& results) {
  std::string text;
  for (const Kept& each : results.promises) {
    if (each.kept) continue;
    text += cut(fmt::format("NOT MET  {}: actual {}", printable(each.promise), readable(each.was)),
                kWidth) +
            "\n";
  }
  return text;
}

// Unmet expectations first, one per line; then the others in two columns.
std::string expectations(const Results& results) {
  std::string text = unmet_expectations(results);
  std::string line;
  for (const Kept& each : results.promises) {
    if (!each.kept) continue;
    const std::string words =
        cut(fmt::format("met  {} (actual {})", printable(each.promise), readable(each.was)), kHalf);
    if (line.empty()) {
      line = words;
    } else {
      text += padded(line, kHalf + kGap) + words + "\n";
      line.clear();
    }
  }
  return line.empty() ? text : text + line + "\n";
}

std::string broken(const Results& results) {
  if (!results.broken) return {};
  std::string text;
  for (const std::string& line : wrapped("BROKEN  " + *results.broken, kWidth)) text += line + "\n";
  const size_t count = std::min(results.last_events.size(), kMaxEvents);
  if (count > 0) text += "last events:\n";
  for (auto event = results.last_events.end() - static_cast<std::ptrdiff_t>(count);
       event != results.last_events.end(); ++event) {
    text += fmt::format("  {}\n", cut(printable(*event), kWidth - kGap));
  }
  return text;
}

constexpr size_t kLabel = 30;
constexpr size_t kValue = 12;
constexpr size_t kChange = 7;
constexpr size_t kVariantsInARow = (kWidth - kLabel - kValue + 1) / (kValue + kChange);
static_assert(kVariantsInARow == 2);

using Selected = std::vector<const Results*>;

size_t label_width(size_t others) {
  return std::min(kWidth - kValue - others * (kValue + kChange), kHalf);
}

// The last word and the value of "settings.sharing.policy=floor" if the whole does not fit.
std::string short_name(const Results& results, size_t width) {
  std::string name = printable(variant_name(results));
  const size_t dot = name.substr(0, name.find('=')).rfind('.');
  if (columns(name) > width && dot != name.npos) name.erase(0, dot + 1);
  return cut(name, width);
}

void add_compared_figures(std::string& text, const Results& base, const Selected& others) {
  const size_t label = label_width(others.size());
  for (const FigureGroup& group : grouped(base.figures)) {
    for (const Figure& figure : group.figures) {
      std::string line = padded(cut(printable(short_label(figure)), label - 1), label) +
                         right_aligned(with_unit(figure), kValue);
      for (const Results* other : others) {
        const Figure* compared = find_figure(*other, figure.key);
        const Difference change = compared ? difference(figure, *compared) : Difference::kNone;
        line += right_aligned(compared ? with_unit(*compared) : "-", kValue) +
                padded(change == Difference::kNone ? "" : fmt::format(" {}", to_string(change)),
                       kChange);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
  }
}

size_t met_count(const Results& results) {
  return static_cast<size_t>(std::ranges::count_if(results.promises, &Kept::kept));
}

std::string verdict_of(const Results& results) {
  if (results.broken) return "BROKEN";
  if (results.promises.empty()) return "none";
  return fmt::format("{} of {}", met_count(results), results.promises.size());
}

std::string table_of(const Results& base, const Selected& others) {
  const size_t label = label_width(others.size());
  std::string text = padded("", label) + right_aligned(short_name(base, kValue - 1), kValue);
  for (const Results* other : others) {
    constexpr size_t width = kValue + kChange - kGap;
    const std::string name = short_name(*other, width);
    text += fmt::format("  {}", padded(right_aligned(name, kValue - kGap), width));
  }
  text.erase(text.find_last_not_of(' ') + 1);
  text += "\n";
  add_compared_figures(text, base, others);
  text += padded("expectations met", label) + right_aligned(verdict_of(base), kValue);
  for (const Results* other : others) {
    text += right_aligned(verdict_of(*other), kValue) + std::string(kChange, ' ');
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

constexpr size_t kSeedLabel = kWidth - 4 * kValue;

struct Spread {
  double min = 0;
  double median = 0;
  double max = 0;
  uint64_t worst_seed = 0;
};

Spread spread_of(const std::vector<Results>& seeds, const Figure& figure) {
  struct Sample {
    double value;
    uint64_t seed;
  };
  std::vector<Sample> samples;
  for (const Results& each : seeds) {
    const Figure* found = find_figure(each, figure.key);
    if (found && std::isfinite(found->value)) samples.push_back({found->value, each.seed});
  }
  if (samples.empty()) return {NAN, NAN, NAN, seeds.front().seed};
  std::ranges::stable_sort(samples, {}, &Sample::value);
  const size_t middle = samples.size() / 2;
  const double median = samples.size() % 2 == 1
                            ? samples[middle].value
                            : (samples[middle - 1].value + samples[middle].value) / 2;
  return {.min = samples.front().value,
          .median = median,
          .max = samples.back().value,
          .worst_seed = figure.less_is_better ? samples.back().seed : samples.front().seed};
}

std::string spread_row(const Figure& figure, const Spread& spread) {
  const auto shown = [&figure](double value) {
    Figure each = figure;
    each.value = value;
    return right_aligned(with_unit(each), kValue);
  };
  std::string line = padded(cut(printable(short_label(figure)), kSeedLabel - 1), kSeedLabel) +
                     shown(spread.min) + shown(spread.median) + shown(spread.max);
  if (spread.min != spread.max) line += right_aligned(fmt::to_string(spread.worst_seed), kValue);
  return line + "\n";
}

}  // namespace

std::string summary(const Results& results) {
  std::string text = header(results);
  text += fleet_size(results) + fmt::format(", seed {}", results.seed);
  if (!results.variant.empty()) text += fmt::format("; {}", printable(results.variant));
  text += fmt::format("\n\n{}\n", figure_columns(results.figures));
  text += expectations(results) + broken(results);
  return text + run_summary(results);
}

std::string comparison(const std::vector<Results>& variants) {
  if (variants.empty()) return {};
  const Results& base = variants.front();
  std::string text = header(base, 2) + fleet_size(base) + fmt::format(", seed {}\n", base.seed);
  for (size_t from = 1; from < variants.size(); from += kVariantsInARow) {
    Selected row;
    for (size_t i = from; i < std::min(from + kVariantsInARow, variants.size()); ++i) {
      row.push_back(&variants[i]);
    }
    text += fmt::format("\n{}", table_of(base, row));
  }
  for (const Results& each : variants) {
    const std::string problems = unmet_expectations(each) + broken(each);
    if (!problems.empty())
      text += fmt::format("\n{}:\n{}", cut(printable(variant_name(each)), kWidth - 1), problems);
  }
  return text;
}

std::string seeds_summary(const std::vector<Results>& seeds) {
  if (seeds.empty()) return {};
  const Results& first = seeds.front();
  std::string text = header(first, 2) + fleet_size(first) +
                     fmt::format("; seeds {} to {}\n\n", first.seed, seeds.back().seed);
  text += padded("", kSeedLabel) + right_aligned("min", kValue) + right_aligned("median", kValue) +
          right_aligned("max", kValue) + right_aligned("worst seed", kValue) + "\n";
  for (const FigureGroup& group : grouped(first.figures)) {
    for (const Figure& figure : group.figures) {
      text += spread_row(figure, spread_of(seeds, figure));
    }
  }
  const auto passed = std::ranges::count_if(seeds, &Results::fine);
  text += fmt::format("{} of {} runs met every expectation\n", passed, seeds.size());
  const auto bad = std::ranges::find_if(seeds, [](const Results& each) { return !each.fine(); });
  if (bad != seeds.end()) {
    text += fmt::format("\nseed {}:\n", bad->seed) + unmet_expectations(*bad) + broken(*bad);
  }
  return text;
}

std::vector<std::string> wrapped(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  const std::string clean = printable(text);
  for (size_t at = 0; at < clean.size();) {
    const size_t end = std::min(clean.find(' ', at), clean.size());
    const std::string word = cut(clean.substr(at, end - at), width);
    at = end + 1;
    if (word.empty()) continue;
    if (line.empty()) {
      line = word;
    } else if (columns(line) + 1 + columns(word) <= width) {
      line += ' ';
      line += word;
    } else {
      lines.push_back(std::exchange(line, word));
    }
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

}  // namespace weir::sim
