#include "lab/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <sstream>

#include "lab/state_bytes.h"

namespace weir::lab {
namespace {

using testing::HasSubstr;

// The text with single spaces instead of line breaks.
std::string text_of(const Needs& needs) {
  std::istringstream in(to_text(advise(needs), needs));
  std::string text;
  for (std::string word; in >> word;) text += (text.empty() ? "" : " ") + word;
  return text;
}

TEST(Advice, IsTheSlidingWindowWithoutBurstsAndStrictness) {
  const Needs needs{.limit = 100, .keys = 1000};
  const Advice advice = advise(needs);
  EXPECT_EQ(advice.algorithm, Algorithm::kSlidingWindow);
  EXPECT_TRUE(advice.fits);
  EXPECT_EQ(advice.bytes, 245'000u);
  EXPECT_THAT(text_of(needs), HasSubstr("245 bytes per key x 1,000 keys = 239.3 KiB"));
}

TEST(Advice, IsGcraWithBursts) {
  const Needs needs{.bursts = Bursts::kYes, .limit = 50};
  const Advice advice = advise(needs);
  EXPECT_EQ(advice.algorithm, Algorithm::kGcra);
  EXPECT_EQ(advice.burst, 50u);
  EXPECT_TRUE(advice.fits);
  EXPECT_THAT(text_of(needs), HasSubstr("ALGORITHM gcra BURST 50"));
}

TEST(Advice, IsTheLogOnlyWhereItIsSmall) {
  Needs needs{
      .strictness = Strictness::kNeverExceeds, .bytes_per_key = 4096, .limit = 64, .keys = 131'072};
  // 64 x 131,072 x 8 bytes is exactly 64 MiB.
  EXPECT_EQ(advise(needs).algorithm, Algorithm::kSlidingLog);
  EXPECT_THAT(text_of(needs), HasSubstr("64 units per window x 131,072 keys x 8 bytes = 64.0 MiB"));
  ++needs.keys;
  EXPECT_EQ(advise(needs).algorithm, Algorithm::kSlidingWindowStrict);
  EXPECT_THAT(text_of(needs), HasSubstr("sliding_log is out: the log would have"));
}

TEST(Advice, IsNoLogAboveItsLargestLimit) {
  Needs needs{.strictness = Strictness::kNeverExceeds,
              .bytes_per_key = 1 << 20,
              .limit = kMaxLogLimit,
              .keys = 1};
  EXPECT_EQ(advise(needs).algorithm, Algorithm::kSlidingLog);
  ++needs.limit;
  EXPECT_EQ(advise(needs).algorithm, Algorithm::kSlidingWindowStrict);
}

TEST(Advice, FollowsTheBytesPerKey) {
  Needs needs{.strictness = Strictness::kNeverExceeds, .limit = 100, .keys = 10};
  needs.bytes_per_key = weir_bytes(Algorithm::kSlidingLog, 100);
  EXPECT_EQ(advise(needs).algorithm, Algorithm::kSlidingLog);
  --needs.bytes_per_key;
  EXPECT_EQ(advise(needs).algorithm, Algorithm::kSlidingWindowStrict);
  needs.bytes_per_key = weir_bytes(Algorithm::kSlidingWindowStrict, 100);
  EXPECT_EQ(advise(needs).algorithm, Algorithm::kSlidingWindowStrict);
  --needs.bytes_per_key;
  EXPECT_EQ(advise(needs).algorithm, Algorithm::kGcra);
  EXPECT_EQ(advise(needs).burst, 1u);
  EXPECT_TRUE(advise(needs).fits);
  needs.bytes_per_key = weir_bytes(Algorithm::kGcra, 100);
  EXPECT_TRUE(advise(needs).fits);
  --needs.bytes_per_key;
  EXPECT_FALSE(advise(needs).fits);
  EXPECT_THAT(text_of(needs), HasSubstr("Nothing fits"));
}

TEST(Advice, ExplainsThatStrictnessExcludesASeparateBurst) {
  Needs needs{.bursts = Bursts::kYes,
              .strictness = Strictness::kNeverExceeds,
              .bytes_per_key = 4096,
              .limit = 100,
              .keys = 10};
  EXPECT_EQ(advise(needs).algorithm, Algorithm::kSlidingLog);
  EXPECT_THAT(text_of(needs), HasSubstr("gcra and token_bucket are out"));
  needs.bytes_per_key = 300;  // only gcra with a burst of 1 would fit, and that admits no burst
  EXPECT_FALSE(advise(needs).fits);
}

RC_GTEST_PROP(Advice, NamesItsBytesForAnyNeeds, ()) {
  const Needs needs{
      .bursts = *rc::gen::element(Bursts::kNo, Bursts::kYes),
      .strictness = *rc::gen::element(Strictness::kMayExceed, Strictness::kNeverExceeds),
      .bytes_per_key = *rc::gen::inRange<uint64_t>(1, uint64_t{1} << 40),
      .limit = *rc::gen::inRange<Count>(1, kMaxAdvisedLimit + 1),
      .keys = *rc::gen::inRange<uint64_t>(1, 1'000'000'000'001)};
  const Advice advice = advise(needs);
  RC_ASSERT(advice.bytes_per_key == weir_bytes(advice.algorithm, needs.limit));
  RC_ASSERT(advice.bytes / needs.keys == advice.bytes_per_key);
  RC_ASSERT(!advice.fits || advice.bytes_per_key <= needs.bytes_per_key);
  if (needs.strictness == Strictness::kNeverExceeds) {
    RC_ASSERT(advice.algorithm == Algorithm::kSlidingLog ||
              advice.algorithm == Algorithm::kSlidingWindowStrict || advice.burst == 1);
  }
  if (advice.algorithm == Algorithm::kSlidingLog) {
    RC_ASSERT(needs.limit * needs.keys * 8 <= kMaxLogBytes);
  }
}

TEST(Advice, FitsEightyColumns) {
  const Needs needs{.bursts = Bursts::kYes,
                    .strictness = Strictness::kNeverExceeds,
                    .bytes_per_key = 300,
                    .limit = 9999,
                    .keys = 1'000'000};
  std::istringstream lines(to_text(advise(needs), needs));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 79u) << line;
}

TEST(ReadableBytes, HaveABinaryUnit) {
  EXPECT_EQ(readable_bytes(0), "0 bytes");
  EXPECT_EQ(readable_bytes(1023), "1023 bytes");
  EXPECT_EQ(readable_bytes(1024), "1.0 KiB");
  EXPECT_EQ(readable_bytes(uint64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(readable_bytes(~uint64_t{0}), "16.0 EiB");
}

}  // namespace
}  // namespace weir::lab
