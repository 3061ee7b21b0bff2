#include "base/byte_codec.h"

#include <gtest/gtest.h>

#include <limits>

namespace weir::base {
namespace {

TEST(ByteCodec, ReadsWhatWasWritten) {
  const uint64_t numbers[] = {0, 1, 127, 128, 300, uint64_t{1} << 63, ~uint64_t{0}};
  const int64_t signed_numbers[] = {0, -1, 1, std::numeric_limits<int64_t>::min(),
                                    std::numeric_limits<int64_t>::max()};
  ByteWriter writer;
  for (const uint64_t number : numbers) writer.add(number);
  for (const int64_t number : signed_numbers) writer.add_signed(number);
  writer.add(std::string_view("a\0b", 3));
  writer.add(std::string_view());
  const std::string bytes = writer.take();

  ByteReader reader(bytes);
  for (const uint64_t number : numbers) EXPECT_EQ(reader.number(), number);
  for (const int64_t number : signed_numbers) EXPECT_EQ(reader.signed_number(), number);
  EXPECT_EQ(reader.text(), std::string_view("a\0b", 3));
  EXPECT_EQ(reader.text(), "");
  EXPECT_TRUE(reader.at_end());
}

TEST(ByteCodec, FailsOnTruncatedBytes) {
  ByteWriter writer;
  writer.add(uint64_t{1} << 40);
  writer.add(std::string_view("hello"));
  const std::string bytes = writer.take();
  for (size_t size = 0; size < bytes.size(); ++size) {
    ByteReader reader(std::string_view(bytes).substr(0, size));
    (void)reader.number();
    (void)reader.text();
    EXPECT_FALSE(reader.at_end()) << size;
  }
}

TEST(ByteCodec, FailsOnOversizedNumbers) {
  const std::string too_long(10, '\xff');
  ByteReader reader(too_long);
  EXPECT_EQ(reader.number(), 0U);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.text(), "");
  EXPECT_FALSE(reader.at_end());

  ByteReader long_text(
      std::string_view("\x7f"
                       "abc"));
  EXPECT_EQ(long_text.text(), "");
  EXPECT_FALSE(long_text.ok());
}

}  // namespace
}  // namespace weir::base
