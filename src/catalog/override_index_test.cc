#include "catalog/override_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <tuple>

namespace weir::catalog {
namespace {

OverrideIndex index_of(const std::vector<std::string>& identifiers) {
  std::vector<std::shared_ptr<const Override>> overrides;
  for (const std::string& identifier : identifiers) {
    overrides.push_back(std::make_shared<Override>(Override{.identifier = identifier}));
  }
  return OverrideIndex(std::move(overrides));
}

std::string found_in(const OverrideIndex& index, std::string_view identifier) {
  const Override* const found = index.find(identifier);
  return found == nullptr ? "none" : found->identifier;
}

TEST(OverrideIndex, PrefersTheSameBytes) {
  const OverrideIndex index = index_of({"alice", "al*", "*", "al*ce"});
  EXPECT_EQ(found_in(index, "alice"), "alice");
  EXPECT_EQ(found_in(index, "alece"), "al*ce");
  EXPECT_EQ(found_in(index, "alan"), "al*");
  EXPECT_EQ(found_in(index, "bob"), "*");
  EXPECT_EQ(found_in(index, ""), "*");
  EXPECT_EQ(found_in(index, "al*ce"), "al*ce");
}

TEST(OverrideIndex, PrefersMoreBytesThenALongerBeginningThenFewerStars) {
  EXPECT_EQ(found_in(index_of({"a*", "*bc"}), "abc"), "*bc");
  EXPECT_EQ(found_in(index_of({"ab*", "*bc", "a*c"}), "abc"), "ab*");
  EXPECT_EQ(found_in(index_of({"a*c*", "a*c"}), "abc"), "a*c");
  EXPECT_EQ(found_in(index_of({"a**", "a*"}), "abc"), "a*");
  EXPECT_EQ(found_in(index_of({"*b*", "*c*"}), "abc"), "*b*");
}

TEST(OverrideIndex, MatchesBytesAsTheyAre) {
  const OverrideIndex index = index_of({"k\xC3\xB6ln-*", "*\n*", "a.c", "[x]*"});
  EXPECT_EQ(found_in(index, "k\xC3\xB6ln-1"), "k\xC3\xB6ln-*");
  EXPECT_EQ(found_in(index, "koln-1"), "none");
  EXPECT_EQ(found_in(index, "line\nbreak"), "*\n*");
  EXPECT_EQ(found_in(index, "abc"), "none");
  EXPECT_EQ(found_in(index, "[x]y"), "[x]*");
  EXPECT_EQ(found_in(index, std::string("a\0b", 3)), "none");
}

TEST(OverrideIndex, DoesNotUseAByteTwice) {
  const OverrideIndex index = index_of({"aba*ba", "x*yy*y"});
  EXPECT_EQ(found_in(index, "aba"), "none");
  EXPECT_EQ(found_in(index, "ababa"), "aba*ba");
  EXPECT_EQ(found_in(index, "xyy"), "none");
  EXPECT_EQ(found_in(index, "xyyy"), "x*yy*y");
}

// The definition, without an index.
bool matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] != '*') {
    return !text.empty() && text[0] == pattern[0] && matches(pattern.substr(1), text.substr(1));
  }
  return matches(pattern.substr(1), text) || (!text.empty() && matches(pattern, text.substr(1)));
}

std::string naive(const std::vector<std::string>& identifiers, const std::string& text) {
  if (std::ranges::find(identifiers, text) != identifiers.end()) return text;
  const auto rank = [](const std::string& pattern) {
    const auto stars = std::ranges::count(pattern, '*');
    return std::tuple(-(static_cast<long>(pattern.size()) - stars),
                      -static_cast<long>(pattern.find('*')), stars, pattern);
  };
  std::optional<std::string> best;
  for (const std::string& pattern : identifiers) {
    if (pattern.find('*') == std::string::npos || !matches(pattern, text)) continue;
    if (!best || rank(pattern) < rank(*best)) best = pattern;
  }
  return best.value_or("none");
}

TEST(OverrideIndex, FindsWhatTheDefinitionSays) {
  std::mt19937 random(7);
  const auto word = [&](const std::string& letters, size_t most) {
    std::string text;
    for (size_t i = random() % (most + 1); i > 0; --i) text += letters[random() % letters.size()];
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> identifiers;
    for (size_t i = random() % 30; i > 0; --i) identifiers.push_back(word("ab**c", 8));
    std::ranges::sort(identifiers);
    identifiers.erase(std::unique(identifiers.begin(), identifiers.end()), identifiers.end());
    const OverrideIndex index = index_of(identifiers);
    for (int i = 0; i < 100; ++i) {
      const std::string text = word(i % 4 == 0 ? "abc*" : "abc", 10);
      ASSERT_EQ(found_in(index, text), naive(identifiers, text)) << text;
      const auto count = std::ranges::count_if(
          identifiers, [&](const std::string& each) { return matches(each, text); });
      const OverrideIndex::Matches found = index.find_newest(text);
      ASSERT_EQ(found.all().size(), std::min<size_t>(static_cast<size_t>(count), 8)) << text;
      for (const Override* const each : found.all()) {
        ASSERT_TRUE(matches(each->identifier, text)) << each->identifier << " " << text;
      }
    }
  }
}

TEST(OverrideIndex, FindsPartsOfManyLengthsThatOccurInManyPlaces) {
  std::vector<std::string> identifiers;
  for (size_t length = 1; length <= 150; ++length) {
    identifiers.push_back("*" + std::string(length, 'a') + "*");
    identifiers.push_back("*" + std::string(length, 'a') + "b*");
  }
  const OverrideIndex index = index_of(identifiers);
  EXPECT_EQ(found_in(index, std::string(500, 'a')), "*" + std::string(150, 'a') + "*");
  EXPECT_EQ(found_in(index, std::string(99, 'a') + "c"), "*" + std::string(99, 'a') + "*");
  EXPECT_EQ(found_in(index, std::string(500, 'a') + "b"), "*" + std::string(150, 'a') + "b*");
  EXPECT_EQ(found_in(index, std::string(500, 'b')), "none");
  EXPECT_EQ(index.find_newest(std::string(500, 'a')).all().size(), 8U);
}

TEST(OverrideIndex, RefusesMorePartsBetweenStarsThanItCanTry) {
  std::vector<std::string> identifiers;
  for (size_t i = 0; i < OverrideIndex::kMostWithMiddle; ++i) {
    identifiers.push_back("*-" + std::to_string(i) + "-*");
  }
  const OverrideIndex index = index_of(identifiers);
  EXPECT_NE(index.refusal_of("*-more-*"), "");
  EXPECT_EQ(index.refusal_of("*-7-*"), "") << "it exists";
  EXPECT_EQ(index.refusal_of("more*"), "");
  EXPECT_EQ(index.refusal_of("*more"), "");
  EXPECT_EQ(index.refusal_of("more"), "");
  identifiers.pop_back();
  EXPECT_EQ(index_of(identifiers).refusal_of("*-more-*"), "");
}

TEST(OverrideIndex, RefusesMoreLengthsThanItCanTry) {
  std::vector<std::string> identifiers;
  for (size_t i = 0; i < OverrideIndex::kMostLengths; ++i) {
    identifiers.push_back(std::string(i % 16, 'b') + "*" + std::string(1 + i / 16, 'e'));
  }
  const OverrideIndex index = index_of(identifiers);
  EXPECT_NE(index.refusal_of("b*" + std::string(17, 'e')), "");
  EXPECT_NE(index.refusal_of("b*m*"), "");
  EXPECT_EQ(index.refusal_of("x*xx"), "") << "other bytes of a known length";
  EXPECT_EQ(index.refusal_of("more*"), "") << "only a beginning";
  EXPECT_EQ(index.refusal_of("more"), "");
}

TEST(OverrideIndex, FindsTheNewestThatMatch) {
  std::vector<std::shared_ptr<const Override>> overrides;
  int64_t time = 0;
  for (const char* const each : {"alice", "a*", "al*", "*", "a**", "*e", "**e", "a*c*", "al*e"}) {
    overrides.push_back(std::make_shared<Override>(
        Override{.identifier = each, .since = WallTime(Millis(++time))}));
  }
  const OverrideIndex index(std::move(overrides));
  std::vector<std::string> found;
  const OverrideIndex::Matches newest = index.find_newest("alice");
  for (const Override* const each : newest.all()) found.push_back(each->identifier);
  std::ranges::sort(found);
  EXPECT_EQ(found,
            (std::vector<std::string>{"*", "**e", "*e", "a*", "a**", "a*c*", "al*", "al*e"}));
}

}  // namespace
}  // namespace weir::catalog
