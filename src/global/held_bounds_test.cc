#include "global/held_bounds.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::global {
namespace {

constexpr MonoTime mono(int64_t ms) {
  return MonoTime(Millis(ms));
}
constexpr WallTime wall(int64_t ms) {
  return WallTime(Millis(ms));
}
const Tenant kApi{.workspace = "", .ns = "api"};

TEST(HeldMaximum, IsTheLargestValueWhoseTimeIsNotOver) {
  HeldMaximum held;
  EXPECT_EQ(held.at(mono(0)), 0U);
  held.hold(3, mono(100));
  held.hold(1, mono(200));
  held.hold(2, mono(50));
  EXPECT_EQ(held.at(mono(99)), 3U);
  EXPECT_EQ(held.at(mono(100)), 1U);
  EXPECT_EQ(held.at(mono(200)), 0U);
}

TEST(KnownWindows, EndAtMultiplesOfTheirLength) {
  KnownWindows windows;
  windows.note(kApi, Millis(1000), false, wall(10'200));
  EXPECT_EQ(windows.left(kApi, wall(10'300)), Nanos(Millis(700)));
  EXPECT_EQ(windows.left(kApi, wall(11'999)), Nanos(Millis(1)));
  // Not used in two of them.
  EXPECT_EQ(windows.left(kApi, wall(12'200)), Nanos(0));
  windows.note(kApi, Millis(5000), false, wall(12'200));
  windows.note(kApi, Millis(1000), false, wall(12'200));
  EXPECT_EQ(windows.left(kApi, wall(12'200)), Nanos(Millis(2800)));
}

TEST(KnownWindows, AreLongerForWhatCountsAWholeLengthAfterIt) {
  KnownWindows windows;
  windows.note(kApi, Millis(1025), true, wall(10'200));
  EXPECT_EQ(windows.left(kApi, wall(10'300)), Nanos(Millis(1025)));
}

TEST(KnownWindows, ForgetNoLengthOfMany) {
  KnownWindows windows;
  for (int64_t length = 1; length <= 20; ++length) {
    windows.note(kApi, Millis(10'000 * length), false, wall(5000));
  }
  EXPECT_EQ(windows.left(kApi, wall(5000)), Nanos(Millis(195'000)));
  // The shortest are one, wherever its windows begin.
  EXPECT_GT(windows.left(kApi, wall(199'999)), Nanos(Millis(1)));
}

TEST(KnownWindows, KeepWhatHasNoRoomTogether) {
  KnownWindows windows;
  for (size_t i = 0; i <= KnownWindows::kMaxTenants; ++i) {
    windows.note({.workspace = "", .ns = std::to_string(i)}, Millis(60'000), false, wall(0));
  }
  EXPECT_EQ(windows.rest_left(wall(0)), Nanos(Millis(60'000)));
  EXPECT_EQ(windows.left({.workspace = "", .ns = "unknown"}, wall(0)), Nanos(Millis(60'000)));
  size_t visited = 0;
  windows.each(wall(0), [&](const Tenant&, Nanos) { ++visited; });
  EXPECT_EQ(visited, KnownWindows::kMaxTenants);
  // Later there is room again.
  windows.note(kApi, Millis(1000), false, wall(180'000));
  EXPECT_EQ(windows.rest_left(wall(180'000)), Nanos(0));
  EXPECT_EQ(windows.left(kApi, wall(180'000)), Nanos(Millis(1000)));
}

}  // namespace
}  // namespace weir::global
