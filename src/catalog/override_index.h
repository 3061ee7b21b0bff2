// Finds the override of an identifier among many.
//
// An override whose identifier is the same bytes wins. Otherwise the most specific wildcard: more
// bytes other than '*', then a longer part before the first '*', then fewer '*', then the smaller
// identifier in byte order.
//
// Most wildcards have one '*', at the end. They are tried by the lengths of their beginnings, the
// longest first, until one matches: each takes a hash. The others take one hash for each length of
// a part before the first '*', and one for each length of a part behind the last '*' among those
// with that beginning. A look-up depends on the number of overrides only where many have the same
// beginning and end.
//
// Immutable: safe from any thread.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash_index.h"
#include "catalog/records.h"
#include "catalog/text_hash.h"

namespace weir::catalog {

class OverrideIndex {
 public:
  // The identifiers differ from each other.
  explicit OverrideIndex(std::vector<std::shared_ptr<const Override>> overrides);

  // Null: none matches.
  [[nodiscard]] const Override* find(std::string_view identifier) const;

  // The newest of all overrides that match, in any order.
  class Matches {
   public:
    void add(const Override& override);
    [[nodiscard]] std::span<const Override* const> all() const { return {found_.data(), count_}; }

   private:
    std::array<const Override*, 8> found_{};
    size_t count_ = 0;
  };
  [[nodiscard]] Matches find_newest(std::string_view identifier) const;
  // Whether an override is neither one identifier nor a beginning and '*'.
  [[nodiscard]] static bool is_costly(const Override& override);

  // Sorted by id.
  [[nodiscard]] std::span<const std::shared_ptr<const Override>> all() const { return all_; }
  [[nodiscard]] const Override* find_exact(std::string_view identifier) const;

  // Why there is no place for one more override; empty: there is. A look-up may have to try all
  // overrides with a part between two '*', and all pairs of the lengths of a beginning and an end.
  static constexpr size_t kMost = 100'000;
  static constexpr size_t kMostWithMiddle = 200;
  static constexpr size_t kMostLengths = 256;
  [[nodiscard]] std::string refusal_of(std::string_view identifier) const;

 private:
  // Overrides by a text; does not own them.
  //
  // With many overrides most of the time of a look-up is cache misses. So a slot is small: a part
  // of the hash, and the place of the override in `all`. A filter of a few bits for each override
  // ends most searches for what is not there: a branch that waits for memory is worse than the
  // memory access.
  class Table {
   public:
    // For at most so many.
    explicit Table(size_t most);
    void add(uint64_t hash, const Override& override);
    // The override with this hash for which `is` returns true, or null.
    template <typename Is>
    [[nodiscard]] const Override* find(uint64_t hash, const Is& is) const {
      const uint64_t bit = hash >> filter_shift_;
      if ((filter_[bit / 64] >> bit % 64 & 1) == 0) return nullptr;
      const uint32_t tag = tag_of(hash);
      for (size_t i = hash & mask(); slots_[i] != 0; i = (i + 1) & mask()) {
        if ((slots_[i] & ~kPlace) != tag) continue;
        const Override* const found = all_[(slots_[i] & kPlace) - 1];
        if (is(*found)) return found;
      }
      return nullptr;
    }

   private:
    // The bits of a slot for the place + 1; others are not found. Several servers together may
    // exceed kMost a little.
    static constexpr uint32_t kPlace = (1 << 20) - 1;
    static_assert(10 * kMost < kPlace);
    // Of bits that neither chose the slot nor the bit of the filter.
    [[nodiscard]] static uint32_t tag_of(uint64_t hash) {
      return static_cast<uint32_t>(hash >> 20) & ~kPlace;
    }
    [[nodiscard]] size_t mask() const { return slots_.size() - 1; }

    std::vector<uint32_t> slots_;  // a power of two of them; 0: empty
    unsigned filter_shift_;        // so that the rest of a hash is the number of a bit
    std::vector<uint64_t> filter_;
    std::vector<const Override*> all_;
  };

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
    std::unordered_map<std::string_view, std::vector<const Pattern*>, TextHash, std::equal_to<>>
        by_part;
    // Which first bytes of a part exist, in most cases without a look-up.
    size_t prefix = 0;
    std::array<uint64_t, 64> seen{};
  };
  // The patterns with one beginning and one end.
  struct Leaf {
    std::string_view end;
    const Pattern* plain = nullptr;                  // without middle parts
    std::vector<const Pattern*> less_specific = {};  // "a**b" beside "a*b"
    std::unique_ptr<Middles> middles = nullptr;
  };
  struct Beginning {
    std::string_view begin;
    Leaf without_end = {};
    std::vector<uint16_t> end_lengths;
    base::HashIndex<Leaf> by_end = {};
  };

  [[nodiscard]] static Pattern pattern_of(const Override& override);
  [[nodiscard]] static bool is_more_specific(const Pattern& a, const Pattern& b);
  [[nodiscard]] static bool matches_middle(const Pattern& pattern, std::string_view text);
  [[nodiscard]] static size_t seen_bit(std::string_view part, size_t prefix);
  // Whether there is nothing but '*' behind the beginning.
  [[nodiscard]] static bool is_prefix(const Pattern& pattern) {
    return pattern.end.empty() && pattern.middle.empty();
  }
  void add_prefix(const Pattern& pattern);
  void add(const Pattern& pattern);
  // The longest of the overrides that are a beginning and '*'.
  [[nodiscard]] const Override* find_prefix(std::string_view identifier) const;
  // Which matches a search wants: the most specific, or all.
  class MostSpecific;
  class Every;
  // Searches the wildcards that are not only a beginning and '*'.
  template <typename Wanted>
  void find_patterns(std::string_view identifier, Wanted& wanted) const;
  [[nodiscard]] Leaf& leaf_of(const Pattern& pattern);
  template <typename Wanted>
  static void find_in(const Leaf& leaf, std::string_view text, Wanted& wanted);
  static void add_middle(Middles& middles, const Pattern& pattern);
  template <typename Wanted>
  static void find_middle(const Middles& middles, std::string_view text, Wanted& wanted);

  std::vector<std::shared_ptr<const Override>> all_;
  Table exact_;             // all, by the whole identifier
  bool has_plain_ = false;  // some have no '*'
  Table prefixes_;          // by the part before the '*'
  std::vector<uint16_t> prefix_lengths_;
  // "a**" and the like, by the override in `prefixes_` that matches the same.
  std::unordered_map<const Override*, std::vector<const Override*>> less_specific_;
  // The other wildcards.
  std::vector<Pattern> patterns_;
  size_t with_middle_ = 0;
  std::set<std::pair<size_t, size_t>> lengths_;  // of their beginnings and ends
  std::vector<uint16_t> begin_lengths_;
  base::HashIndex<Beginning> by_begin_;
};

}  // namespace weir::catalog
