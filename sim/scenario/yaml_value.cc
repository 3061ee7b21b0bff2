#include "sim/scenario/yaml_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace weir::sim {
namespace {

// Quoted and shortened for a message.
std::string shown(std::string_view word) {
  constexpr size_t kMost = 60;
  return fmt::format("'{}{}'", word.substr(0, kMost), word.size() > kMost ? "..." : "");
}

std::string_view kind_of(const YamlTree& tree) {
  switch (tree.kind) {
    case YamlTree::Kind::kNothing: return "nothing";
    case YamlTree::Kind::kWord: return "a single value";
    case YamlTree::Kind::kList: return "a list";
    case YamlTree::Kind::kMap: return "a map";
  }
  return "";
}

// The number of letters to change, add or remove to turn one word into the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = corner + (a[i - 1] == b[j - 1] ? 0 : 1);
      corner = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

template <typename Whole>
std::optional<Whole> whole_from(std::string_view text, Range<Whole> within) {
  Whole value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < within.from || value > within.to) {
    return std::nullopt;
  }
  return value;
}

constexpr std::string_view kDurations = "a duration such as 250ms, 10s, 3m or 1h";

std::optional<Millis> duration_from(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const auto number = cut_number(text);
  if (!number) return std::nullopt;
  double unit = 0;
  if (text == "ms") unit = 1;
  if (text == "s") unit = 1000;
  if (text == "m") unit = 60'000;
  if (text == "h") unit = 3'600'000;
  const bool zero = text.empty() && *number == 0;
  const double millis = std::round(*number * unit);
  constexpr double kMost = 1e12;  // up to this a double has fractions of a ms
  if ((unit == 0 && !zero) || millis > kMost || std::abs(*number * unit - millis) > 1e-3) {
    return std::nullopt;
  }
  return Millis(static_cast<int64_t>(negative ? -millis : millis));
}

}  // namespace

void YamlValue::fail(std::string text) const {
  throw WrongValue{.location = tree_->location, .path = path_, .text = std::move(text)};
}

void YamlValue::fail_word(std::string_view wrong) const {
  fail(shown(tree_->word).append(" ").append(wrong));
}

const std::string& YamlValue::word(std::string_view wanted) const {
  if (tree_->kind != YamlTree::Kind::kWord) {
    fail(fmt::format("must be {}, not {}", wanted, kind_of(*tree_)));
  }
  return tree_->word;
}

std::string YamlValue::name() const {
  const std::string& text = word("a name");
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (text.empty() || text.size() > 64 || !std::all_of(text.begin(), text.end(), fits)) {
    fail_word("is no name of 1 to 64 letters, digits, '-', '_' or '.'");
  }
  return text;
}

uint64_t YamlValue::whole(Range<uint64_t> within) const {
  const auto value = whole_from<uint64_t>(word("a whole number"), within);
  if (!value) fail_word(fmt::format("is no whole number from {} to {}", within.from, within.to));
  return *value;
}

int64_t YamlValue::whole_signed(Range<int64_t> within) const {
  const auto value = whole_from<int64_t>(word("a whole number"), within);
  if (!value) fail_word(fmt::format("is no whole number from {} to {}", within.from, within.to));
  return *value;
}

double YamlValue::number(Range<double> within) const {
  std::string_view text = word("a number");
  const auto value = cut_number(text);
  if (!value || !text.empty() || *value < within.from || *value > within.to) {
    fail_word(fmt::format("is no number from {} to {}", within.from, within.to));
  }
  return *value;
}

Millis YamlValue::duration(Range<Millis> within) const {
  const auto value = duration_from(word(kDurations));
  if (!value) fail_word(fmt::format("is not {}", kDurations));
  if (*value < within.from || *value > within.to) {
    fail_word(fmt::format("is out of range: {} to {}", in_words(within.from), in_words(within.to)));
  }
  return *value;
}

double YamlValue::percent(Range<double> within) const {
  std::string_view text = word("a percentage such as 25%");
  const auto value = cut_number(text);
  if (!value || text != "%") fail_word("is not a percentage such as 25%");
  if (*value < within.from || *value > within.to) {
    fail_word(fmt::format("is out of range: {}% to {}%", within.from, within.to));
  }
  return *value;
}

uint32_t YamlValue::permille() const {
  const double permille = percent({0, 100}) * 10;
  const double rounded = std::round(permille);
  if (std::abs(permille - rounded) > 1e-6) fail_word("is finer than a tenth of a percent");
  return static_cast<uint32_t>(rounded);
}

size_t YamlValue::choice(std::span<const std::string_view> words) const {
  const std::string& text = word(fmt::format("one of {}", fmt::join(words, ", ")));
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) fail_word("is " + none_of(text, words));
  return static_cast<size_t>(found - words.begin());
}

std::vector<YamlValue> YamlValue::items() const {
  if (!is_list()) fail(fmt::format("must be a list, not {}", kind_of(*tree_)));
  std::vector<YamlValue> items;
  for (const YamlTree& part : tree_->parts) {
    items.emplace_back(part, fmt::format("{}[{}]", path_, items.size()));
  }
  return items;
}

YamlMap::YamlMap(const YamlValue& value, std::initializer_list<std::string_view> keys)
    : YamlValue(value) {
  if (!is_map()) {
    fail(fmt::format("must be a map with {}, not {}", fmt::join(keys, ", "), kind_of(*tree_)));
  }
  for (auto part = tree_->parts.begin(); part != tree_->parts.end(); ++part) {
    const auto wrong = [&](std::string text) {
      throw WrongValue{.location = part->key_location, .path = path_, .text = std::move(text)};
    };
    if (std::find(keys.begin(), keys.end(), part->key) == keys.end()) {
      wrong(fmt::format("key {} is {}", shown(part->key),
                        none_of(part->key, {keys.begin(), keys.size()})));
    }
    const auto same = [&](const YamlTree& other) { return other.key == part->key; };
    if (std::any_of(tree_->parts.begin(), part, same)) {
      wrong(fmt::format("key {} is given twice", shown(part->key)));
    }
  }
}

std::optional<YamlValue> YamlMap::find(std::string_view key) const {
  for (const YamlTree& part : tree_->parts) {
    if (part.key != key) continue;
    return YamlValue(part, path_.empty() ? part.key : fmt::format("{}.{}", path_, key));
  }
  return std::nullopt;
}

YamlValue YamlMap::at(std::string_view key) const {
  auto value = find(key);
  if (!value) fail(fmt::format("{} is missing", key));
  return *std::move(value);
}

void YamlMap::refuse(std::string_view key, std::string_view reason) const {
  if (const auto value = find(key)) value->fail(fmt::format("leave it out: {}", reason));
}

std::string none_of(std::string_view word, std::span<const std::string_view> words) {
  std::string text = fmt::format("none of {}", fmt::join(words, ", "));
  constexpr size_t kLongest = 40;
  if (words.empty() || word.size() > kLongest) return text;
  const auto nearest = std::min_element(words.begin(), words.end(), [&](auto a, auto b) {
    return distance(word, a) < distance(word, b);
  });
  const size_t most = std::max<size_t>(1, std::min<size_t>(3, nearest->size() / 3));
  if (distance(word, *nearest) <= most) text += fmt::format("; did you mean {}?", *nearest);
  return text;
}

std::optional<double> cut_number(std::string_view& text) {
  // Excludes other forms that the library accepts: inf, nan, a sign.
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  double value = 0;
  const auto [stop, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(stop - text.data()));
  return value;
}

std::string in_words(Millis duration) {
  const int64_t ms = duration.count();
  if (ms == 0) return "0s";
  if (ms % 3'600'000 == 0) return fmt::format("{}h", ms / 3'600'000);
  if (ms % 60'000 == 0) return fmt::format("{}m", ms / 60'000);
  return ms % 1000 == 0 ? fmt::format("{}s", ms / 1000) : fmt::format("{}ms", ms);
}

}  // namespace weir::sim
