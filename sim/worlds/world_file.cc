#include "sim/worlds/world_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <optional>
#include <sstream>
#include <vector>

namespace weir::sim {
namespace {

// One setting: how to write it and how to read it. `read` returns false for an invalid value.
struct Setting {
  std::string_view name;
  std::function<std::string(const WorldOptions&)> write;
  std::function<bool(const std::string&, WorldOptions&)> read;
};

template <typename Number>
std::optional<Number> number_in(const std::string& text, Number from, Number to) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || number < from || number > to) return {};
  return number;
}

Setting whole(std::string_view name, int WorldOptions::*field, int from, int to) {
  return {name, [field](const WorldOptions& options) { return std::to_string(options.*field); },
          [=](const std::string& text, WorldOptions& options) {
            const auto number = number_in(text, from, to);
            options.*field = number.value_or(0);
            return number.has_value();
          }};
}

Setting millis(std::string_view name, Millis WorldOptions::*field, int64_t from) {
  constexpr int64_t kMost = 600'000;
  return {name,
          [field](const WorldOptions& options) { return std::to_string((options.*field).count()); },
          [=](const std::string& text, WorldOptions& options) {
            const auto number = number_in(text, from, kMost);
            options.*field = Millis(number.value_or(0));
            return number.has_value();
          }};
}

template <typename Choice, size_t N>
Setting choice(std::string_view name, Choice WorldOptions::*field,
               std::array<std::string_view, N> words) {
  return {name,
          [=](const WorldOptions& options) {
            return std::string(words[static_cast<size_t>(options.*field)]);
          },
          [=](const std::string& text, WorldOptions& options) {
            const auto found = std::find(words.begin(), words.end(), text);
            if (found == words.end()) return false;
            options.*field = static_cast<Choice>(found - words.begin());
            return true;
          }};
}

Setting yes_or_no(std::string_view name, bool WorldOptions::*field) {
  return choice<bool, 2>(name, field, {"false", "true"});
}

std::string write_disabled_faults(const WorldOptions& options) {
  std::string text;
  for (const WorldFault kind : options.disabled_faults) {
    text += text.empty() ? "[" : ", ";
    text += kWorldFaultNames[static_cast<size_t>(kind)];
  }
  return text.empty() ? "[]" : text + "]";
}

bool read_disabled_faults(std::string text, WorldOptions& options) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return false;
  text = text.substr(1, text.size() - 2);
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto found = std::find(kWorldFaultNames.begin(), kWorldFaultNames.end(), word);
    if (found == kWorldFaultNames.end()) return false;
    options.disabled_faults.insert(static_cast<WorldFault>(found - kWorldFaultNames.begin()));
  }
  return true;
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> kSettings = {
      {"seed", [](const WorldOptions& options) { return std::to_string(options.seed); },
       [](const std::string& text, WorldOptions& options) {
         const auto number = number_in<uint64_t>(text, 0, ~uint64_t{0});
         options.seed = number.value_or(0);
         return number.has_value();
       }},
      whole("regions", &WorldOptions::regions, 0, 3),
      whole("nodes", &WorldOptions::nodes, 0, 9),
      whole("tuples", &WorldOptions::tuples, 1, 4),
      millis("fault_ms", &WorldOptions::fault_time, 1),
      choice<FaultMode, 2>("faults", &WorldOptions::faults, {"random", "none"}),
      yes_or_no("limits_differ", &WorldOptions::limits_differ),
      millis("region_skew_ms", &WorldOptions::max_region_skew, 0),
      whole("visitors", &WorldOptions::visitors, 0, 100),
      choice<TableSize, 2>("table", &WorldOptions::table, {"large", "small"}),
      whole("remote_tuples", &WorldOptions::remote_tuples, 0, 1000),
      yes_or_no("small_row_budget", &WorldOptions::small_row_budget),
      yes_or_no("tenants", &WorldOptions::tenants),
      yes_or_no("kills_after_ack", &WorldOptions::kills_after_ack),
      yes_or_no("kills_bridges", &WorldOptions::kills_bridges),
      yes_or_no("feed_gaps", &WorldOptions::feed_gaps),
      yes_or_no("bursts", &WorldOptions::bursts),
      whole("without_origin", &WorldOptions::without_origin, 0, 3),
      choice<ClockFault, 3>("clock", &WorldOptions::clock, {"none", "hours", "jumps"}),
      yes_or_no("steps_back", &WorldOptions::steps_back),
      yes_or_no("ledger_trouble", &WorldOptions::ledger_trouble),
      yes_or_no("fails_over_often", &WorldOptions::fails_over_often),
      yes_or_no("pauses_bridges", &WorldOptions::pauses_bridges),
      yes_or_no("all_algorithms", &WorldOptions::all_algorithms),
      yes_or_no("changes_settings", &WorldOptions::changes_settings),
      yes_or_no("relaxed", &WorldOptions::relaxed),
      millis("read_deadline_ms", &WorldOptions::read_deadline, 1),
      choice<OnOriginLoss, 3>("on_origin_loss", &WorldOptions::on_origin_loss,
                              {"local", "deny", "share"}),
      {"disabled_faults", write_disabled_faults, read_disabled_faults},
  };
  static_assert(static_cast<int>(OnOriginLoss::kLocal) == 0 &&
                static_cast<int>(OnOriginLoss::kDeny) == 1 &&
                static_cast<int>(OnOriginLoss::kShare) == 2);
  return kSettings;
}

// Settings of files that older versions wrote.
struct Renamed {
  std::string_view old_name;
  std::string_view name;
};
constexpr std::array<Renamed, 7> kRenamed{{{"stormy_ms", "fault_ms"},
                                           {"weather", "faults"},
                                           {"regions_apart_ms", "region_skew_ms"},
                                           {"room", "table"},
                                           {"few_rows", "small_row_budget"},
                                           {"kills_after_telling", "kills_after_ack"},
                                           {"without", "disabled_faults"}}};

std::string unknown_setting(const std::string& name) {
  for (const Renamed& renamed : kRenamed) {
    if (renamed.old_name == name) return "'" + name + "' is now " + std::string(renamed.name);
  }
  return "'" + name + "' is not a setting of a world";
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace

std::string write_world(const WorldOptions& options, std::string_view comment) {
  std::string text;
  std::istringstream lines{std::string(comment)};
  for (std::string line; std::getline(lines, line);) text += "# " + line + "\n";
  for (const Setting& setting : settings()) {
    text += std::string(setting.name) + ": " + setting.write(options) + "\n";
  }
  return text;
}

Result<WorldOptions> read_world(std::string_view text) {
  WorldOptions options;
  std::istringstream lines{std::string(text)};
  int number = 0;
  const auto wrong = [&](const std::string& what) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .retry = Retry::kPointless,
                 .detail = "line " + std::to_string(number) + ": " + what};
  };
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string content = trimmed(line.substr(0, line.find('#')));
    if (content.empty()) continue;
    const size_t colon = content.find(':');
    if (colon == content.npos) return wrong("'" + content + "' is not `name: value`");
    const std::string name = trimmed(content.substr(0, colon));
    const std::string value = trimmed(content.substr(colon + 1));
    const auto found = std::find_if(settings().begin(), settings().end(),
                                    [&](const Setting& each) { return each.name == name; });
    if (found == settings().end()) return wrong(unknown_setting(name));
    if (!found->read(value, options)) return wrong("'" + value + "' is not a valid " + name);
  }
  return options;
}

}  // namespace weir::sim
