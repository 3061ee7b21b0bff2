#include "frontends/bytes.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/effort.h"

namespace weir::frontends {
namespace {

TEST(Bytes, IsEmptyBeforeTheFirstWrite) {
  Bytes bytes;
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(bytes.size(), 0u);
  EXPECT_EQ(bytes.unread(), "");
  bytes.append(bytes.unread());
  bytes.consume(0);
  EXPECT_TRUE(bytes.empty());
}

TEST(Bytes, ReturnsAppendedBytesInOrder) {
  Bytes bytes;
  bytes.append_all(std::string_view("limit"), ':', 10, ' ', int64_t{-7}, ' ', uint8_t{3});
  EXPECT_EQ(bytes.unread(), "limit:10 -7 3");
  bytes.consume(6);
  EXPECT_EQ(bytes.unread(), "10 -7 3");
}

TEST(Bytes, WritesTheWidestNumbers) {
  Bytes bytes;
  bytes.append_all(std::numeric_limits<int64_t>::min(), ' ', std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(bytes.unread(), "-9223372036854775808 18446744073709551615");
}

TEST(Bytes, WritesANumberIntoExactlyEnoughSpace) {
  Bytes bytes;
  const size_t capacity = bytes.prepare(1).size();
  bytes.append(std::string(capacity - 1, 'x'));
  bytes.append(int64_t{-12345});
  EXPECT_EQ(bytes.unread(), std::string(capacity - 1, 'x') + "-12345");
}

TEST(Bytes, PreparesEnoughSpaceAndKeepsUnreadBytes) {
  Bytes bytes;
  bytes.append("keep");
  for (const size_t count : {1, 4096, 4097, 100'000}) {
    EXPECT_GE(bytes.prepare(count).size(), count);
    EXPECT_EQ(bytes.unread(), "keep");
  }
}

TEST(Bytes, CommitsBytesWrittenIntoPreparedSpace) {
  Bytes bytes;
  bytes.append("ab");
  const std::span<char> space = bytes.prepare(3);
  space[0] = 'c';
  space[1] = 'd';
  bytes.commit(2);
  EXPECT_EQ(bytes.unread(), "abcd");
  bytes.unread_data()[0] = 'A';
  EXPECT_EQ(bytes.unread(), "Abcd");
}

TEST(Bytes, ReusesConsumedSpaceBeforeItGrows) {
  Bytes bytes;
  const size_t capacity = bytes.prepare(1).size();
  bytes.append(std::string(capacity, 'a'));
  bytes.consume(capacity - 1);
  const char* before = bytes.prepare(0).data() - capacity;
  EXPECT_EQ(bytes.prepare(capacity - 1).size(), capacity - 1);
  EXPECT_EQ(bytes.unread_data(), before);
  EXPECT_EQ(bytes.unread(), "a");
}

TEST(Bytes, HasReadablePaddingBehindTheLastByte) {
  Bytes bytes;
  bytes.append(std::string(bytes.prepare(1).size(), 'x'));
  int sum = 0;
  for (size_t i = 0; i < Bytes::kPadding; ++i) sum += bytes.unread_data()[bytes.size() + i];
  EXPECT_EQ(sum, 0);
}

TEST(Bytes, FreesMemoryOnlyWhenEmptyAndAboveTheLimit) {
  Bytes bytes;
  bytes.append(std::string(100'000, 'x'));
  const size_t capacity = bytes.size() + bytes.prepare(0).size();
  bytes.shrink(0);
  EXPECT_EQ(bytes.size(), 100'000u);
  bytes.consume(bytes.size());
  bytes.shrink(capacity);
  EXPECT_EQ(bytes.prepare(0).size(), capacity);
  bytes.shrink(capacity - 1);
  EXPECT_EQ(bytes.prepare(0).size(), 0u);
  bytes.append("again");
  EXPECT_EQ(bytes.unread(), "again");
}

TEST(Bytes, ReturnsMemoryOfManyBuffersToTheSystemInAnyOrder) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer keeps what was freed";
  const auto resident = [] {
    std::ifstream statm("/proc/self/statm");
    size_t size = 0;
    size_t pages = 0;
    statm >> size >> pages;
    return pages * 4096;
  };
  constexpr size_t kBuffers = 4000;
  constexpr size_t kEach = 16 << 10;
  const size_t before = resident();
  std::vector<std::unique_ptr<std::string>> between;  // keeps the heap from shrinking
  std::vector<Bytes> buffers(kBuffers);
  for (Bytes& buffer : buffers) {
    buffer.append(std::string(kEach, 'x'));
    between.push_back(std::make_unique<std::string>(100, 'y'));
  }
  EXPECT_GE(resident() - before, kBuffers * kEach);
  for (Bytes& buffer : buffers) {
    buffer.clear();
    buffer.shrink(0);
  }
  EXPECT_LT(resident(), before + kBuffers * kEach / 8);
}

TEST(Bytes, IsEmptyAfterClear) {
  Bytes bytes;
  bytes.append("abc");
  bytes.consume(1);
  bytes.clear();
  EXPECT_TRUE(bytes.empty());
}

RC_GTEST_PROP(Bytes, IsAByteQueueInAnyOrderOfWritesAndReads, ()) {
  Bytes bytes;
  std::string model;
  const auto steps = *rc::gen::container<std::vector<std::pair<bool, uint16_t>>>(
      rc::gen::pair(rc::gen::arbitrary<bool>(), rc::gen::inRange<uint16_t>(0, 6000)));
  for (const auto& [writes, count] : steps) {
    if (writes) {
      const std::string text(count, static_cast<char>('a' + model.size() % 26));
      bytes.append(text);
      model += text;
    } else {
      const size_t most = std::min<size_t>(count, model.size());
      bytes.consume(most);
      model.erase(0, most);
    }
    RC_ASSERT(bytes.unread() == model);
  }
}

}  // namespace
}  // namespace weir::frontends
