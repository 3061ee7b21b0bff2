#include "base/split_mix.h"

#include <gtest/gtest.h>

namespace weir::base {
namespace {

TEST(SplitMix, ReturnsThePublishedNumbersForASeed) {
  uint64_t state = 1234567;
  for (const uint64_t number :
       {6457827717110365317ULL, 3203168211198807973ULL, 9817491932198370423ULL,
        4593380528125082431ULL, 16408922859458223821ULL}) {
    EXPECT_EQ(split_mix(state), number);
  }
}

}  // namespace
}  // namespace weir::base
