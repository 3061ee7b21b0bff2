// The figures that `weir lab --tables` prints. All of them are drawn and decided with integers, so
// they are the same on every machine.

#include "lab/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/published.h"
#include "lab/state_bytes.h"

namespace weir::lab {
namespace {

using testing::HasSubstr;

TEST(Published, FindsOneOfFourFormsOfGcraRight) {
  const std::vector<GcraForm> forms = gcra_forms(kFromStart);
  ASSERT_EQ(forms.size(), 5u);
  EXPECT_EQ(forms[0].result, (Saturation{.at_once = 11, .admitted = 41}));
  EXPECT_EQ(forms[1].result, (Saturation{.at_once = 10, .admitted = 40}));
  EXPECT_EQ(forms[2].result, (Saturation{.at_once = 9, .admitted = 39}));
  EXPECT_EQ(forms[3].result, (Saturation{.at_once = 10, .admitted = 40}));
  EXPECT_EQ(forms[4].result, forms[3].result);  // Weir
}

TEST(Published, AdmitsOneMoreInTwoFormsOfGcraWithOneTickMore) {
  const std::vector<GcraForm> forms = gcra_forms({.from_ms = 0, .to_ms = 3001});
  EXPECT_EQ(forms[0].result.admitted, 41u);
  EXPECT_EQ(forms[1].result.admitted, 41u);
  EXPECT_EQ(forms[2].result.admitted, 40u);
  EXPECT_EQ(forms[3].result.admitted, 40u);
}

TEST(Published, AdmitsFortyInThreeSecondsWithABurstOfTen) {
  for (const Algorithm algorithm : {Algorithm::kGcra, Algorithm::kTokenBucket}) {
    for (const Schedule schedule : {kFromStart, kFromPhase}) {
      EXPECT_EQ(saturate(algorithm, schedule), (Saturation{.at_once = 10, .admitted = 40}));
    }
  }
}

TEST(Published, AdmitsThirtyFourIfTheTwoCellEstimateKeepsItsFraction) {
  EXPECT_EQ(saturate_with_fraction(kFromPhase).admitted, 34u);
  EXPECT_EQ(saturate_with_fraction(kFromStart).admitted, 29u);
  EXPECT_EQ(saturate(Algorithm::kSlidingWindow, kFromPhase).admitted, 36u);
  EXPECT_EQ(saturate(Algorithm::kSlidingWindow, kFromStart).admitted, 30u);
}

TEST(Published, AdmitsTenFourTimesWhereFourWindowsMeetTheSchedule) {
  for (const Algorithm algorithm : {Algorithm::kFixedWindow, Algorithm::kSlidingLog}) {
    EXPECT_EQ(saturate(algorithm, kFromStart).admitted, 40u);
    EXPECT_EQ(saturate(algorithm, kFromPhase).admitted, 40u);
  }
  EXPECT_EQ(saturate(Algorithm::kSlidingWindowStrict, kFromStart).admitted, 30u);
  EXPECT_EQ(saturate(Algorithm::kSlidingWindowStrict, kFromPhase).admitted, 30u);
}

TEST(Published, HalvesTheRateWithABurstOfZeroAndTheLibraryRefusesIt) {
  EXPECT_EQ(burst_of_zero(), (Saturation{.at_once = 0, .admitted = 15}));
  EXPECT_THAT(burst_of_zero_error(), HasSubstr("burst is 0"));
}

TEST(Published, AdmitsTwiceTheLimitWhereTwoFixedWindowsMeet) {
  const Comparison comparison = compare(two_minutes(), kTwoMinutesLimit);
  EXPECT_EQ(comparison.of(Algorithm::kFixedWindow).worst_window, 199u);
  EXPECT_EQ(comparison.of(Algorithm::kSlidingWindow).worst_window, 102u);
  EXPECT_EQ(comparison.of(Algorithm::kSlidingWindowStrict).worst_window, 100u);
  EXPECT_EQ(comparison.of(Algorithm::kSlidingLog).worst_window, 100u);
  EXPECT_EQ(comparison.of(Algorithm::kGcra).worst_window, 103u);
}

TEST(StateBytes, AreThoseOfTheMemoryPage) {
  EXPECT_EQ(weir_bytes(Algorithm::kSlidingWindow, 100), 245u);
  EXPECT_EQ(weir_bytes(Algorithm::kFixedWindow, 100), 245u);
  EXPECT_EQ(weir_bytes(Algorithm::kGcra, 100), 245u);
  EXPECT_EQ(weir_bytes(Algorithm::kTokenBucket, 100), 245u);
  EXPECT_EQ(weir_bytes(Algorithm::kSlidingWindowStrict, 100), 245u + 272);
  EXPECT_EQ(weir_bytes(Algorithm::kSlidingLog, 7), 245u + 80);
  EXPECT_EQ(weir_bytes(Algorithm::kSlidingLog, 100), 245u + 1040);
  EXPECT_EQ(weir_bytes(Algorithm::kSlidingLog, 10'000), 245u + 135'168);
  EXPECT_EQ(minimal_bytes(Algorithm::kGcra, 100), 8u);
  EXPECT_EQ(minimal_bytes(Algorithm::kTokenBucket, 100), 16u);
  EXPECT_EQ(minimal_bytes(Algorithm::kFixedWindow, 100), 16u);
  EXPECT_EQ(minimal_bytes(Algorithm::kSlidingWindow, 100), 24u);
  EXPECT_EQ(minimal_bytes(Algorithm::kSlidingWindowStrict, 100), 144u);
  EXPECT_EQ(minimal_bytes(Algorithm::kSlidingLog, 100), 800u);
}

struct ShapeFigures {
  std::string_view shape;
  // fixed_window, sliding_window, sliding_window_strict, sliding_log, gcra
  std::vector<Count> worst;
  std::vector<size_t> wrong;  // of 20,000
};

TEST(Tables, HaveTheseFiguresForEveryShape) {
  const std::vector<ShapeFigures> expected = {
      {"steady-below", {80, 80, 80, 80, 80}, {0, 0, 0, 0, 0}},
      {"steady-above", {100, 100, 100, 100, 150}, {0, 8993, 9245, 0, 8762}},
      {"poisson", {131, 114, 100, 100, 136}, {1937, 1684, 2403, 0, 1507}},
      {"lock-step", {100, 100, 100, 100, 100}, {0, 6650, 6650, 0, 0}},
      {"boundary-burst", {200, 105, 100, 100, 109}, {10000, 500, 0, 0, 900}},
      {"on-off", {200, 163, 100, 100, 199}, {6470, 5304, 1904, 0, 8030}},
      {"skewed", {121, 107, 100, 100, 123}, {159, 128, 210, 0, 116}},
  };
  const std::vector<Comparison> all = compare_all_shapes({});
  ASSERT_EQ(all.size(), expected.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(shapes()[i].name, expected[i].shape);
    std::vector<Count> worst;
    std::vector<size_t> wrong;
    for (const AlgorithmResult& result : all[i].results) {
      worst.push_back(result.worst_window);
      wrong.push_back(result.differences.sum());
    }
    EXPECT_EQ(worst.back(), worst[4]) << "token_bucket is gcra";
    EXPECT_EQ(wrong.back(), wrong[4]) << "token_bucket is gcra";
    worst.pop_back();
    wrong.pop_back();
    EXPECT_EQ(worst, expected[i].worst) << expected[i].shape;
    EXPECT_EQ(wrong, expected[i].wrong) << expected[i].shape;
  }
}

TEST(Tables, PrintEverySection) {
  const std::string text =
      tables_text({{.percent = 133,
                    .requests = 2'000'000,
                    .differences = {.wrongly_allowed = 47, .wrongly_refused = 12}}});
  for (const char* part :
       {"1. Bytes per key", "2. Four ways", "3. A burst of 0", "4. Admitted in 3 s", "+13.3 %",
        "5. Two windows meet", "6. Error of sliding_window", "0.0029 %", "7. Worst trailing window",
        "8. Error against sliding_log", "33.25 %", "9. Four uses"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_TRUE(text.ends_with("MiB\n"));
}

}  // namespace
}  // namespace weir::lab
