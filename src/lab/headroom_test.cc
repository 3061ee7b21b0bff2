// A figure of a published comparison that takes 14 million decisions: this file is tested in the
// optimized build only.

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "lab/published.h"

namespace weir::lab {
namespace {

TEST(Headroom, FindsThreeInAHundredThousandWrongWhereKeysHaveHeadroom) {
  std::vector<size_t> wrong;
  for (const HeadroomError& each : errors_by_headroom()) {
    EXPECT_EQ(each.requests, 2'000'000u);
    wrong.push_back(each.differences.sum());
  }
  // 59 of 2,000,000 is 0.00295 %.
  EXPECT_EQ(wrong, (std::vector<size_t>{17692, 6417, 1270, 141, 59, 3, 0}));
}

}  // namespace
}  // namespace weir::lab
