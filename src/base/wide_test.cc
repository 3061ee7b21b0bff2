#include "base/wide.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::base {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

// Any number of bits, so that both branches and both ends are tested.
rc::Gen<uint64_t> any_number() {
  return rc::gen::map(
      rc::gen::resize(rc::kNominalSize,
                      rc::gen::pair(rc::gen::inRange(0, 64), rc::gen::arbitrary<uint64_t>())),
      [](const std::pair<int, uint64_t>& drawn) { return drawn.second >> drawn.first; });
}

TEST(Wide, MultipliesAndDividesBeyondSixtyFourBits) {
  EXPECT_EQ(mul_div(kMax, kMax, kMax), kMax);
  EXPECT_EQ(mul_div(uint64_t{1} << 40, uint64_t{1} << 40, uint64_t{1} << 41), uint64_t{1} << 39);
  EXPECT_EQ(mul_div(7, 3, 2), 10u);
  EXPECT_EQ(mul_div(0, kMax, 1), 0u);
}

TEST(Wide, SaturatesAQuotientThatDoesNotFit) {
  EXPECT_EQ(mul_div(kMax, 2, 2), kMax);
  EXPECT_EQ(mul_div(kMax, 2, 1), kMax);
  EXPECT_EQ(mul_div(uint64_t{1} << 32, uint64_t{1} << 32, 1), kMax);
  EXPECT_EQ(mul_div(uint64_t{1} << 32, uint64_t{1} << 31, 1), uint64_t{1} << 63);
}

TEST(Wide, IsAsExactOnTheNarrowSideOfItsBranchAsOnTheWideOne) {
  constexpr uint64_t kNarrow = 0xffff'ffff;
  EXPECT_EQ(mul_div(kNarrow, kNarrow, 1), kNarrow * kNarrow);
  EXPECT_EQ(mul_div(kNarrow + 1, kNarrow, 1), (kNarrow + 1) * kNarrow);
}

TEST(Wide, DividesOnBothSidesOfThirtyTwoBits) {
  constexpr uint64_t kNarrow = 0xffff'ffff;
  EXPECT_EQ(divide(kNarrow, kNarrow), 1u);
  EXPECT_EQ(divide(kNarrow, kNarrow + 1), 0u);
  EXPECT_EQ(divide(kNarrow + 1, kNarrow), 1u);
  EXPECT_EQ(divide(kMax, 1), kMax);
}

TEST(Wide, DividesRoundingUp) {
  EXPECT_EQ(ceil_div(0, 3), 0u);
  EXPECT_EQ(ceil_div(1, 3), 1u);
  EXPECT_EQ(ceil_div(3, 3), 1u);
  EXPECT_EQ(ceil_div(4, 3), 2u);
  EXPECT_EQ(ceil_div(kMax, 1), kMax);
  EXPECT_EQ(ceil_div(kMax, 2), uint64_t{1} << 63);
  EXPECT_EQ(ceil_div(kMax, kMax), 1u);
}

TEST(Wide, AddsAndSubtractsWithSaturation) {
  EXPECT_EQ(saturating_add(kMax - 1, 1), kMax);
  EXPECT_EQ(saturating_add(kMax, 1), kMax);
  EXPECT_EQ(saturating_sub(1, 1), 0u);
  EXPECT_EQ(saturating_sub(1, 2), 0u);
  EXPECT_EQ(saturating_sub(kMax, 1), kMax - 1);
}

RC_GTEST_PROP(Wide, AgreesWithArithmeticOnTwiceTheBits, ()) {
  for (int round = 0; round < 50; ++round) {
    const uint64_t a = *any_number();
    const uint64_t b = *any_number();
    const uint64_t c = std::max<uint64_t>(1, *any_number());
    const Wide quotient = Wide{a} * b / c;
    RC_ASSERT(mul_div(a, b, c) == (quotient > kMax ? kMax : static_cast<uint64_t>(quotient)));
    RC_ASSERT(divide(a, c) == a / c);
    RC_ASSERT(ceil_div(a, c) == static_cast<uint64_t>((Wide{a} + c - 1) / c));
    const Wide sum = Wide{a} + b;
    RC_ASSERT(saturating_add(a, b) == (sum > kMax ? kMax : static_cast<uint64_t>(sum)));
    RC_ASSERT(saturating_sub(a, b) == (a < b ? 0 : a - b));
  }
}

}  // namespace
}  // namespace weir::base
