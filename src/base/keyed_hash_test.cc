#include "base/keyed_hash.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/word_packer.h"

namespace weir::base {
namespace {

// As the table hashes a key: in whole words, with its length in the tweak.
uint64_t hash_of(const KeyedHash& hash, const std::string& key) {
  std::vector<uint64_t> words(words_for(key.size()));
  WordPacker packer(words.data());
  packer.add(key);
  return hash(words.data(), words.size(), key.size());
}

TEST(KeyedHash, IsTheSameForTheSameSeedTweakAndWords) {
  const std::array<uint64_t, 3> words{1, 2, 3};
  EXPECT_EQ(KeyedHash(7)(words.data(), 3, 9), KeyedHash(7)(words.data(), 3, 9));
}

TEST(KeyedHash, DiffersWithTheSeedAndWithTheTweak) {
  const std::array<uint64_t, 3> words{1, 2, 3};
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 1000; ++i) {
    seen.insert(KeyedHash(i)(words.data(), 3, 0));
    seen.insert(KeyedHash(7)(words.data(), 3, i + 1));
  }
  EXPECT_EQ(seen.size(), 2000u);
}

TEST(KeyedHash, DiffersWithEveryBitOfEveryWordAtEveryLength) {
  const KeyedHash hash(7);
  for (size_t count = 1; count <= 13; ++count) {
    std::vector<uint64_t> words(count, 0x0123'4567'89ab'cdef);
    std::set<uint64_t> seen{hash(words.data(), count, 0)};
    for (size_t bit = 0; bit < 64 * count; ++bit) {
      words[bit / 64] ^= uint64_t{1} << (bit % 64);
      seen.insert(hash(words.data(), count, 0));
      words[bit / 64] ^= uint64_t{1} << (bit % 64);
    }
    ASSERT_EQ(seen.size(), 64 * count + 1) << count << " words";
  }
}

TEST(KeyedHash, DiffersWithTheNumberOfWordsEvenIfTheRestIsZero) {
  const KeyedHash hash(7);
  const std::array<uint64_t, 13> zeros{};
  std::set<uint64_t> seen;
  for (size_t count = 0; count <= zeros.size(); ++count) seen.insert(hash(zeros.data(), count, 0));
  EXPECT_EQ(seen.size(), zeros.size() + 1);
}

TEST(KeyedHash, DistinguishesTrailingZerosWithinAWordOnlyByTheLengthInTheTweak) {
  const KeyedHash hash(7);
  const std::string shorter("a\0b", 3);
  const std::string longer("a\0b\0\0", 5);
  EXPECT_NE(hash_of(hash, shorter), hash_of(hash, longer));
  uint64_t word = 0;
  std::memcpy(&word, longer.data(), longer.size());
  EXPECT_EQ(hash(&word, 1, 3), hash_of(hash, shorter));  // the same word: the caveat
}

// Sequential keys over 256 buckets, by the low and by the high bits. The chi-square sum
// of 255 degrees of freedom is beyond 400 once in some hundred million draws; seeds and
// keys are fixed, so the test is deterministic.
TEST(KeyedHash, SpreadsSequentialKeysEvenly) {
  constexpr int kBuckets = 256;
  constexpr int64_t kKeys = 100'000;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{0x5eed}}) {
    const KeyedHash hash(seed);
    std::array<int64_t, kBuckets> low{};
    std::array<int64_t, kBuckets> high{};
    for (int64_t key = 0; key < kKeys; ++key) {
      const uint64_t value = hash_of(hash, "user-" + std::to_string(key));
      ++low[value % kBuckets];
      ++high[value >> 56];
    }
    for (const auto& buckets : {low, high}) {
      // sum of (n - mean)^2 / mean, times kBuckets^2 to stay whole.
      int64_t sum = 0;
      for (const int64_t n : buckets) sum += (n * kBuckets - kKeys) * (n * kBuckets - kKeys);
      EXPECT_LT(sum / (kKeys * kBuckets), 400) << "seed " << seed;
      EXPECT_GT(sum / (kKeys * kBuckets), 100) << "seed " << seed;  // too even is a pattern too
    }
  }
}

TEST(KeyedHash, ChangesAboutHalfOfItsBitsWithAnyBitOfTheKey) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const KeyedHash hash(seed);
    std::vector<uint64_t> words(1 + seed % 8, seed);
    const uint64_t before = hash(words.data(), words.size(), 0);
    const auto bits = static_cast<int>(64 * words.size());
    int changed = 0;
    for (int bit = 0; bit < bits; ++bit) {
      words[bit / 64] ^= uint64_t{1} << (bit % 64);
      changed += std::popcount(before ^ hash(words.data(), words.size(), 0));
      words[bit / 64] ^= uint64_t{1} << (bit % 64);
    }
    EXPECT_GT(changed, 28 * bits) << "seed " << seed;
    EXPECT_LT(changed, 36 * bits) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weir::base
