#include "base/percent.h"

#include <gtest/gtest.h>

namespace weir::base {
namespace {

TEST(PercentDecode, DecodesTwoDigitsToAByte) {
  EXPECT_EQ(percent_decode("a%40b%2Fc%25"), "a@b/c%");
  EXPECT_EQ(percent_decode(""), "");
  EXPECT_EQ(percent_decode("%00"), std::string(1, '\0'));
  EXPECT_EQ(percent_decode("%fF"), "\xff");
}

TEST(PercentDecode, RejectsAPercentWithoutTwoDigits) {
  for (const char* bad : {"%", "%4", "a%4", "%zz", "%4z", "%%41"}) {
    EXPECT_FALSE(percent_decode(bad)) << bad;
  }
}

}  // namespace
}  // namespace weir::base
