#include "frontends/http/limit_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "frontends/bytes.h"
#include "frontends/names_test.h"

namespace weir::frontends {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Bodies in a connection's buffer, with readable padding behind them.
struct Reader {
  LimitBodyReader reader;
  Bytes body;
  Request request;
  std::vector<Request> requests;
  BodyProblems problems;

  void put(std::string_view json) {
    body.clear();
    body.append(json);
    body.append("}]\"garbage behind the body");
    size_ = json.size();
  }
  const BodyProblems& one(std::string_view json) {
    put(json);
    reader.read_one(body.unread().substr(0, size_), request, problems);
    return problems;
  }
  const BodyProblems& many(std::string_view json) {
    put(json);
    reader.read_many(body.unread().substr(0, size_), requests, problems);
    return problems;
  }

 private:
  size_t size_ = 0;
};

std::vector<std::string> locations(const BodyProblems& problems) {
  std::vector<std::string> all;
  for (const BodyProblem& problem : problems) all.push_back(problem.location);
  return all;
}

// A valid body except for one member.
std::string body_with(const std::string& member) {
  std::string json;
  const std::pair<const char*, const char*> members[] = {{"\"namespace\"", "\"api\""},
                                                         {"\"identifier\"", "\"alice\""},
                                                         {"\"limit\"", "10"},
                                                         {"\"duration\"", "60000"}};
  for (const auto& [name, value] : members) {
    if (member.starts_with(name)) continue;
    json += std::string(json.empty() ? "{" : ",") + name + ":" + value;
  }
  return json + (member.empty() ? "" : "," + member) + "}";
}

TEST(LimitBody, ReadsTheRequiredFields) {
  Reader reader;
  ASSERT_TRUE(reader.one(body_with("")).empty());
  EXPECT_EQ(reader.request.ns, "api");
  EXPECT_EQ(reader.request.identifier, "alice");
  EXPECT_EQ(reader.request.limit, 10);
  EXPECT_EQ(reader.request.duration, Millis(60'000));
  EXPECT_EQ(reader.request.cost, 1);
  EXPECT_EQ(reader.request.algorithm, Algorithm::kSlidingWindow);
  EXPECT_EQ(reader.request.burst, std::nullopt);
  EXPECT_EQ(reader.request.workspace, "");
  EXPECT_FALSE(reader.request.across_durations);
}

TEST(LimitBody, ReadsFieldsInAnyOrderAndWithAnySpace) {
  Reader reader;
  ASSERT_TRUE(
      reader
          .one(" \r\n\t{ \"burst\" : 20 ,\n\"algorithm\":\"gcra\",\"cost\":0,"
               "\"duration\":1000,\"limit\":1,\"identifier\":\"b\",\"namespace\":\"a\" } \n")
          .empty());
  EXPECT_EQ(reader.request.ns, "a");
  EXPECT_EQ(reader.request.identifier, "b");
  EXPECT_EQ(reader.request.burst, 20);
  EXPECT_EQ(reader.request.algorithm, Algorithm::kGcra);
  EXPECT_EQ(reader.request.cost, 0);
  EXPECT_EQ(reader.request.duration, Millis(1000));
}

TEST(LimitBody, ResetsTheRequestFirst) {
  Reader reader;
  ASSERT_TRUE(reader.one(body_with(R"("algorithm":"gcra","burst":5,"cost":3)")).empty());
  ASSERT_TRUE(reader.one(body_with("")).empty());
  EXPECT_EQ(reader.request.algorithm, Algorithm::kSlidingWindow);
  EXPECT_EQ(reader.request.burst, std::nullopt);
  EXPECT_EQ(reader.request.cost, 1);
}

TEST(LimitBody, UnescapesNamesAndFieldNames) {
  Reader reader;
  ASSERT_TRUE(reader
                  .one(R"({"n\u0061mespace":"a\"\\\/\n\u00e9","identifier":"\ud83c\udf0a",)"
                       R"("limit":1,"duration":1000})")
                  .empty());
  EXPECT_EQ(reader.request.ns, "a\"\\/\né");
  EXPECT_EQ(reader.request.identifier, "\xf0\x9f\x8c\x8a");
}

TEST(LimitBody, AcceptsBothEndsOfEachRangeAndNamesTheFieldOutsideOfIt) {
  struct Bounds {
    std::string field;
    std::vector<std::string> good;
    std::vector<std::string> bad;
  };
  const Bounds fields[] = {
      {"namespace", {"\"x\"", "\"" + kLongestName + "\""}, {"\"\"", "\"" + kTooLongName + "\""}},
      {"identifier", {"\"x\"", "\"" + kLongestName + "\""}, {"\"\"", "\"" + kTooLongName + "\""}},
      {"limit", {"1", "1000000000000"}, {"0", "-1", "1000000000001"}},
      {"duration", {"100", "2592000000"}, {"99", "0", "-1", "2592000001"}},
      {"cost", {"0", "1000000000000"}, {"-1", "1000000000001"}},
      {"burst", {"1", "1000000000000"}, {"0", "-1", "1000000000001"}},
  };
  Reader reader;
  for (const Bounds& field : fields) {
    for (const std::string& value : field.good) {
      EXPECT_TRUE(reader.one(body_with("\"" + field.field + "\":" + value)).empty()) << value;
    }
    for (const std::string& value : field.bad) {
      const BodyProblems& problems = reader.one(body_with("\"" + field.field + "\":" + value));
      ASSERT_EQ(problems.size(), 1u) << field.field << value;
      EXPECT_EQ(problems[0].location, "body." + field.field);
      EXPECT_THAT(problems[0].message, StartsWith(field.field + " "));
      EXPECT_FALSE(problems[0].fix.empty());
    }
  }
}

TEST(LimitBody, NamesTheFieldOfAWrongType) {
  Reader reader;
  for (const char* field : {"namespace", "identifier", "algorithm"}) {
    for (const char* value : {"1", "1.5", "true", "null", "[\"x\"]", "{\"a\":\"b\"}"}) {
      const BodyProblems& problems =
          reader.one(body_with("\"" + std::string(field) + "\":" + value + ",\"cost\":1"));
      ASSERT_EQ(problems.size(), 1u) << field << value;
      EXPECT_EQ(problems[0].location, "body." + std::string(field));
      EXPECT_EQ(problems[0].message, std::string(field) + " is not a string");
    }
  }
  for (const char* field : {"limit", "duration", "cost", "burst"}) {
    for (const char* value :
         {"\"1\"", "1.5", "1.0", "1e3", "true", "null", "[1]", "{\"a\":1}", "9223372036854775808",
          "-9223372036854775809", "100000000000000000000000000000000000", "1e400", "-0.0"}) {
      const BodyProblems& problems = reader.one(
          body_with("\"" + std::string(field) + "\":" + value + ",\"algorithm\":\"gcra\""));
      ASSERT_EQ(problems.size(), 1u) << field << value << problems.size();
      EXPECT_EQ(problems[0].location, "body." + std::string(field)) << value;
      // As it was written, or the start of a long value.
      const std::string_view written = value;
      const bool has_parts = written[0] == '[' || written[0] == '{';
      EXPECT_EQ(problems[0].message,
                std::string(field) + " is " + std::string(written.substr(0, has_parts ? 1 : 40)));
      EXPECT_TRUE(problems[0].fix.starts_with("choose a whole number from ")) << problems[0].fix;
    }
  }
}

TEST(LimitBody, AcceptsExactlyTheKnownAlgorithms) {
  Reader reader;
  for (int i = 0; i < kAlgorithmCount; ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    const std::string word(to_string(algorithm));
    ASSERT_TRUE(reader.one(body_with("\"algorithm\":\"" + word + "\"")).empty());
    EXPECT_EQ(reader.request.algorithm, algorithm);
  }
  for (const char* word : {"", "leaky", "GCRA"}) {
    const BodyProblems& problems =
        reader.one(body_with("\"algorithm\":\"" + std::string(word) + "\""));
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_EQ(problems[0].message, "algorithm is \"" + std::string(word) + "\"");
    EXPECT_THAT(problems[0].fix, HasSubstr("token_bucket"));
  }
}

TEST(LimitBody, ReportsAllProblemsAtOnce) {
  Reader reader;
  EXPECT_EQ(locations(reader.one("{}")),
            (std::vector<std::string>{"body.namespace", "body.identifier"}));
  EXPECT_EQ(locations(reader.one(R"({"namespace":"","limit":0,"duration":1,"cost":-1,"burst":0,)"
                                 R"("algorithm":"x","colour":{"a":[1,{"b":2}]},"limit":5})")),
            (std::vector<std::string>{"body.namespace", "body.limit", "body.duration", "body.cost",
                                      "body.burst", "body.algorithm", "body.colour", "body.limit",
                                      "body.identifier"}));
}

TEST(LimitBody, ReportsADuplicateField) {
  Reader reader;
  const BodyProblems& problems = reader.one(body_with(R"("cost":1,"cost":2)"));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].message, "cost is given twice");
  EXPECT_EQ(reader.request.cost, 1);
}

TEST(LimitBody, ReportsAnUnknownFieldWithAnyValue) {
  Reader reader;
  for (const char* value : {"1", "\"x\"", "null", "true", "[]", "{}", "[[[{\"a\":[1,2]}]]]",
                            "{\"limit\":1,\"namespace\":{\"x\":[]}}"}) {
    const BodyProblems& problems = reader.one(body_with("\"Limit\":" + std::string(value)));
    ASSERT_EQ(problems.size(), 1u) << value;
    EXPECT_EQ(problems[0].location, "body.Limit");
    EXPECT_EQ(problems[0].message, "Limit is not a field of this request");
  }
}

TEST(LimitBody, TruncatesALongNameBetweenCharacters) {
  Reader reader;
  const std::string name = std::string(63, 'a') + "é" + std::string(100, 'b');
  EXPECT_EQ(reader.one(body_with("\"" + name + "\":1"))[0].location,
            "body." + std::string(63, 'a'));
  const std::string whole = std::string(62, 'a') + "é";
  EXPECT_EQ(reader.one(body_with("\"" + whole + "x\":1"))[0].location, "body." + whole);
  const std::string word = std::string(38, 'a') + "\xf0\x9f\x8c\x8a";
  EXPECT_EQ(reader.one(body_with("\"algorithm\":\"" + word + "\""))[0].message,
            "algorithm is \"" + std::string(38, 'a') + "\"");
}

TEST(LimitBody, ReportsAtMostTwentyProblems) {
  Reader reader;
  std::string members;
  for (int i = 0; i < 30; ++i) members += (i > 0 ? ",\"x" : "\"x") + std::to_string(i) + "\":0";
  EXPECT_EQ(reader.one(body_with(members)).size(), 20u);
  std::string items = "[1";
  for (int i = 0; i < 30; ++i) items += ",1";
  EXPECT_EQ(reader.many(items + "]").size(), 20u);
}

TEST(LimitBody, RefusesInvalidJson) {
  Reader reader;
  const std::string valid = body_with("");
  std::vector<std::string> invalid{"",
                                   " ",
                                   "{",
                                   "{]",
                                   "{\"a\"}",
                                   "{a:1}",
                                   "{\"a\":1,}",
                                   "\"",
                                   valid + "x",
                                   valid + valid,
                                   valid + ",",
                                   "{\"limit\":}",
                                   "{\"limit\":1 \"cost\":2}",
                                   body_with("\"cost\":\"\xff\""),
                                   body_with("\"x\xc3\":1"),
                                   body_with("\"cost\":\"\x01\""),
                                   body_with(R"("algorithm":"\x")"),
                                   body_with(R"("algorithm":"\ud800")")};
  for (size_t size = 1; size < valid.size(); ++size) invalid.push_back(valid.substr(0, size));
  for (const std::string& json : invalid) {
    const BodyProblems& problems = reader.one(json);
    ASSERT_EQ(problems.size(), 1u) << json;
    EXPECT_EQ(problems[0].location, "body") << json;
    EXPECT_THAT(problems[0].message, StartsWith("not valid JSON: ")) << json;
  }
  ASSERT_TRUE(reader.one(valid).empty());  // and continues to read
}

TEST(LimitBody, RefusesAnotherJsonType) {
  Reader reader;
  for (const char* json : {"[]", "1", "\"x\"", "null", "true", "nonsense", "}", "\xef\xbb\xbf"}) {
    const BodyProblems& problems = reader.one(json);
    ASSERT_EQ(problems.size(), 1u) << json;
    EXPECT_EQ(problems[0].message, "the body is not a JSON object") << json;
  }
  for (const char* json : {"{}", "1", "\"x\"", "null", "true"}) {
    const BodyProblems& problems = reader.many(json);
    ASSERT_EQ(problems.size(), 1u) << json;
    EXPECT_EQ(problems[0].message, "the body is not a JSON array") << json;
  }
}

TEST(LimitBody, SurvivesDeepNesting) {
  Reader reader;
  for (const size_t depth : {100, 2000, 300'000}) {
    const std::string arrays = std::string(depth, '[') + std::string(depth, ']');
    EXPECT_FALSE(reader.one(body_with("\"x\":" + arrays)).empty());
    EXPECT_FALSE(reader.one(body_with("\"limit\":" + arrays)).empty());
    EXPECT_FALSE(reader.one(std::string(depth, '[')).empty());
    EXPECT_FALSE(reader.many(arrays).empty());
    std::string objects;
    for (size_t i = 0; i < depth; ++i) objects += "{\"a\":";
    EXPECT_FALSE(reader.one(objects).empty());
  }
}

TEST(LimitBody, ReadsOneToAHundredItems) {
  Reader reader;
  for (const size_t count : {size_t{1}, kMaxBatch}) {
    std::string json = "[";
    for (size_t i = 0; i < count; ++i) {
      json += (i > 0 ? "," : "") + body_with("\"cost\":" + std::to_string(i));
    }
    ASSERT_TRUE(reader.many(json + "]").empty());
    ASSERT_EQ(reader.requests.size(), count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(reader.requests[i].cost, static_cast<int64_t>(i));
      EXPECT_EQ(reader.requests[i].ns, "api");
    }
  }
}

TEST(LimitBody, RefusesAnEmptyArrayAndMoreThanAHundredItems) {
  Reader reader;
  EXPECT_EQ(reader.many("[]")[0].message, "the array is empty");
  std::string json = "[" + body_with("");
  for (size_t i = 0; i < kMaxBatch; ++i) json += "," + body_with("");
  const BodyProblems& problems = reader.many(json + "]");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].message, "the array has more than 100 items");
  EXPECT_EQ(problems[0].fix, "send 1 to 100 items");
}

TEST(LimitBody, NamesTheInvalidItemOfABatch) {
  Reader reader;
  EXPECT_EQ(locations(reader.many("[" + body_with("") + ",1," + body_with("\"cost\":-1") + ",{}]")),
            (std::vector<std::string>{"body[1]", "body[2].cost", "body[3].namespace",
                                      "body[3].identifier"}));
}

TEST(LimitBody, RefusesABatchOfInvalidJson) {
  Reader reader;
  const std::string item = body_with("");
  for (const std::string& json :
       {std::string("["), "[" + item, "[" + item + ",]", "[" + item + "]x", "[" + item + "][]",
        "[" + item + " " + item + "]", std::string("[{]"), "[" + item + "}", std::string("[x]")}) {
    const BodyProblems& problems = reader.many(json);
    ASSERT_FALSE(problems.empty()) << json;
    EXPECT_THAT(problems[0].location, StartsWith("body")) << json;
  }
}

RC_GTEST_PROP(LimitBody, NeverAcceptsValuesOutsideItsRanges, ()) {
  Reader reader;
  const auto limit = *rc::gen::arbitrary<int64_t>();
  const auto cost = *rc::gen::arbitrary<int64_t>();
  const bool right = limit >= 1 && std::cmp_less_equal(limit, kMaxLimit) && cost >= 0 &&
                     std::cmp_less_equal(cost, kMaxLimit);
  const bool taken = reader
                         .one(R"({"namespace":"a","identifier":"b","duration":1000,"limit":)" +
                              std::to_string(limit) + R"(,"cost":)" + std::to_string(cost) + "}")
                         .empty();
  RC_ASSERT(taken == right);
}

TEST(ProblemOf, ReportsAnErrorOfTheLimiterAsAProblemOfTheBody) {
  const BodyProblem one = problem_of({.field = "burst", .detail = "wrong", .fix = "right"});
  EXPECT_EQ(one.location, "body.burst");
  EXPECT_EQ(one.message, "wrong");
  EXPECT_EQ(one.fix, "right");
  EXPECT_EQ(problem_of({.field = "requests[3].burst"}).location, "body[3].burst");
  EXPECT_EQ(problem_of({.field = "requests"}).location, "body");
}

}  // namespace
}  // namespace weir::frontends
