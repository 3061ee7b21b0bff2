#include "rules/root_keys.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <string>

namespace weir::rules {
namespace {

TEST(KeyHash, IsSha256) {
  EXPECT_EQ(to_hex(hash_of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(hash_of("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

RC_GTEST_PROP(KeyHash, IsParsedFromItsHexadecimalForm, (const std::string& key)) {
  RC_ASSERT(from_hex(to_hex(hash_of(key))) == hash_of(key));
}

TEST(KeyHash, IsParsedFromNothingElse) {
  const std::string right = to_hex(hash_of("abc"));
  EXPECT_TRUE(from_hex(right).has_value());
  EXPECT_FALSE(from_hex("").has_value());
  EXPECT_FALSE(from_hex(right.substr(1)).has_value());
  EXPECT_FALSE(from_hex(right + "0").has_value());
  for (const char invalid : {'g', 'A', ' ', '\0', '\xff'}) {
    std::string text = right;
    text[0] = invalid;
    EXPECT_FALSE(from_hex(text).has_value());
    text = right;
    text.back() = invalid;
    EXPECT_FALSE(from_hex(text).has_value());
  }
}

TEST(MakeKey, MakesThirtyLettersAndDigitsAfterAPrefix) {
  EXPECT_EQ(make_key("weir_root_", {0, 0, 0}), "weir_root_" + std::string(30, 'A'));
  const std::string key = make_key("weir_root_", {UINT64_MAX, 0x0123456789abcdef, 1});
  EXPECT_EQ(key.size(), 40u);
  EXPECT_TRUE(key.starts_with("weir_root_"));
  EXPECT_EQ(
      key.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", 10),
      std::string::npos);
  EXPECT_GE(key.size(), kMinKeyBytes);
}

RC_GTEST_PROP(MakeKey, MakesOtherKeysFromOtherBits, ()) {
  const auto bits = *rc::gen::inRange<uint64_t>(0, uint64_t{1} << 58);
  const auto others = *rc::gen::inRange<uint64_t>(0, uint64_t{1} << 58);
  RC_ASSERT((make_key("weir_root_", {1, bits, 2}) == make_key("weir_root_", {1, others, 2})) ==
            (bits == others));
}

TEST(SameSecret, ComparesEveryByteAndTheLength) {
  EXPECT_TRUE(same_secret("", ""));
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("abc", "abd"));
  EXPECT_FALSE(same_secret("abc", "xbc"));
  EXPECT_FALSE(same_secret("abc", "ab"));
  EXPECT_FALSE(same_secret("", "a"));
}

TEST(RootKeys, ContainExactlyTheAddedKeys) {
  RootKeys keys;
  EXPECT_FALSE(keys.contains(""));
  EXPECT_FALSE(keys.contains("first"));
  keys.add(hash_of("first"));
  keys.add(hash_of("second"));
  EXPECT_TRUE(keys.contains("first"));
  EXPECT_TRUE(keys.contains("second"));
  for (const char* other : {"", "firs", "first ", "First", "firstsecond"}) {
    EXPECT_FALSE(keys.contains(other));
  }
  EXPECT_FALSE(keys.contains(to_hex(hash_of("first"))));  // the hash is not a key
}

TEST(RootKeys, ContainOnlyTheReplacement) {
  RootKeys keys;
  keys.add(hash_of("first"));
  keys.add(hash_of("second"));
  EXPECT_TRUE(keys.contains("first") && keys.contains("second"));
  for (const char* key : {"third", "fourth"}) {
    keys.replace(hash_of(key));
    EXPECT_TRUE(keys.contains(key));
    EXPECT_FALSE(keys.contains("first") || keys.contains("second"));
  }
  EXPECT_FALSE(keys.contains("third"));
}

}  // namespace
}  // namespace weir::rules
