#include "platform/pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace weir::platform {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Sizes below, at and beyond a huge page, which need not be whole pages.
class PagesOf : public ::testing::TestWithParam<size_t> {};

INSTANTIATE_TEST_SUITE_P(Sizes, PagesOf,
                         ::testing::Values(1, 4096, kHugePage - 1, kHugePage, kHugePage + 1,
                                           3 * kHugePage + 12345));

TEST_P(PagesOf, AreZeroUntilWritten) {
  const size_t bytes = GetParam();
  const Pages pages(bytes);
  EXPECT_EQ(pages.bytes(), bytes);
  char* const data = pages.as<char>();
  for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], 0) << i;
  data[0] = 'a';
  data[bytes - 1] = 'z';
  EXPECT_EQ(data[bytes - 1], 'z');
  pages.clear(0, bytes);
  EXPECT_EQ(data[0], 0);
  EXPECT_EQ(data[bytes - 1], 0);
}

// The system makes huge pages only of whole and aligned ones.
TEST_P(PagesOf, BeginAtAHugePageIfTheyFillOne) {
  const Pages pages(GetParam());
  if (GetParam() < kHugePage) return;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pages.as<char>()) % kHugePage, 0U);
}

// A neighbour keeps its content when memory beside it is returned.
TEST(Pages, ReturnOnlyTheirOwnMemory) {
  Pages first(kHugePage + 4096);
  const Pages second(kHugePage + 4096);
  second.as<char>()[0] = 'a';
  second.as<char>()[kHugePage + 4095] = 'z';
  first = Pages();
  Pages third(kHugePage + 4096);
  third.as<char>()[kHugePage + 4095] = 'x';
  Pages moved = std::move(third);
  EXPECT_EQ(moved.as<char>()[kHugePage + 4095], 'x');
  EXPECT_EQ(second.as<char>()[0], 'a');
  EXPECT_EQ(second.as<char>()[kHugePage + 4095], 'z');
}

}  // namespace
}  // namespace weir::platform
