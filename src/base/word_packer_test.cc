#include "base/word_packer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace weir::base {
namespace {

// A copy in its own allocation, so that a sanitizer detects a read beyond it.
struct Isolated {
  explicit Isolated(const std::string& text) : bytes(new char[text.size()]), size(text.size()) {
    text.copy(bytes.get(), size);
  }
  [[nodiscard]] std::string_view view() const { return {bytes.get(), size}; }

  std::unique_ptr<char[]> bytes;
  size_t size;
};

std::vector<uint64_t> packed(const std::vector<std::string>& parts) {
  size_t count = 0;
  for (const std::string& part : parts) count += words_for(part.size());
  // Exactly the required size; earlier contents must not remain.
  std::vector<uint64_t> words(count, 0xdead'beef'dead'beef);
  WordPacker packer(words.data());
  for (const std::string& part : parts) packer.add(Isolated(part).view());
  return words;
}

// The same by copying bytes: whole words, the last one ends at the end of the string.
std::vector<uint64_t> copied(const std::vector<std::string>& parts) {
  std::vector<uint64_t> words;
  for (const std::string& part : parts) {
    for (size_t at = 0; at < part.size(); at += 8) {
      const size_t from = at + 8 <= part.size() || part.size() < 8 ? at : part.size() - 8;
      uint64_t word = 0;
      std::memcpy(&word, part.data() + from, std::min<size_t>(8, part.size()));
      words.push_back(word);
    }
  }
  return words;
}

TEST(WordPacker, PacksEveryLengthAfterEveryOther) {
  const std::string bytes = "\xff\x01\x80\x7f-the quick brown fox-\xfe";
  for (size_t first = 0; first <= 17; ++first) {
    for (size_t second = 0; second <= 17; ++second) {
      const std::vector<std::string> parts{bytes.substr(0, first), bytes.substr(1, second), "z"};
      ASSERT_EQ(packed(parts), copied(parts)) << first << " and " << second;
    }
  }
}

TEST(WordPacker, WritesNothingForEmptyStrings) {
  EXPECT_TRUE(packed({}).empty());
  EXPECT_TRUE(packed({"", "", ""}).empty());
}

TEST(WordPacker, PadsAShortStringWithZerosAndOverlapsALongOne) {
  EXPECT_EQ(packed({"abcdefg"}), (std::vector<uint64_t>{0x0067'6665'6463'6261}));
  EXPECT_EQ(packed({"abcdefgh", "i"}), (std::vector<uint64_t>{0x6867'6665'6463'6261, 0x69}));
  EXPECT_EQ(packed({"abcdefghi"}),
            (std::vector<uint64_t>{0x6867'6665'6463'6261, 0x6968'6766'6564'6362}));
}

RC_GTEST_PROP(WordPacker, EqualsCopyingTheBytes, ()) {
  for (int round = 0; round < 5; ++round) {
    std::vector<std::string> parts;
    for (int part = 0; part < 3; ++part) {
      const auto size = *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<size_t>(1, 101));
      parts.push_back(*rc::gen::container<std::string>(size, rc::gen::arbitrary<char>()));
    }
    RC_ASSERT(packed(parts) == copied(parts));
  }
}

RC_GTEST_PROP(WordPacker, PacksStringsOfOneLengthEquallyOnlyIfTheyAreEqual, ()) {
  const auto size = *rc::gen::inRange<size_t>(1, 40);
  const auto one = *rc::gen::container<std::string>(size, rc::gen::inRange('a', 'c'));
  const auto two = *rc::gen::container<std::string>(size, rc::gen::inRange('a', 'c'));
  RC_ASSERT((packed({one}) == packed({two})) == (one == two));
}

}  // namespace
}  // namespace weir::base
