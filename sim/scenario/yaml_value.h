// Reads typed values from a YAML tree: a duration, a percentage, a choice, a range.
//
// Each function takes the allowed range. The first invalid value ends the reading: WrongValue is
// thrown, and read_scenario() catches it.

#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/scenario.h"
#include "sim/scenario/yaml_tree.h"

namespace weir::sim {

struct WrongValue {
  YamlLocation location;
  std::string path;  // "traffic[1].shape"; empty: the whole file
  std::string text;
};

// The tree must outlive it.
class YamlValue {
 public:
  YamlValue(const YamlTree& tree, std::string path) : tree_(&tree), path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool is_list() const { return tree_->kind == YamlTree::Kind::kList; }
  [[nodiscard]] bool is_map() const { return tree_->kind == YamlTree::Kind::kMap; }
  [[noreturn]] void fail(std::string text) const;
  // Fails with the quoted value and this text.
  [[noreturn]] void fail_word(std::string_view wrong) const;

  // Any single value; `wanted` describes it in the error if there is none: "a duration such as
  // 10s".
  [[nodiscard]] const std::string& word(std::string_view wanted) const;
  // 1 to 64 letters, digits, '-', '_' or '.'.
  [[nodiscard]] std::string name() const;
  [[nodiscard]] uint64_t whole(Range<uint64_t> within) const;
  [[nodiscard]] int64_t whole_signed(Range<int64_t> within) const;
  [[nodiscard]] double number(Range<double> within) const;
  [[nodiscard]] Millis duration(Range<Millis> within) const;
  // "12.5%" is 12.5.
  [[nodiscard]] double percent(Range<double> within) const;
  // "12.5%" is 125.
  [[nodiscard]] uint32_t permille() const;
  // The index of the word.
  [[nodiscard]] size_t choice(std::span<const std::string_view> words) const;
  [[nodiscard]] std::vector<YamlValue> items() const;

  // A single value, or {from: a, to: b}; `read` reads each.
  template <typename Read>
  [[nodiscard]] auto range(Read read) const -> Range<decltype(read(*this))>;

 protected:
  const YamlTree* tree_;
  std::string path_;
};

// A map with known keys, each at most once.
class YamlMap : public YamlValue {
 public:
  YamlMap(const YamlValue& value, std::initializer_list<std::string_view> keys);

  [[nodiscard]] std::optional<YamlValue> find(std::string_view key) const;
  // Fails if the key is missing.
  [[nodiscard]] YamlValue at(std::string_view key) const;
  // Fails if `key` is present, with the reason why it must not be.
  void refuse(std::string_view key, std::string_view reason) const;
};

// "none of steady, poisson, on_off; did you mean poisson?"
[[nodiscard]] std::string none_of(std::string_view word, std::span<const std::string_view> words);

// Cuts the number at the start of `text` off. No sign, no infinity.
[[nodiscard]] std::optional<double> cut_number(std::string_view& text);

// "250ms", "10s": the largest unit that gives a whole number.
[[nodiscard]] std::string in_words(Millis duration);

template <typename Read>
auto YamlValue::range(Read read) const -> Range<decltype(read(*this))> {
  if (!is_map()) {
    const auto value = read(*this);
    return {value, value};
  }
  const YamlMap map(*this, {"from", "to"});
  const Range<decltype(read(*this))> both{read(map.at("from")), read(map.at("to"))};
  if (both.to < both.from) map.at("to").fail_word("is less than 'from'");
  return both;
}

}  // namespace weir::sim
