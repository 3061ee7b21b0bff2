// Finds the override of an identifier among many.
//
// An override whose identifier is the same bytes wins. Otherwise the most specific wildcard: more
// bytes other than '*', then a longer part before the first '*', then fewer '*', then the smaller
// identifier in byte order.
//
// A look-up takes one hash for each length of a part before the first '*', and one for each length
// of a part behind the last '*' among the overrides with that beginning. It depends on the number
// of overrides only where many have the same beginning and end.
//
// Immutable: safe from any thread.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash_index.h"
#include "catalog/records.h"

namespace weir::catalog {

class OverrideIndex {
 public:
  // The identifiers differ from each other.
  explicit OverrideIndex(std::vector<std::shared_ptr<const Override>> overrides);

  // Null: none matches.
  [[nodiscard]] const Override* find(std::string_view identifier) const;

  // Sorted by identifier.
  [[nodiscard]] std::span<const std::shared_ptr<const Override>> all() const { return all_; }
  [[nodiscard]] const Override* find_exact(std::string_view identifier) const;

  // Why there is no place for one more override; empty: there is. A look-up may have to try all
  // overrides with a part between two '*'.
  static constexpr size_t kMost = 100'000;
  static constexpr size_t kMostWithMiddle = 10'000;
  [[nodiscard]] std::string refusal_of(std::string_view identifier) const;

 private:
  // An override with at least one '*', split there.
  struct Pattern {
    const Override* override = nullptr;
    std::string_view begin;
    std::string_view end;
    std::vector<std::string_view> middle;  // without empty parts
    size_t literal = 0;                    // bytes other than '*'
    size_t stars = 0;
  };
  // Patterns with something between two '*', by the longest such part.
  struct Middles {
    std::vector<uint16_t> lengths;
    std::unordered_map<std::string_view, std::vector<const Pattern*>> by_part;
    // Which first bytes of a part exist, in most cases without a look-up.
    size_t prefix = 0;
    std::array<uint64_t, 64> seen{};
  };
  struct Exact {
    const Override* override = nullptr;
  };
  // The patterns with one beginning and one end.
  struct Leaf {
    std::string_view end;
    const Pattern* plain = nullptr;  // without middle parts
    std::unique_ptr<Middles> middles = nullptr;
  };
  struct Beginning {
    std::string_view begin;
    Leaf without_end = {};              // most patterns end with '*'
    std::vector<uint16_t> end_lengths;  // of the others
    base::HashIndex<Leaf> by_end = {};
  };

  [[nodiscard]] static Pattern pattern_of(const Override& override);
  [[nodiscard]] static bool is_more_specific(const Pattern& a, const Pattern& b);
  [[nodiscard]] static bool matches_middle(const Pattern& pattern, std::string_view text);
  [[nodiscard]] static size_t seen_bit(std::string_view part, size_t prefix);
  void add(const Pattern& pattern);
  [[nodiscard]] Leaf& leaf_of(const Pattern& pattern);
  // Sets `best` to the most specific match of a leaf, if it is more specific.
  static void find_in(const Leaf& leaf, std::string_view text, const Pattern*& best);
  static void add_middle(Middles& middles, const Pattern& pattern);
  // Sets `best` to the most specific match in `middles`, if it is more specific.
  static void find_middle(const Middles& middles, std::string_view text, const Pattern*& best);

  std::vector<std::shared_ptr<const Override>> all_;
  base::HashIndex<Exact> exact_;
  std::vector<Pattern> patterns_;
  std::vector<uint16_t> begin_lengths_;
  base::HashIndex<Beginning> by_begin_;
};

}  // namespace weir::catalog
