// Reads the sections of a settings file, and collects problems with their positions.

#pragma once

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalog/records.h"
#include "frontends/limit_names.h"
#include "server/config.h"
#include "server/config_values.h"
#include "weir/request.h"

namespace weir::server {

using Problems = std::vector<ConfigProblem>;

// A missing value has no position of its own.
inline YAML::Mark mark_of(const YAML::Node& value, const YAML::Mark& otherwise) {
  return value.IsNull() || value.Mark().is_null() ? otherwise : value.Mark();
}

// The entries of a map, with problems for wrong, repeated and unknown names.
class YamlMap {
 public:
  // `what` names the section in problems; empty `names` allow all.
  YamlMap(const YAML::Node& node, const YAML::Mark& mark, std::string_view what,
          std::span<const std::string_view> names, Problems& problems)
      : mark_(mark_of(node, mark)), what_(what), problems_(problems) {
    if (!node.IsMap()) {
      add(mark_, fmt::format("{} must be pairs of 'name: value'", what));
      return;
    }
    for (const auto& pair : node) {
      const std::string name = pair.first.IsScalar() ? pair.first.Scalar() : "?";
      const YAML::Mark at = pair.first.Mark();
      if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) {
        add(at, fmt::format("'{}' is not a part of {}; its parts are {}", name, what,
                            fmt::join(names, ", ")));
      } else if (!entries_.emplace(name, Entry{at, pair.second}).second) {
        add(at, fmt::format("{} is given twice", name));
      }
    }
  }

  struct Entry {
    YAML::Mark name;
    YAML::Node value;
    [[nodiscard]] YAML::Mark mark() const { return mark_of(value, name); }
  };
  [[nodiscard]] const std::map<std::string, Entry, std::less<>>& entries() const {
    return entries_;
  }
  [[nodiscard]] const Entry* find(std::string_view name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] YAML::Mark mark() const { return mark_; }
  // The position of a value, or of the section without it.
  [[nodiscard]] YAML::Mark mark_of_entry(std::string_view name) const {
    const Entry* const entry = find(name);
    return entry == nullptr ? mark_ : entry->mark();
  }

  void add(const YAML::Mark& mark, std::string text) {
    problems_.push_back(
        {.line = mark.line + 1, .column = mark.column + 1, .text = std::move(text)});
  }
  void refuse(std::string_view name, const Entry& entry, const std::string& error) {
    add(entry.mark(), fmt::format("{} is '{}': it {}", name, entry.value.Scalar(), error));
  }

  // Reads a value with `read`, which returns the error or an empty text. Absent: nothing.
  template <typename Read>
  void value(std::string_view name, const Read& read) {
    const Entry* const entry = find(name);
    if (entry == nullptr) return;
    if (!entry->value.IsScalar()) {
      return add(entry->mark(), fmt::format("{} must be a single value", name));
    }
    const std::string error = read(entry->value.Scalar());
    if (!error.empty()) refuse(name, *entry, error);
  }

  // Reads each value of a list, or a single value. Absent: nothing.
  template <typename Read>
  void list(std::string_view name, const Read& read) {
    const Entry* const entry = find(name);
    if (entry == nullptr) return;
    const auto each = [&](const YAML::Node& item) {
      const Entry one{entry->name, item};
      if (!item.IsScalar()) {
        return add(one.mark(), fmt::format("{} must be a list of single values", name));
      }
      const std::string error = read(item.Scalar());
      if (!error.empty()) refuse(name, one, error);
    };
    if (!entry->value.IsSequence()) return each(entry->value);
    for (const auto& item : entry->value) each(item);
  }

  void require(std::string_view name) {
    if (find(name) == nullptr) add(mark_, fmt::format("{} has no {}: add it", what_, name));
  }

 private:
  std::map<std::string, Entry, std::less<>> entries_;
  YAML::Mark mark_;
  std::string what_;
  Problems& problems_;
};

// A name that `parse` knows.
template <typename Parse, typename Value>
std::string read_choice(const std::string& text, const Parse& parse, std::string_view choices,
                        Value& value) {
  const auto known = parse(text);
  if (!known) return fmt::format("must be {}", choices);
  value = *known;
  return {};
}

// The values of a limit, which a namespace and a rule have in common. Absent: not set.
inline catalog::LimitValues read_limit_values(YamlMap& section) {
  catalog::LimitValues values;
  const auto count = [&](std::string_view name, std::optional<Count>& value) {
    section.value(name, [&](const std::string& text) {
      return assign(text, {1, kMaxLimit}, value.emplace());
    });
  };
  count("limit", values.limit);
  section.value("duration", [&](const std::string& text) {
    return read_time(text, values.duration.emplace(), kLimitDurations);
  });
  count("burst", values.burst);
  section.value("algorithm", [&](const std::string& text) {
    return read_choice(text, algorithm_from, frontends::kAlgorithmNames, values.algorithm);
  });
  section.value("consistency", [&](const std::string& text) {
    return read_choice(text, consistency_from, frontends::kConsistencyNames, values.consistency);
  });
  return values;
}

}  // namespace weir::server
