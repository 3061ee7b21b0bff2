#include "sim/report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/report/figures.h"

namespace weir::sim {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kGap = 2;
constexpr size_t kHalf = (kWidth - kGap) / 2;
constexpr size_t kStoryLines = 12;

// Control characters of a name must not reach the terminal.
std::string plain(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, ' ');
  return out;
}

// Columns, if every code point takes one.
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

std::string right(const std::string& text, size_t width) {
  return std::string(width - std::min(width, columns(text)), ' ') + text;
}

std::string one_or_many(uint64_t count, std::string_view one) {
  return fmt::format("{} {}{}", readable(static_cast<double>(count)), one, count == 1 ? "" : "s");
}

std::string header(const Results& results, size_t most_lines = 3) {
  std::string text = cut(plain(results.scenario), kWidth) + "\n";
  std::vector<std::string> about = wrapped(results.about, kWidth - kGap);
  if (about.size() > most_lines) {
    about.resize(most_lines);
    about.back() = cut(about.back() + " ...", kWidth - kGap);
  }
  for (const std::string& line : about) text += fmt::format("  {}\n", line);
  return text;
}

std::string world_of(const Results& results) {
  const std::string size =
      fmt::format("{}, {}, {}", one_or_many(results.regions.size(), "region"),
                  one_or_many(results.nodes, "node"), one_or_many(results.keys, "key"));
  return cut(size, kWidth);
}

std::string run_of(const Results& results) {
  std::string text = fmt::format("{}, {}, fingerprint {:016x}\n", speed_of(results),
                                 one_or_many(results.events, "event"), results.fingerprint);
  const double in_all = results.measured_seconds * results.nodes;
  if (results.sync_seconds > 0 && in_all > 0) {
    text += fmt::format("sharing took {:.2f} % of a core in each node\n",
                        100 * results.sync_seconds / in_all);
  }
  return text;
}

std::vector<std::string> figure_lines(const std::vector<FigureGroup>& groups) {
  std::vector<std::string> lines;
  for (const FigureGroup& group : groups) {
    lines.push_back(group.title);
    for (const Figure& figure : group.figures) {
      const std::string value = with_unit(figure);
      const size_t room = kHalf - kGap - 1 - std::min(columns(value), kHalf / 2);
      lines.push_back(
          fmt::format("  {} {}", padded(cut(plain(short_label(figure)), room), room), value));
    }
  }
  return lines;
}

// Two columns of whole groups, about as long as each other.
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

std::string broken_promises(const Results& results) {
  std::string text;
  for (const ExpectationResult& each : results.expectations) {
    if (each.met) continue;
    text += cut(fmt::format("NOT KEPT  {}: it was {}", plain(each.expectation), readable(each.actual)),
                kWidth) +
            "\n";
  }
  return text;
}

// Those that were not kept one by one and first, the others in two columns.
std::string expectations(const Results& results) {
  std::string text = broken_promises(results);
  std::string line;
  for (const ExpectationResult& each : results.expectations) {
    if (!each.met) continue;
    const std::string words =
        cut(fmt::format("kept  {} (was {})", plain(each.expectation), readable(each.actual)), kHalf);
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
  const size_t count = std::min(results.last_events.size(), kStoryLines);
  if (count > 0) text += "what led to it:\n";
  for (auto event = results.last_events.end() - static_cast<std::ptrdiff_t>(count);
       event != results.last_events.end(); ++event) {
    text += fmt::format("  {}\n", cut(plain(*event), kWidth - kGap));
  }
  return text;
}

constexpr size_t kLabel = 30;
constexpr size_t kValue = 12;
constexpr size_t kMark = 7;
constexpr size_t kVariantsInARow = (kWidth - kLabel - kValue + 1) / (kValue + kMark);
static_assert(kVariantsInARow == 2);

using Shown = std::vector<const Results*>;

size_t label_width(size_t others) {
  return std::min(kWidth - kValue - others * (kValue + kMark), kHalf);
}

// Of "settings.sharing.policy=floor" the last word and the value, if there is no room for all.
std::string short_name(const Results& results, size_t width) {
  std::string name = plain(variant_name(results));
  const size_t dot = name.substr(0, name.find('=')).rfind('.');
  if (columns(name) > width && dot != name.npos) name.erase(0, dot + 1);
  return cut(name, width);
}

void add_compared_figures(std::string& text, const Results& base, const Shown& others) {
  const size_t label = label_width(others.size());
  for (const FigureGroup& group : grouped(base.figures)) {
    for (const Figure& figure : group.figures) {
      std::string line = padded(cut(plain(short_label(figure)), label - 1), label) +
                         right(with_unit(figure), kValue);
      for (const Results* other : others) {
        const Figure* theirs = find_figure(*other, figure.key);
        const Difference unlike = theirs ? difference(figure, *theirs) : Difference::kNone;
        line +=
            right(theirs ? with_unit(*theirs) : "-", kValue) +
            padded(unlike == Difference::kNone ? "" : fmt::format(" {}", to_string(unlike)), kMark);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
  }
}

size_t kept_count(const Results& results) {
  return static_cast<size_t>(std::ranges::count_if(results.expectations, &ExpectationResult::met));
}

std::string verdict_of(const Results& results) {
  if (results.broken) return "BROKEN";
  if (results.expectations.empty()) return "none";
  return fmt::format("{} of {}", kept_count(results), results.expectations.size());
}

std::string table_of(const Results& base, const Shown& others) {
  const size_t label = label_width(others.size());
  std::string text = padded("", label) + right(short_name(base, kValue - 1), kValue);
  for (const Results* other : others) {
    constexpr size_t room = kValue + kMark - kGap;
    const std::string name = short_name(*other, room);
    text += fmt::format("  {}", padded(right(name, kValue - kGap), room));
  }
  text.erase(text.find_last_not_of(' ') + 1);
  text += "\n";
  add_compared_figures(text, base, others);
  text += padded("promises kept", label) + right(verdict_of(base), kValue);
  for (const Results* other : others) {
    text += right(verdict_of(*other), kValue) + std::string(kMark, ' ');
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

constexpr size_t kSeedLabel = kWidth - 4 * kValue;

struct Spread {
  double least = 0;
  double median = 0;
  double most = 0;
  uint64_t worst_seed = 0;
};

Spread spread_of(const std::vector<Results>& seeds, const Figure& figure) {
  struct Drawn {
    double value;
    uint64_t seed;
  };
  std::vector<Drawn> drawn;
  for (const Results& each : seeds) {
    const Figure* found = find_figure(each, figure.key);
    if (found && std::isfinite(found->value)) drawn.push_back({found->value, each.seed});
  }
  if (drawn.empty()) return {NAN, NAN, NAN, seeds.front().seed};
  std::ranges::stable_sort(drawn, {}, &Drawn::value);
  const size_t middle = drawn.size() / 2;
  const double median = drawn.size() % 2 == 1 ? drawn[middle].value
                                              : (drawn[middle - 1].value + drawn[middle].value) / 2;
  return {.least = drawn.front().value,
          .median = median,
          .most = drawn.back().value,
          .worst_seed = figure.less_is_better ? drawn.back().seed : drawn.front().seed};
}

std::string spread_row(const Figure& figure, const Spread& spread) {
  const auto shown = [&figure](double value) {
    Figure each = figure;
    each.value = value;
    return right(with_unit(each), kValue);
  };
  std::string line = padded(cut(plain(short_label(figure)), kSeedLabel - 1), kSeedLabel) +
                     shown(spread.least) + shown(spread.median) + shown(spread.most);
  if (spread.least != spread.most) line += right(fmt::to_string(spread.worst_seed), kValue);
  return line + "\n";
}

}  // namespace

std::string summary(const Results& results) {
  std::string text = header(results);
  text += world_of(results) + fmt::format(", seed {}", results.seed);
  if (!results.variant.empty()) text += fmt::format("; {}", plain(results.variant));
  text += fmt::format("\n\n{}\n", figure_columns(results.figures));
  text += expectations(results) + broken(results);
  return text + run_of(results);
}

std::string comparison(const std::vector<Results>& variants) {
  if (variants.empty()) return {};
  const Results& base = variants.front();
  std::string text = header(base, 2) + world_of(base) + fmt::format(", seed {}\n", base.seed);
  for (size_t from = 1; from < variants.size(); from += kVariantsInARow) {
    Shown row;
    for (size_t i = from; i < std::min(from + kVariantsInARow, variants.size()); ++i) {
      row.push_back(&variants[i]);
    }
    text += fmt::format("\n{}", table_of(base, row));
  }
  for (const Results& each : variants) {
    const std::string story = broken_promises(each) + broken(each);
    if (!story.empty())
      text += fmt::format("\n{}:\n{}", cut(plain(variant_name(each)), kWidth - 1), story);
  }
  return text;
}

std::string seeds_summary(const std::vector<Results>& seeds) {
  if (seeds.empty()) return {};
  const Results& first = seeds.front();
  std::string text = header(first, 2) + world_of(first) +
                     fmt::format("; seeds {} to {}\n\n", first.seed, seeds.back().seed);
  text += padded("", kSeedLabel) + right("least", kValue) + right("median", kValue) +
          right("most", kValue) + right("worst seed", kValue) + "\n";
  for (const FigureGroup& group : grouped(first.figures)) {
    for (const Figure& figure : group.figures) {
      text += spread_row(figure, spread_of(seeds, figure));
    }
  }
  const auto fine = std::ranges::count_if(seeds, &Results::fine);
  text += fmt::format("{} of {} runs kept every promise\n", fine, seeds.size());
  const auto bad = std::ranges::find_if(seeds, [](const Results& each) { return !each.fine(); });
  if (bad != seeds.end()) {
    text += fmt::format("\nseed {}:\n", bad->seed) + broken_promises(*bad) + broken(*bad);
  }
  return text;
}

std::vector<std::string> wrapped(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  const std::string clean = plain(text);
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
