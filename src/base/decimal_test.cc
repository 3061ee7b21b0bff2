#include "base/decimal.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>

namespace weir::base {
namespace {

std::string text_of(auto number) {
  std::array<char, kMaxDecimal> text;
  return {text.data(), put_decimal(text.data(), number)};
}

TEST(Decimal, WritesNumbersOnBothSidesOfEachLength) {
  uint64_t power = 1;
  for (int digits = 1; digits <= 20; ++digits, power *= 10) {
    for (const uint64_t number : {power - 1, power, power + 1}) {
      EXPECT_EQ(text_of(number), std::to_string(number));
    }
    if (digits == 20) break;
  }
  EXPECT_EQ(text_of(std::numeric_limits<uint64_t>::max()), "18446744073709551615");
}

TEST(Decimal, WritesNegativeNumbers) {
  for (const int64_t number :
       {int64_t{-1}, int64_t{-10}, int64_t{-99'999'999}, int64_t{-100'000'000},
        std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(text_of(number), std::to_string(number));
  }
  EXPECT_EQ(text_of(-7), "-7");
}

TEST(Decimal, WritesEveryNumberOfFourDigits) {
  for (uint32_t number = 0; number < 10'000; ++number) {
    ASSERT_EQ(text_of(number), std::to_string(number));
    ASSERT_EQ(text_of(number * 10'000), std::to_string(number * 10'000));
  }
}

RC_GTEST_PROP(Decimal, WritesAnyNumber, (uint64_t number, uint8_t shift)) {
  const uint64_t shorter = number >> shift % 64;
  RC_ASSERT(text_of(shorter) == std::to_string(shorter));
}

}  // namespace
}  // namespace weir::base
