#include "base/percent.h"

#include <gtest/gtest.h>

namespace weir::base {
namespace {

TEST(PercentDecoded, TakesTwoDigitsForAByte) {
  EXPECT_EQ(percent_decoded("a%40b%2Fc%25"), "a@b/c%");
  EXPECT_EQ(percent_decoded(""), "");
  EXPECT_EQ(percent_decoded("%00"), std::string(1, '\0'));
  EXPECT_EQ(percent_decoded("%fF"), "\xff");
}

TEST(PercentDecoded, RefusesAPercentWithoutTwoDigits) {
  for (const char* bad : {"%", "%4", "a%4", "%zz", "%4z", "%%41"}) {
    EXPECT_FALSE(percent_decoded(bad)) << bad;
  }
}

}  // namespace
}  // namespace weir::base
