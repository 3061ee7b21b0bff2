#include "catalog/text_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace weir::catalog {
namespace {

TEST(TextHash, DiffersWithEveryByteAndLength) {
  const base::KeyedHash secret(7);
  std::set<uint64_t> seen;
  size_t made = 0;
  for (const size_t size : {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 55, 56, 57, 64, 511, 512, 513}) {
    const std::string text(size, '\0');
    EXPECT_TRUE(seen.insert(TextHash::hash(secret, text)).second) << size;
    ++made;
    for (size_t i = 0; i < size; ++i) {
      std::string other = text;
      other[i] = '\x80';
      EXPECT_TRUE(seen.insert(TextHash::hash(secret, other)).second) << size << " " << i;
      ++made;
    }
  }
  EXPECT_EQ(seen.size(), made);
}

TEST(TextHash, DependsOnTheBytesAndTheSecretOnly) {
  const std::string padded = "##customer-7-of-a-long-name##";
  const std::string_view inside = std::string_view(padded).substr(2, padded.size() - 4);
  for (size_t size = 0; size <= inside.size(); ++size) {
    const std::string copy(inside.substr(0, size));
    EXPECT_EQ(TextHash()(copy), TextHash()(inside.substr(0, size))) << size;
    EXPECT_NE(TextHash::hash(base::KeyedHash(1), copy), TextHash::hash(base::KeyedHash(2), copy));
  }
}

}  // namespace
}  // namespace weir::catalog
