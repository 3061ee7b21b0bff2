#include "base/flat_map.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weir::base {
namespace {

TEST(FlatMap, SaysWhetherAValueIsNew) {
  FlatMap<int, std::string> map;
  EXPECT_EQ(map.find(3), nullptr);
  EXPECT_TRUE(map.obtain(3).second);
  map[3] = "three";
  const auto [value, created] = map.obtain(3);
  EXPECT_FALSE(created);
  EXPECT_EQ(value, "three");
  map.erase(4);
  EXPECT_EQ(map.size(), 1U);
}

RC_GTEST_PROP(FlatMap, EqualsAMapAfterAnyChanges, ()) {
  const auto changes = *rc::gen::container<std::vector<std::pair<uint8_t, uint8_t>>>(
      rc::gen::pair(rc::gen::inRange<uint8_t>(0, 12), rc::gen::inRange<uint8_t>(0, 5)));
  FlatMap<uint8_t, uint8_t> map;
  std::map<uint8_t, uint8_t> expected;
  for (const auto& [key, value] : changes) {
    if (value == 0) {
      map.erase(key);
      expected.erase(key);
    } else {
      map[key] = value;
      expected[key] = value;
    }
    RC_ASSERT(map.empty() == expected.empty());
    RC_ASSERT((map.find(key) != nullptr) == expected.contains(key));
  }
  RC_ASSERT(map.size() == expected.size());
  RC_ASSERT(std::equal(
      map.begin(), map.end(), expected.begin(), expected.end(),
      [](const auto& a, const auto& b) { return a.first == b.first && a.second == b.second; }));
}

}  // namespace
}  // namespace weir::base
