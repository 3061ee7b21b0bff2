#include "limiter/book.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::limiter {
namespace {

// The number of the 65,537th name was that of the first, and counts of two regions were one.
TEST(Book, NeverGivesTwoRegionsOneNumber) {
  Book book("east", 16);
  constexpr uint32_t kNames = 70'000;
  for (uint32_t i = 0; i < kNames; ++i) {
    ASSERT_EQ(book.number_of("region-" + std::to_string(i)), i);
  }
  for (uint32_t i = 0; i < kNames; i += 7) {
    ASSERT_EQ(book.number_of("region-" + std::to_string(i)), i);
  }
}

}  // namespace
}  // namespace weir::limiter
