#include "base/word_packer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace weir::base {
namespace {

// A copy with nothing before or behind it, so that a sanitizer sees a read beyond it.
struct Alone {
  explicit Alone(const std::string& text) : bytes(new char[text.size()]), size(text.size()) {
    text.copy(bytes.get(), size);
  }
  [[nodiscard]] std::string_view view() const { return {bytes.get(), size}; }

  std::unique_ptr<char[]> bytes;
  size_t size;
};

std::vector<uint64_t> packed(const std::vector<std::string>& parts) {
  size_t bytes = 0;
  for (const std::string& part : parts) bytes += part.size();
  // Exactly the room asked for; what was there must not show through.
  std::vector<uint64_t> words((bytes + 7) / 8, 0xdead'beef'dead'beef);
  WordPacker packer(words.data());
  for (const std::string& part : parts) packer.add(Alone(part).view());
  packer.finish();
  return words;
}

std::vector<uint64_t> copied(const std::vector<std::string>& parts) {
  const std::string joined = std::accumulate(parts.begin(), parts.end(), std::string());
  std::vector<uint64_t> words((joined.size() + 7) / 8, 0);
  if (!joined.empty()) std::memcpy(words.data(), joined.data(), joined.size());
  return words;
}

TEST(WordPacker, PacksEveryLengthBehindEveryOther) {
  const std::string bytes = "\xff\x01\x80\x7f-the quick brown fox-\xfe";
  for (size_t first = 0; first <= 17; ++first) {
    for (size_t second = 0; second <= 17; ++second) {
      const std::vector<std::string> parts{bytes.substr(0, first), bytes.substr(1, second), "z"};
      ASSERT_EQ(packed(parts), copied(parts)) << first << " and " << second;
    }
  }
}

TEST(WordPacker, WritesNothingForNothing) {
  EXPECT_TRUE(packed({}).empty());
  EXPECT_TRUE(packed({"", "", ""}).empty());
}

TEST(WordPacker, PadsTheLastWordWithZerosAndWritesNoWordMore) {
  EXPECT_EQ(packed({"abcdefg"}), (std::vector<uint64_t>{0x0067'6665'6463'6261}));
  EXPECT_EQ(packed({"abcd", "efgh"}), (std::vector<uint64_t>{0x6867'6665'6463'6261}));
  EXPECT_EQ(packed({"abcdefgh", "i"}), (std::vector<uint64_t>{0x6867'6665'6463'6261, 0x69}));
  // A guard behind the last word, which a word too many would overwrite.
  std::array<uint64_t, 2> words{0, 7};
  WordPacker packer(words.data());
  packer.add("abcdefgh");
  packer.finish();
  EXPECT_EQ(words[1], 7u);
}

RC_GTEST_PROP(WordPacker, EqualsCopyingTheBytes, ()) {
  for (int turn = 0; turn < 5; ++turn) {
    std::vector<std::string> parts;
    for (int part = 0; part < 3; ++part) {
      const auto size = *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<size_t>(1, 101));
      parts.push_back(*rc::gen::container<std::string>(size, rc::gen::arbitrary<char>()));
    }
    RC_ASSERT(packed(parts) == copied(parts));
  }
}

}  // namespace
}  // namespace weir::base
