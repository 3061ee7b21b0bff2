#include "frontends/resp/limit_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "frontends/names_test.h"
#include "frontends/resp/encoded_test.h"

namespace weir::frontends {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// The words of a command and views of them.
class Command {
 public:
  Command(Words words) : words_(std::move(words)), views_(words_.begin(), words_.end()) {}
  operator Arguments() const { return views_; }

 private:
  Words words_;
  std::vector<std::string_view> views_;
};

Words words_with(Words words, size_t at, const std::string& value) {
  words[at] = value;
  return words;
}

struct ArgumentBounds {
  std::string name;
  size_t at;
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

const std::vector<std::string> kNoNumbers{"",
                                          "-1",
                                          "x",
                                          "1x",
                                          " 1",
                                          "1.5",
                                          "+1",
                                          "1e3",
                                          "9223372036854775808",
                                          "-9223372036854775808",
                                          "9223372036854775807"};

std::string throttle_complaint(const Words& words) {
  Request request;
  const Command command(words);
  HashedKey hashed;
  return read_throttle(command, request, hashed);
}

std::string limit_complaint(const Words& words) {
  Request request;
  const Command command(words);
  return read_limit(command, request);
}

std::string multi_complaint(const Words& words) {
  std::vector<Request> requests;
  const Command command(words);
  return read_multi(command, requests);
}

using ComplaintAbout = std::string(const Words& words);

// One number of a valid command: both ends of its range, values outside of it, and non-numbers.
void expect_bounds(ComplaintAbout error, const Words& valid, const ArgumentBounds& argument) {
  for (const std::string& value : argument.good) {
    EXPECT_EQ(error(words_with(valid, argument.at, value)), "") << argument.name;
  }
  auto bad = kNoNumbers;
  bad.insert(bad.end(), argument.bad.begin(), argument.bad.end());
  for (const std::string& value : bad) {
    EXPECT_THAT(error(words_with(valid, argument.at, value)),
                StartsWith("ERR " + argument.name + " is '" + value +
                           "': it must be a whole number from "));
  }
}

// The same for a name.
void expect_name(ComplaintAbout error, const Words& valid, size_t at, const std::string& name) {
  EXPECT_EQ(error(words_with(valid, at, kLongestName)), "") << name;
  EXPECT_EQ(error(words_with(valid, at, "")),
            "ERR " + name + " has 0 bytes: it must have 1 to 512");
  EXPECT_EQ(error(words_with(valid, at, kTooLongName)),
            "ERR " + name + " has 513 bytes: it must have 1 to 512");
}

TEST(IsWord, IgnoresOnlyCase) {
  EXPECT_TRUE(is_word("PING", "PING"));
  EXPECT_TRUE(is_word("pInG", "PING"));
  EXPECT_TRUE(is_word("cl.throttle", "CL.THROTTLE"));
  EXPECT_FALSE(is_word("PIN", "PING"));
  EXPECT_FALSE(is_word("PINGS", "PING"));
  EXPECT_FALSE(is_word("cl\x0ethrottle", "CL.THROTTLE"));
  EXPECT_FALSE(is_word("", "PING"));
}

TEST(Throttle, HasABurstOfMaxBurstPlusOneAtCountPerPeriod) {
  Request request;
  HashedKey hashed;
  const Command command({"cl.throttle", "alice", "15", "30", "60"});
  ASSERT_EQ(read_throttle(command, request, hashed), "");
  EXPECT_EQ(request.ns, "cl");
  EXPECT_EQ(request.identifier, "alice");
  EXPECT_EQ(request.limit, 30);
  EXPECT_EQ(request.duration, Millis(60'000));
  EXPECT_EQ(request.burst, 16);
  EXPECT_EQ(request.cost, 1);
  EXPECT_EQ(request.algorithm, Algorithm::kGcra);
  EXPECT_TRUE(request.across_durations);
  const Command of_five({"cl.throttle", "alice", "15", "30", "60", "5"});
  ASSERT_EQ(read_throttle(of_five, request, hashed), "");
  EXPECT_EQ(request.cost, 5);
}

TEST(Throttle, AcceptsBothEndsOfEachRangeAndNamesTheArgumentOutsideOfIt) {
  const Words valid{"cl.throttle", "alice", "15", "30", "60", "1"};
  const ArgumentBounds arguments[] = {
      {"max_burst", 2, {"0", "999999999999"}, {"1000000000000"}},
      {"count", 3, {"1", "1000000000000"}, {"0", "1000000000001"}},
      {"period", 4, {"1", "315619200"}, {"0", "315619201"}},
      {"quantity", 5, {"0", "1000000000000"}, {"1000000000001"}},
  };
  for (const ArgumentBounds& argument : arguments) {
    expect_bounds(throttle_complaint, valid, argument);
  }
  EXPECT_EQ(throttle_complaint(words_with(valid, 1, std::string(65'536, 'k'))), "");
  EXPECT_EQ(throttle_complaint(words_with(valid, 1, "")),
            "ERR key has 0 bytes: it must have 1 to 65536");
  EXPECT_EQ(throttle_complaint(words_with(valid, 1, std::string(65'537, 'k'))),
            "ERR key has 65537 bytes: it must have 1 to 65536");
}

TEST(Throttle, CountsALongKeyByItsHash) {
  for (const size_t size : {size_t{512}, size_t{513}, size_t{65'536}}) {
    const std::string key(size, 'k');
    Request request;
    HashedKey hashed;
    const Command command({"cl.throttle", key, "15", "30", "60"});
    ASSERT_EQ(read_throttle(command, request, hashed), "");
    EXPECT_EQ(request.ns, size <= 512 ? "cl" : "cl:sha256");
    const HashedKey hash = rules::hash_of(key);
    EXPECT_EQ(request.identifier, size <= 512 ? key : std::string(hash.begin(), hash.end()));
  }
}

std::string gcra_complaint(const Words& words) {
  Request request;
  const Command command(words);
  HashedKey hashed;
  return read_gcra(command, request, hashed);
}

TEST(Gcra, IsTheSameRequestAsThrottle) {
  Request gcra;
  Request throttle;
  HashedKey hashed;
  const Command command({"gcra", "alice", "15", "30", "60", "tokens", "5"});
  const Command same({"cl.throttle", "alice", "15", "30", "60", "5"});
  ASSERT_EQ(read_gcra(command, gcra, hashed), "");
  ASSERT_EQ(read_throttle(same, throttle, hashed), "");
  EXPECT_EQ(gcra.ns, throttle.ns);
  EXPECT_EQ(gcra.identifier, throttle.identifier);
  EXPECT_EQ(gcra.limit, throttle.limit);
  EXPECT_EQ(gcra.duration, throttle.duration);
  EXPECT_EQ(gcra.cost, throttle.cost);
  EXPECT_EQ(gcra.burst, throttle.burst);
  EXPECT_EQ(gcra.algorithm, throttle.algorithm);
  EXPECT_TRUE(gcra.across_durations);
  const Command of_one({"GCRA", "alice", "15", "30", "60"});
  ASSERT_EQ(read_gcra(of_one, gcra, hashed), "");
  EXPECT_EQ(gcra.cost, 1);
}

TEST(Gcra, KeepsTheRateOfADecimalPeriodExactly) {
  struct Case {
    std::string period;
    Count limit;
    int64_t duration;
  };
  // For 7 tokens per period.
  const Case cases[] = {{"60", 7, 60'000},
                        {"60.0", 7, 60'000},
                        {"6E1", 7, 60'000},
                        {"0.5", 7, 500},
                        {"0.1", 7, 100},
                        {"0.10000000000000001", 7, 100},
                        {"0.07", 14, 140},
                        {"0.001", 700, 100},
                        {"1.0E-6", 700'000, 100},
                        {"0.0335", 28, 134},  // 3 times 33.5 ms is no whole number
                        {"1.000001", 7000, 1'000'001},
                        {"999.9996", 35, 4'999'998},
                        {"1000.0004", 7, 1'000'000},  // rounded to ms
                        {"315619200", 7, 315'619'200'000}};
  for (const Case& given : cases) {
    Request request;
    HashedKey hashed;
    const Command command({"gcra", "a", "1", "7", given.period});
    ASSERT_EQ(read_gcra(command, request, hashed), "");
    EXPECT_EQ(request.limit, given.limit) << given.period;
    EXPECT_EQ(request.duration, Millis(given.duration)) << given.period;
  }
}

TEST(Gcra, NamesTheArgumentOutsideOfItsRange) {
  const Words valid{"gcra", "alice", "15", "30", "60", "TOKENS", "1"};
  const ArgumentBounds arguments[] = {
      {"max-burst", 2, {"0", "999999999999"}, {"1000000000000"}},
      {"tokens-per-period", 3, {"1", "1000000000000"}, {"0", "1000000000001"}},
      {"TOKENS", 6, {"0", "1000000000000"}, {"1000000000001"}},
  };
  for (const ArgumentBounds& argument : arguments) expect_bounds(gcra_complaint, valid, argument);
  for (const char* const period :
       {"", "0", "-1", "0.0000001", "315619200.1", "1e400", "inf", "nan", "1s", " 1", "0x10"}) {
    EXPECT_EQ(gcra_complaint(words_with(valid, 4, period)),
              "ERR period is '" + std::string(period) +
                  "': it must be a number of seconds from 0.000001 to 315619200");
  }
  EXPECT_EQ(gcra_complaint({"gcra", "a", "1", "10000001", "0.000001"}),
            "ERR tokens-per-period is '10000001': with period '0.000001' it must be a whole number "
            "from 1 to 10000000");
  EXPECT_THAT(gcra_complaint(words_with(valid, 1, "")), StartsWith("ERR key has 0 bytes"));
  EXPECT_EQ(gcra_complaint(words_with(valid, 5, "NUM_REQUESTS")),
            "ERR 'NUM_REQUESTS' is not an option: use TOKENS");
  EXPECT_EQ(gcra_complaint({"gcra", "a", "1", "1", "1", "TOKENS"}), "ERR 'TOKENS' needs a value");
  for (const Words& words : {Words{"gcra"}, Words{"gcra", "a", "1", "1"},
                             Words{"gcra", "a", "1", "1", "1", "TOKENS", "1", "1"}}) {
    EXPECT_EQ(gcra_complaint(words),
              "ERR wrong number of arguments for 'gcra' command: GCRA key max-burst "
              "tokens-per-period period [TOKENS count]");
  }
}

TEST(Throttle, ReportsTheFirstInvalidArgument) {
  EXPECT_THAT(throttle_complaint({"cl.throttle", "", "x", "x", "x", "x"}), StartsWith("ERR key "));
  EXPECT_THAT(throttle_complaint({"cl.throttle", "a", "1", "x", "x", "x"}),
              StartsWith("ERR count "));
}

TEST(Throttle, RefusesAWrongNumberOfArgumentsAndShowsTheUsage) {
  for (const Words& words : {Words{"cl.throttle"}, Words{"cl.throttle", "a", "1", "1"},
                             Words{"cl.throttle", "a", "1", "1", "1", "1", "1"}}) {
    EXPECT_EQ(throttle_complaint(words),
              "ERR wrong number of arguments for 'cl.throttle' command: CL.THROTTLE key max_burst "
              "count period [quantity]");
  }
}

TEST(Throttle, TruncatesLongValuesAndMasksUnprintableCharacters) {
  EXPECT_THAT(throttle_complaint({"cl.throttle", "a", "1\r\n2", "1", "1"}), HasSubstr("'1??2'"));
  EXPECT_THAT(throttle_complaint({"cl.throttle", "a", std::string(41, '9'), "1", "1"}),
              HasSubstr("'" + std::string(40, '9') + "...'"));
  EXPECT_THAT(throttle_complaint({"cl.throttle", "a", std::string(40, '9'), "1", "1"}),
              HasSubstr("'" + std::string(40, '9') + "'"));
}

TEST(Throttle, RepliesWithSecondsRoundedUp) {
  const Instant now{.wall = WallTime(Millis(5000)), .mono = MonoTime(Nanos(0))};
  const auto answer = [&](const Verdict& verdict) {
    Bytes out;
    RespWriter writer(out);
    answer_throttle(now, verdict, writer);
    return std::string(out.unread());
  };
  Verdict verdict{
      .outcome = Outcome::kAdmitted, .limit = 16, .remaining = 15, .reset = WallTime(Millis(7000))};
  EXPECT_EQ(answer(verdict), "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n");
  verdict.reset = WallTime(Millis(7001));
  EXPECT_EQ(answer(verdict), "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:3\r\n");
  verdict.reset = now.wall;
  EXPECT_EQ(answer(verdict), "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:0\r\n");
  verdict.reset = now.wall - Millis(1);
  EXPECT_EQ(answer(verdict), "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:0\r\n");
  verdict.outcome = Outcome::kDenied;
  verdict.retry_after = Millis(1);
  EXPECT_EQ(answer(verdict), "*5\r\n:1\r\n:16\r\n:15\r\n:1\r\n:0\r\n");
  verdict.limit = verdict.remaining = kMaxLimit;
  verdict.retry_after = 2 * kMaxDuration;
  verdict.reset = now.wall + 2 * kMaxDuration;
  EXPECT_EQ(answer(verdict),
            "*5\r\n:1\r\n:1000000000000\r\n:1000000000000\r\n:5184000\r\n:5184000\r\n");
}

TEST(Limit, ReadsFourArgumentsAndOptionsInAnyOrderAndCase) {
  Request request;
  const Command plain({"weir.limit", "api", "alice", "10", "60000"});
  ASSERT_EQ(read_limit(plain, request), "");
  EXPECT_EQ(request.ns, "api");
  EXPECT_EQ(request.identifier, "alice");
  EXPECT_EQ(request.limit, 10);
  EXPECT_EQ(request.duration, Millis(60'000));
  EXPECT_EQ(request.cost, 1);
  EXPECT_EQ(request.algorithm, Algorithm::kSlidingWindow);
  EXPECT_EQ(request.burst, std::nullopt);
  EXPECT_FALSE(request.across_durations);
  const Command all({"weir.limit", "api", "alice", "10", "60000", "burst", "20", "Algorithm",
                     "gcra", "COST", "3"});
  ASSERT_EQ(read_limit(all, request), "");
  EXPECT_EQ(request.cost, 3);
  EXPECT_EQ(request.algorithm, Algorithm::kGcra);
  EXPECT_EQ(request.burst, 20);
}

TEST(Limit, ResetsTheRequestFirst) {
  Request request;
  const Command gcra({"weir.limit", "a", "b", "1", "100", "ALGORITHM", "gcra", "BURST", "5"});
  ASSERT_EQ(read_limit(gcra, request), "");
  const Command plain({"weir.limit", "a", "b", "1", "100"});
  ASSERT_EQ(read_limit(plain, request), "");
  EXPECT_EQ(request.algorithm, Algorithm::kSlidingWindow);
  EXPECT_EQ(request.burst, std::nullopt);
}

TEST(Limit, AcceptsBothEndsOfEachRangeAndNamesTheArgumentOutsideOfIt) {
  const Words valid{"weir.limit", "api", "alice", "10", "60000", "COST", "1", "BURST", "1"};
  const ArgumentBounds arguments[] = {
      {"limit", 3, {"1", "1000000000000"}, {"0", "1000000000001"}},
      {"duration_ms", 4, {"100", "2592000000"}, {"0", "99", "2592000001"}},
      {"COST", 6, {"0", "1000000000000"}, {"1000000000001"}},
      {"BURST", 8, {"1", "1000000000000"}, {"0", "1000000000001"}},
  };
  for (const ArgumentBounds& argument : arguments) expect_bounds(limit_complaint, valid, argument);
  expect_name(limit_complaint, valid, 1, "namespace");
  expect_name(limit_complaint, valid, 2, "identifier");
}

TEST(Limit, AcceptsExactlyTheKnownAlgorithms) {
  for (int i = 0; i < kAlgorithmCount; ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    Request request;
    const Command command(
        {"weir.limit", "a", "b", "1", "100", "ALGORITHM", std::string(to_string(algorithm))});
    ASSERT_EQ(read_limit(command, request), "");
    EXPECT_EQ(request.algorithm, algorithm);
  }
  for (const char* word : {"", "leaky", "GCRA", "sliding"}) {
    EXPECT_THAT(
        limit_complaint({"weir.limit", "a", "b", "1", "100", "ALGORITHM", word}),
        StartsWith("ERR ALGORITHM is '" + std::string(word) + "': it must be sliding_window, "));
  }
}

TEST(Limit, RefusesMissingUnknownAndMisplacedArguments) {
  const std::string places = "ERR an item needs namespace identifier limit duration_ms";
  EXPECT_EQ(limit_complaint({"weir.limit"}), places);
  EXPECT_EQ(limit_complaint({"weir.limit", "a", "b", "1"}), places);
  EXPECT_EQ(limit_complaint({"weir.limit", "a", "b", "1", "100", "COST"}),
            "ERR 'COST' needs a value");
  EXPECT_EQ(limit_complaint({"weir.limit", "a", "b", "1", "100", "PRICE", "1"}),
            "ERR 'PRICE' is not an option: use COST, ALGORITHM, BURST or CONSISTENCY");
  EXPECT_EQ(limit_complaint({"weir.limit", "a", "b", "1", "100", "ITEM", "a"}),
            "ERR 'ITEM' belongs to WEIR.MULTI");
}

TEST(Limit, RefusesADuplicateOption) {
  const std::pair<std::string, std::string> options[] = {
      {"COST", "1"}, {"BURST", "5"}, {"ALGORITHM", "gcra"}};
  for (const auto& [option, value] : options) {
    const Words twice{"weir.limit", "a", "b", "1", "100", option, value, option, value};
    EXPECT_EQ(limit_complaint(twice), "ERR " + option + " is given twice: give it once");
    Request request;
    const Command command(twice);
    EXPECT_NE(read_peek(command, request), "");
  }
  EXPECT_EQ(multi_complaint({"weir.multi", "ITEM", "a", "b", "1", "100", "cost", "1", "ITEM", "a",
                             "c", "1", "100", "COST", "1"}),
            "");
  EXPECT_EQ(multi_complaint({"weir.multi", "ITEM", "a", "b", "1", "100", "cost", "1", "Cost", "1"}),
            "ERR COST is given twice: give it once (item 1)");
}

TEST(Peek, ConsumesNothingAndAcceptsNoCost) {
  Request request;
  const Command command({"weir.peek", "api", "alice", "10", "60000", "ALGORITHM", "gcra"});
  ASSERT_EQ(read_peek(command, request), "");
  EXPECT_EQ(request.cost, 0);
  EXPECT_EQ(request.algorithm, Algorithm::kGcra);
  for (const char* cost : {"0", "1", "2"}) {
    const Command costly({"weir.peek", "api", "alice", "10", "60000", "COST", cost});
    EXPECT_EQ(read_peek(costly, request), "ERR WEIR.PEEK consumes nothing: leave COST out");
  }
  const Command invalid({"weir.peek", "api", "alice", "0", "60000"});
  EXPECT_THAT(read_peek(invalid, request), StartsWith("ERR limit is '0'"));
}

TEST(Multi, ReadsItemsWithTheirOptions) {
  std::vector<Request> requests;
  const Command command({"weir.multi", "ITEM", "a",         "b",    "1",     "100",  "COST", "0",
                         "item",       "ITEM", "it",        "2",    "200",   "ITEM", "c",    "d",
                         "3",          "300",  "ALGORITHM", "gcra", "BURST", "9"});
  ASSERT_EQ(read_multi(command, requests), "");
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0].ns, "a");
  EXPECT_EQ(requests[0].cost, 0);
  EXPECT_EQ(requests[1].ns, "ITEM");  // at this position it is a name
  EXPECT_EQ(requests[1].identifier, "it");
  EXPECT_EQ(requests[1].duration, Millis(200));
  EXPECT_EQ(requests[1].cost, 1);
  EXPECT_EQ(requests[2].burst, 9);
}

TEST(Multi, AcceptsAtMostAHundredItems) {
  Words words{"weir.multi"};
  for (size_t i = 0; i < kMaxBatch; ++i) {
    for (const char* word : {"ITEM", "a", "b", "1", "100"}) words.push_back(word);
  }
  EXPECT_EQ(multi_complaint(words), "");
  for (const char* word : {"ITEM", "a", "b", "1", "100"}) words.push_back(word);
  EXPECT_EQ(multi_complaint(words), "ERR more than 100 items");
}

TEST(Multi, NamesTheInvalidItem) {
  EXPECT_EQ(multi_complaint({"weir.multi"}),
            "ERR wrong number of arguments for 'weir.multi' command");
  EXPECT_EQ(multi_complaint({"weir.multi", "api", "a", "1", "100"}),
            "ERR expected ITEM, got 'api'");
  EXPECT_EQ(multi_complaint({"weir.multi", "ITEM"}),
            "ERR an item needs namespace identifier limit duration_ms (item 1)");
  EXPECT_EQ(multi_complaint({"weir.multi", "ITEM", "a", "b", "1", "100", "ITEM", "a", "b"}),
            "ERR an item needs namespace identifier limit duration_ms (item 2)");
  EXPECT_EQ(
      multi_complaint({"weir.multi", "ITEM", "a", "b", "1", "100", "ITEM", "a", "b", "0", "100"}),
      "ERR limit is '0': it must be a whole number from 1 to 1000000000000 (item 2)");
  EXPECT_EQ(multi_complaint({"weir.multi", "ITEM", "a", "b", "1", "100", "COST"}),
            "ERR 'COST' needs a value (item 1)");
}

TEST(ToRespError, HasTheDetailAndTheFix) {
  EXPECT_EQ(to_resp_error({.field = "burst", .detail = "burst is 5", .fix = "leave it out"}),
            "ERR burst is 5: leave it out");
}

}  // namespace
}  // namespace weir::frontends
