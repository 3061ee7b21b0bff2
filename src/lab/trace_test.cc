#include "lab/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::lab {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Trace, ReadsTimeKeyAndCost) {
  const Trace trace = parse_trace("0,alice,2\n5,bob,0\n5,alice,1\n", "t.csv");
  ASSERT_TRUE(trace.errors.empty());
  const Traffic& traffic = trace.traffic;
  EXPECT_EQ(traffic.keys, (std::vector<std::string>{"alice", "bob"}));
  ASSERT_EQ(traffic.arrivals.size(), 3u);
  EXPECT_EQ(traffic.arrivals[0].at, WallTime(Millis(0)));
  EXPECT_EQ(traffic.arrivals[0].cost, 2u);
  EXPECT_EQ(traffic.arrivals[1].at, WallTime(Millis(5)));
  EXPECT_EQ(traffic.arrivals[1].key, 1u);
  EXPECT_EQ(traffic.arrivals[1].cost, 0u);
  EXPECT_EQ(traffic.arrivals[2].key, 0u);
}

TEST(Trace, AcceptsAHeaderNoCostCrlfEmptyLinesAndNoLastLineBreak) {
  for (const char* text : {"1,a\n2,b\n", "time_ms,key\n1,a\n2,b\n",
                           "time_ms,key,cost\r\n1,a\r\n2,b,1\r\n", "\n1,a\n\n2,b", "1,a,1\n2,b"}) {
    const Trace trace = parse_trace(text, "t.csv");
    EXPECT_TRUE(trace.errors.empty()) << text;
    ASSERT_EQ(trace.traffic.arrivals.size(), 2u) << text;
    EXPECT_EQ(trace.traffic.arrivals[1].cost, 1u) << text;
  }
}

TEST(Trace, AcceptsBothEndsOfEveryRange) {
  const std::string key(kMaxNameBytes, 'k');
  const Trace trace = parse_trace("0,x,0\n4102444800000," + key + ",1000000000000\n", "t.csv");
  EXPECT_TRUE(trace.errors.empty());
  EXPECT_EQ(trace.traffic.arrivals.back().cost, kMaxLimit);
}

struct BadLine {
  std::string text;
  size_t line;
  std::string field;
  std::string value;   // in the error
  std::string remedy;  // in the error
};

TEST(Trace, NamesLineFieldValueAndRemedyOfABadLine) {
  const std::string long_key(kMaxNameBytes + 1, 'k');
  for (const BadLine& bad : std::vector<BadLine>{
           {"x,a\n", 1, "time_ms", "'x'", "whole number of milliseconds"},
           {"1,a\n-2,a\n", 2, "time_ms", "'-2'", "from 0 to"},
           {"1.5,a\n", 1, "time_ms", "'1.5'", "whole number"},
           {" 1,a\n", 1, "time_ms", "' 1'", "whole number"},
           {"4102444800001,a\n", 1, "time_ms", "'4102444800001'", "to 4102444800000"},
           {"99999999999999999999,a\n", 1, "time_ms", "'99999999999999999999'", "from 0 to"},
           {",a\n", 1, "time_ms", "''", "whole number"},
           {"time,key\n1,a\n", 1, "time_ms", "'time'", "whole number"},
           {"1,a\ntime_ms,key\n", 2, "time_ms", "'time_ms'", "whole number"},
           {"5,a\n\n4,a\n", 3, "time_ms", "'4', before 5", "sort the file"},
           {"1,\n", 1, "key", "''", "1 to 512 bytes"},
           {"1," + long_key + "\n", 1, "key", "of 513 bytes", "1 to 512 bytes"},
           {"1,\"a\"\n", 1, "key", "'\"a\"'", "remove them"},
           {"1,a,-1\n", 1, "cost", "'-1'", "from 0 to 1000000000000"},
           {"1,a,\n", 1, "cost", "''", "leave it out"},
           {"1,a,1000000000001\n", 1, "cost", "'1000000000001'", "from 0 to"},
           {"1,a,1\x01\n", 1, "cost", "'1\\x01'", "whole number"},
           {"1\n", 1, "", "'1' has 1 field;", "write time_ms,key"},
           {"1,a,1,1\n", 1, "", "'1,a,1,1' has 4 fields;", "write time_ms,key"},
       }) {
    const Trace trace = parse_trace(bad.text, "t.csv");
    ASSERT_EQ(trace.errors.size(), 1u) << bad.text;
    const TraceError& error = trace.errors[0];
    EXPECT_EQ(error.line, bad.line) << bad.text;
    EXPECT_EQ(error.field, bad.field) << bad.text;
    EXPECT_THAT(error.text, HasSubstr(bad.field)) << bad.text;
    EXPECT_THAT(error.text, HasSubstr(bad.value)) << bad.text;
    EXPECT_THAT(error.text, HasSubstr(bad.remedy)) << bad.text;
    const std::string line = to_line(error, "t.csv");
    EXPECT_TRUE(line.starts_with("t.csv:" + std::to_string(bad.line) + ": ")) << line;
    EXPECT_THAT(line, Not(HasSubstr("\n")));
    EXPECT_TRUE(trace.traffic.arrivals.empty() && trace.traffic.keys.empty()) << bad.text;
  }
}

TEST(Trace, ReportsAllBadLinesUpToABound) {
  EXPECT_EQ(parse_trace("x,a\n1,a\ny,a\n", "t.csv").errors.size(), 2u);
  std::string text;
  for (int i = 0; i < 100; ++i) text += "x,a\n";
  EXPECT_EQ(parse_trace(text, "t.csv").errors.size(), kMaxTraceErrors);
}

TEST(Trace, ReportsAFileWithoutRequests) {
  for (const char* text : {"", "\n\n", "time_ms,key,cost\n"}) {
    const Trace trace = parse_trace(text, "t.csv");
    ASSERT_EQ(trace.errors.size(), 1u) << text;
    EXPECT_EQ(to_line(trace.errors[0], "t.csv"),
              "t.csv: has no requests; add lines such as 1000,alice,1");
  }
}

}  // namespace
}  // namespace weir::lab
