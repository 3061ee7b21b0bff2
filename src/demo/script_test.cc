#include "demo/script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::demo {
namespace {

TEST(DemoScript, ShowsTheDifferencesBetweenAlgorithms) {
  EXPECT_EQ(run_script({}),
            R"(Six algorithms, same requests: limit 10 per 5 s, 4 requests per second,
and bursts of 10 after 1 s and after 2 s, at the end of a fixed window.
Admitted/denied per half second, from second:

algorithm                 0.0     0.5     1.0     1.5     2.0     2.5   total
sliding_window            2/0     2/0     6/6     0/2    1/11     1/1   12/20
sliding_window_strict     2/0     2/0     6/6     0/2    0/12     0/2   10/22
fixed_window              2/0     2/0     6/6     0/2    10/2     0/2   20/12
sliding_log               2/0     2/0     6/6     0/2    0/12     0/2   10/22
gcra                      2/0     2/0     8/4     1/1    1/11     1/1   15/17
token_bucket              2/0     2/0     8/4     1/1    1/11     1/1   15/17
)");
}

TEST(DemoScript, AdmitsEverythingBelowTheLimit) {
  const std::string table = run_script({.limit = 32});
  EXPECT_THAT(table, testing::HasSubstr("limit 32"));
  EXPECT_THAT(table, testing::Not(testing::ContainsRegex("/[1-9][0-9]* *\n")));
}

TEST(DemoScript, AcceptsTheLimitsOfEverySetting) {
  for (const Count limit : {Count{1}, DemoSettings::kMaxLimit}) {
    for (const Millis window : {kMinDuration, DemoSettings::kMaxWindow}) {
      for (const int64_t rate : {int64_t{0}, DemoSettings::kMaxRequestsPerSecond}) {
        const std::string table =
            run_script({.limit = limit, .window = window, .requests_per_second = rate});
        EXPECT_THAT(table, testing::HasSubstr("token_bucket"));
      }
    }
  }
}

}  // namespace
}  // namespace weir::demo
