#include "catalog/override_index.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

namespace weir::catalog {
namespace {

void insert_length(std::vector<uint16_t>& lengths, size_t length) {
  const auto value = static_cast<uint16_t>(length);
  const auto at = std::ranges::lower_bound(lengths, value);
  if (at == lengths.end() || *at != value) lengths.insert(at, value);
}

uint64_t hash_of(std::string_view text) {
  return TextHash()(text);
}

// Whether an override is a text and then '*'.
class Begins {
 public:
  explicit Begins(std::string_view begin) : begin_(begin) {}
  bool operator()(const Override& override) const {
    const std::string_view text = override.identifier;
    return text.size() > begin_.size() && text[begin_.size()] == '*' && text.starts_with(begin_);
  }

 private:
  std::string_view begin_;
};

bool is_older(const Override* a, const Override* b) {
  return a->since < b->since;
}

bool has_star(const std::shared_ptr<const Override>& override) {
  return override->identifier.find('*') != std::string::npos;
}

static_assert(kMaxNameBytes <= std::numeric_limits<uint16_t>::max());

}  // namespace

class OverrideIndex::MostSpecific {
 public:
  static constexpr bool kAll = false;
  [[nodiscard]] bool wants(const Pattern& pattern) const {
    return best_ == nullptr || is_more_specific(pattern, *best_);
  }
  void take(const Pattern& pattern) { best_ = &pattern; }
  [[nodiscard]] const Pattern* best() const { return best_; }

 private:
  const Pattern* best_ = nullptr;
};

class OverrideIndex::Every {
 public:
  static constexpr bool kAll = true;
  explicit Every(Matches& matches) : matches_(matches) {}
  [[nodiscard]] bool wants(const Pattern& /*pattern*/) const { return true; }
  void take(const Pattern& pattern) { matches_.add(*pattern.override); }

 private:
  Matches& matches_;
};

void OverrideIndex::Matches::add(const Override& override) {
  if (count_ < found_.size()) {
    found_[count_++] = &override;
    return;
  }
  const auto oldest = std::ranges::min_element(found_, is_older);
  if (is_older(*oldest, &override)) *oldest = &override;
}

OverrideIndex::Table::Table(size_t most)
    : slots_(std::bit_ceil(most + most / 2 + 1)),
      filter_shift_(static_cast<unsigned>(std::countl_zero(std::max<size_t>(8 * most, 64)))),
      filter_((std::numeric_limits<uint64_t>::max() >> filter_shift_) / 64 + 1) {
  all_.reserve(most);
}

void OverrideIndex::Table::add(uint64_t hash, const Override& override) {
  if (all_.size() == kPlace) return;
  const uint64_t bit = hash >> filter_shift_;
  filter_[bit / 64] |= uint64_t{1} << bit % 64;
  all_.push_back(&override);
  size_t i = hash & mask();
  while (slots_[i] != 0) i = (i + 1) & mask();
  slots_[i] = tag_of(hash) | static_cast<uint32_t>(all_.size());
}

OverrideIndex::OverrideIndex(std::vector<std::shared_ptr<const Override>> overrides)
    : all_(std::move(overrides)),
      exact_(all_.size()),
      prefixes_(static_cast<size_t>(std::ranges::count_if(all_, has_star))) {
  const auto id_of = [](const auto& each) { return each->id.text(); };
  if (!std::ranges::is_sorted(all_, {}, id_of)) std::ranges::sort(all_, {}, id_of);
  std::vector<const Override*> wildcards;
  for (const auto& each : all_) {
    exact_.add(hash_of(each->identifier), *each);
    if (has_star(each)) {
      wildcards.push_back(each.get());
    } else {
      has_plain_ = true;
    }
  }
  std::ranges::sort(wildcards, {}, &Override::identifier);
  for (const Override* const each : wildcards) {
    Pattern pattern = pattern_of(*each);
    if (is_prefix(pattern)) {
      add_prefix(pattern);
    } else {
      patterns_.push_back(std::move(pattern));
    }
  }
  // The maps point into it: nothing is added any more.
  for (const Pattern& pattern : patterns_) {
    add(pattern);
    with_middle_ += pattern.middle.empty() ? 0 : 1;
    lengths_.emplace(pattern.begin.size(), pattern.end.size());
  }
}

OverrideIndex::Pattern OverrideIndex::pattern_of(const Override& override) {
  const std::string_view text = override.identifier;
  const size_t first = text.find('*');
  const size_t last = text.rfind('*');
  Pattern pattern{.override = &override,
                  .begin = text.substr(0, first),
                  .end = text.substr(last + 1),
                  .middle = {},
                  .literal = 0,
                  .stars = static_cast<size_t>(std::ranges::count(text, '*'))};
  pattern.literal = text.size() - pattern.stars;
  for (size_t at = first; at < last;) {
    const size_t next = text.find('*', at + 1);
    if (next > at + 1) pattern.middle.push_back(text.substr(at + 1, next - at - 1));
    at = next;
  }
  return pattern;
}

bool OverrideIndex::is_more_specific(const Pattern& a, const Pattern& b) {
  const auto rank = [](const Pattern& pattern) {
    return std::tuple(pattern.literal, pattern.begin.size(),
                      std::numeric_limits<size_t>::max() - pattern.stars);
  };
  if (rank(a) != rank(b)) return rank(a) > rank(b);
  return a.override->identifier < b.override->identifier;
}

void OverrideIndex::add_prefix(const Pattern& pattern) {
  // "a*" and "a**" match the same; the first in byte order has fewer '*'.
  const uint64_t hash = hash_of(pattern.begin);
  if (const Override* const same = prefixes_.find(hash, Begins(pattern.begin))) {
    less_specific_[same].push_back(pattern.override);
    return;
  }
  prefixes_.add(hash, *pattern.override);
  insert_length(prefix_lengths_, pattern.begin.size());
}

OverrideIndex::Leaf& OverrideIndex::leaf_of(const Pattern& pattern) {
  insert_length(begin_lengths_, pattern.begin.size());
  const uint64_t begin_hash = hash_of(pattern.begin);
  Beginning* beginning = by_begin_.find(
      begin_hash, [&](const Beginning& each) { return each.begin == pattern.begin; });
  if (beginning == nullptr) {
    auto made = std::make_unique<Beginning>();
    made->begin = pattern.begin;
    beginning = &by_begin_.add(begin_hash, std::move(made));
  }
  if (pattern.end.empty()) return beginning->without_end;
  insert_length(beginning->end_lengths, pattern.end.size());
  const uint64_t end_hash = hash_of(pattern.end);
  Leaf* const leaf =
      beginning->by_end.find(end_hash, [&](const Leaf& each) { return each.end == pattern.end; });
  if (leaf != nullptr) return *leaf;
  auto made = std::make_unique<Leaf>();
  made->end = pattern.end;
  return beginning->by_end.add(end_hash, std::move(made));
}

void OverrideIndex::add(const Pattern& pattern) {
  Leaf& leaf = leaf_of(pattern);
  if (pattern.middle.empty()) {
    // "a*" and "a**" match the same.
    const Pattern* other = &pattern;
    if (leaf.plain == nullptr || is_more_specific(pattern, *leaf.plain)) {
      std::swap(leaf.plain, other);
    }
    if (other != nullptr) leaf.less_specific.push_back(other);
    return;
  }
  if (leaf.middles == nullptr) leaf.middles = std::make_unique<Middles>();
  add_middle(*leaf.middles, pattern);
}

size_t OverrideIndex::seen_bit(std::string_view part, size_t prefix) {
  uint64_t hash = 0;
  for (size_t i = 0; i < prefix; ++i) hash = hash << 8 | static_cast<uint8_t>(part[i]);
  hash *= 0x9E3779B97F4A7C15;
  return hash >> 52;
}

void OverrideIndex::add_middle(Middles& middles, const Pattern& pattern) {
  constexpr size_t kMaxPrefix = 4;
  const std::string_view longest = *std::ranges::max_element(
      pattern.middle, {}, [](std::string_view part) { return part.size(); });
  insert_length(middles.lengths, longest.size());
  middles.by_part[longest].push_back(&pattern);
  const size_t prefix = std::min<size_t>(middles.lengths.front(), kMaxPrefix);
  const auto mark = [&](std::string_view part) {
    const size_t bit = seen_bit(part, prefix);
    middles.seen[bit / 64] |= uint64_t{1} << bit % 64;
  };
  if (prefix == middles.prefix) return mark(longest);
  middles.prefix = prefix;
  middles.seen = {};
  for (const auto& [part, patterns] : middles.by_part) mark(part);
}

bool OverrideIndex::matches_middle(const Pattern& pattern, std::string_view text) {
  // The first place of each part leaves the most for the parts behind it.
  for (const std::string_view part : pattern.middle) {
    // Unlike std::string_view::find, this takes linear time for any bytes.
    const void* const at = memmem(text.data(), text.size(), part.data(), part.size());
    if (at == nullptr) return false;
    text.remove_prefix(static_cast<size_t>(static_cast<const char*>(at) - text.data()) +
                       part.size());
  }
  return true;
}

template <typename Wanted>
void OverrideIndex::find_middle(const Middles& middles, std::string_view text, Wanted& wanted) {
  const auto try_all = [&](const std::vector<const Pattern*>& patterns) {
    for (const Pattern* const pattern : patterns) {
      if (wanted.wants(*pattern) && matches_middle(*pattern, text)) wanted.take(*pattern);
    }
  };
  std::vector<const std::vector<const Pattern*>*> tried;  // a part may occur many times
  const auto try_rest = [&] {
    for (const auto& [part, patterns] : middles.by_part) {
      if (std::ranges::find(tried, &patterns) == tried.end()) try_all(patterns);
    }
  };
  constexpr size_t kMostLookups = 256;
  size_t lookups = 0;
  for (size_t at = 0; at + middles.prefix <= text.size(); ++at) {
    const std::string_view rest = text.substr(at);
    const size_t bit = seen_bit(rest, middles.prefix);
    if ((middles.seen[bit / 64] >> bit % 64 & 1) == 0) continue;
    for (const uint16_t length : middles.lengths) {
      if (length > rest.size()) break;
      // The first bytes of parts of many lengths occur in many places.
      if (++lookups > kMostLookups) return try_rest();
      const auto found = middles.by_part.find(rest.substr(0, length));
      if (found == middles.by_part.end()) continue;
      if (std::ranges::find(tried, &found->second) != tried.end()) continue;
      tried.push_back(&found->second);
      try_all(found->second);
    }
  }
}

std::string OverrideIndex::refusal_of(std::string_view identifier) const {
  if (find_exact(identifier) != nullptr) return {};
  if (all_.size() >= kMost) {
    return "the namespace has " + std::to_string(kMost) + " overrides: delete some";
  }
  const Override probe{.identifier = std::string(identifier)};
  if (!is_costly(probe)) return {};
  const Pattern pattern = pattern_of(probe);
  if (!pattern.middle.empty() && with_middle_ >= kMostWithMiddle) {
    return "the namespace has " + std::to_string(kMostWithMiddle) +
           " overrides with a part between two '*': delete some";
  }
  if (lengths_.size() >= kMostLengths &&
      !lengths_.contains({pattern.begin.size(), pattern.end.size()})) {
    return "the overrides of the namespace have " + std::to_string(kMostLengths) +
           " different pairs of lengths before the first and behind the last '*': use the lengths "
           "of another override, or delete some";
  }
  return {};
}

const Override* OverrideIndex::find_exact(std::string_view identifier) const {
  return exact_.find(hash_of(identifier),
                     [&](const Override& each) { return each.identifier == identifier; });
}

template <typename Wanted>
void OverrideIndex::find_in(const Leaf& leaf, std::string_view text, Wanted& wanted) {
  if (leaf.plain != nullptr && wanted.wants(*leaf.plain)) wanted.take(*leaf.plain);
  if constexpr (Wanted::kAll) {
    for (const Pattern* const pattern : leaf.less_specific) wanted.take(*pattern);
  }
  if (leaf.middles != nullptr) find_middle(*leaf.middles, text, wanted);
}

const Override* OverrideIndex::find_prefix(std::string_view identifier) const {
  for (size_t i = prefix_lengths_.size(); i > 0; --i) {
    const size_t length = prefix_lengths_[i - 1];
    if (length > identifier.size()) continue;
    const std::string_view begin = identifier.substr(0, length);
    const Override* const found = prefixes_.find(hash_of(begin), Begins(begin));
    if (found != nullptr) return found;
  }
  return nullptr;
}

template <typename Wanted>
void OverrideIndex::find_patterns(std::string_view identifier, Wanted& wanted) const {
  for (const uint16_t begin_length : begin_lengths_) {
    if (begin_length > identifier.size()) break;
    const std::string_view begin = identifier.substr(0, begin_length);
    const Beginning* const beginning =
        by_begin_.find(hash_of(begin), [&](const Beginning& each) { return each.begin == begin; });
    if (beginning == nullptr) continue;
    const std::string_view rest = identifier.substr(begin_length);
    find_in(beginning->without_end, rest, wanted);
    for (const uint16_t end_length : beginning->end_lengths) {
      if (end_length > rest.size()) break;
      const std::string_view end = rest.substr(rest.size() - end_length);
      const Leaf* const leaf =
          beginning->by_end.find(hash_of(end), [&](const Leaf& each) { return each.end == end; });
      if (leaf != nullptr) find_in(*leaf, rest.substr(0, rest.size() - end_length), wanted);
    }
  }
}

const Override* OverrideIndex::find(std::string_view identifier) const {
  // Only an identifier with a '*' can be the same as a wildcard.
  if (has_plain_ || identifier.find('*') != std::string_view::npos) {
    if (const Override* const exact = find_exact(identifier)) return exact;
  }
  const Override* const prefix = find_prefix(identifier);
  MostSpecific wanted;
  find_patterns(identifier, wanted);
  const Pattern* const pattern = wanted.best();
  if (pattern == nullptr) return prefix;
  if (prefix == nullptr || is_more_specific(*pattern, pattern_of(*prefix))) {
    return pattern->override;
  }
  return prefix;
}

OverrideIndex::Matches OverrideIndex::find_newest(std::string_view identifier) const {
  Matches matches;
  // A wildcard is found as such.
  const Override* const exact = has_plain_ ? find_exact(identifier) : nullptr;
  if (exact != nullptr && exact->identifier.find('*') == std::string::npos) matches.add(*exact);
  for (const uint16_t length : prefix_lengths_) {
    if (length > identifier.size()) break;
    const std::string_view begin = identifier.substr(0, length);
    const Override* const found = prefixes_.find(hash_of(begin), Begins(begin));
    if (found == nullptr) continue;
    matches.add(*found);
    const auto others = less_specific_.find(found);
    if (others == less_specific_.end()) continue;
    for (const Override* const other : others->second) matches.add(*other);
  }
  Every wanted(matches);
  find_patterns(identifier, wanted);
  return matches;
}

bool OverrideIndex::is_costly(const Override& override) {
  return override.identifier.find('*') != std::string::npos && !is_prefix(pattern_of(override));
}

}  // namespace weir::catalog
