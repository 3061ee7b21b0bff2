#include "frontends/wrong_keys.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::frontends {
namespace {

rules::KeyHash key(int number) {
  return rules::hash_of("wrong-" + std::to_string(number));
}

MonoTime at(Nanos time) {
  return MonoTime(std::chrono::hours(1)) + time;
}

TEST(WrongKeys, DelayNoRepetitionOfAKey) {
  WrongKeys wrong;
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(wrong.delays(1, key(0), at(Nanos(i)))) << i;
}

TEST(WrongKeys, DelayAnAddressThatTriesManyKeys) {
  WrongKeys wrong;
  constexpr int kKeys = static_cast<int>(WrongKeys::kKeys);
  for (int i = 0; i < kKeys; ++i) EXPECT_FALSE(wrong.delays(1, key(i), at({}))) << i;
  for (int i = kKeys; i < 100; ++i) EXPECT_TRUE(wrong.delays(1, key(i), at({}))) << i;
  EXPECT_FALSE(wrong.delays(2, key(100), at({}))) << "another address";
  EXPECT_FALSE(wrong.delays(1, key(99), at({}))) << "a key that was delayed once";
  EXPECT_TRUE(wrong.delays(1, key(0), at({}))) << "a key that was sent long ago";
  const Nanos interval = WrongKeys::kInterval;
  EXPECT_TRUE(wrong.delays(1, key(200), at(interval - Nanos(1))));
  EXPECT_FALSE(wrong.delays(1, key(201), at(interval)));
  EXPECT_TRUE(wrong.delays(1, key(202), at(interval)));
}

TEST(WrongKeys, RememberABoundedNumberOfAddresses) {
  WrongKeys wrong;
  for (uint64_t i = 0; i < WrongKeys::kAddresses; ++i) {
    EXPECT_FALSE(wrong.delays(i, key(0), at({})));
  }
  EXPECT_TRUE(wrong.delays(WrongKeys::kAddresses, key(0), at({})));
  EXPECT_FALSE(wrong.delays(0, key(0), at(std::chrono::seconds(30))));
  const Nanos later = WrongKeys::kRemembered + Nanos(1);
  EXPECT_FALSE(wrong.delays(WrongKeys::kAddresses, key(0), at(later)));
}

}  // namespace
}  // namespace weir::frontends
