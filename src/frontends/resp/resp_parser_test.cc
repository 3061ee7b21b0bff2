#include "frontends/resp/resp_parser.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "frontends/resp/encoded_test.h"

namespace weir::frontends {
namespace {

using Status = RespParser::Status;

struct ParsedCommand {
  Status status = Status::kIncomplete;
  Words words;
  size_t bytes = 0;
  std::string error;
};

// Parses a copy of exactly these bytes, so that a sanitizer detects reads beyond them.
ParsedCommand parse_command(std::string_view text) {
  const std::vector<char> bytes(text.begin(), text.end());
  static RespParser parser;
  const Status status = parser.parse({bytes.data(), bytes.size()});
  ParsedCommand parsed;
  parsed.status = status;
  if (status == Status::kBroken) parsed.error = parser.error();
  if (status != Status::kComplete) return parsed;
  parsed.words.assign(parser.arguments().begin(), parser.arguments().end());
  parsed.bytes = parser.bytes();
  return parsed;
}

// The commands in the pieces, and whether they end in a protocol error.
struct Received {
  std::vector<Words> commands;
  std::string error;
  std::string rest;
};

Received read_some(const std::vector<std::string>& pieces) {
  Received received;
  for (const std::string& piece : pieces) {
    received.rest += piece;
    for (;;) {
      const ParsedCommand parsed = parse_command(received.rest);
      if (parsed.status == Status::kIncomplete) break;
      if (parsed.status == Status::kBroken) {
        received.error = parsed.error;
        return received;
      }
      received.commands.push_back(parsed.words);
      received.rest.erase(0, parsed.bytes);
    }
  }
  return received;
}

rc::Gen<std::vector<Words>> commands() {
  return rc::gen::container<std::vector<Words>>(
      rc::gen::container<Words>(rc::gen::container<std::string>(rc::gen::arbitrary<char>())));
}

TEST(RespParser, ReadsAnArrayOfBulkStrings) {
  const ParsedCommand parsed = parse_command("*2\r\n$4\r\nPING\r\n$5\r\nh\r\nlo\r\nrest");
  EXPECT_EQ(parsed.status, Status::kComplete);
  EXPECT_EQ(parsed.words, (Words{"PING", "h\r\nlo"}));
  EXPECT_EQ(parsed.bytes, 25u);
}

TEST(RespParser, SkipsAnEmptyArrayAndAnEmptyLine) {
  for (const char* text : {"*0\r\n", "\r\n", "\n", "  \t \r\n"}) {
    const ParsedCommand parsed = parse_command(text);
    EXPECT_EQ(parsed.status, Status::kComplete) << text;
    EXPECT_TRUE(parsed.words.empty());
    EXPECT_EQ(parsed.bytes, std::string_view(text).size());
  }
}

RC_GTEST_PROP(RespParser, FindsTheSameCommandsForAnySplitOfTheStream, ()) {
  const auto sent = *commands();
  std::string stream;
  for (const Words& words : sent) stream += encoded(words);
  auto cuts =
      *rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(0, stream.size() + 1));
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::string> pieces;
  size_t at = 0;
  for (const size_t cut : cuts) {
    pieces.push_back(stream.substr(at, cut - at));
    at = cut;
  }
  pieces.push_back(stream.substr(at));
  const Received received = read_some(pieces);
  RC_ASSERT(received.error.empty());
  RC_ASSERT(received.rest.empty());
  RC_ASSERT(received.commands == sent);
}

RC_GTEST_PROP(RespParser, IsIncompleteAtEveryProperPrefixOfACommand, ()) {
  const auto words =
      *rc::gen::container<Words>(rc::gen::container<std::string>(rc::gen::arbitrary<char>()));
  const std::string text = encoded(words);
  for (size_t size = 0; size < text.size(); ++size) {
    RC_ASSERT(parse_command(text.substr(0, size)).status == Status::kIncomplete);
  }
  RC_ASSERT(parse_command(text).bytes == text.size());
}

RC_GTEST_PROP(RespParser, EndsTheSameForAnySplitOfAnyBytes, ()) {
  const auto text =
      *rc::gen::container<std::string>(rc::gen::elementOf(std::string("*$\r\n0123 a\"'\\")));
  const Received whole = read_some({text});
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const Received split = read_some({text.substr(0, cut), text.substr(cut)});
    RC_ASSERT(split.commands == whole.commands);
    RC_ASSERT(split.error == whole.error);
  }
}

TEST(RespParser, ReportsBytesThatCanNeverBecomeARequest) {
  const std::pair<const char*, const char*> invalid[] = {
      {"*x\r\n", "invalid multibulk length"},
      {"*\r\n", "invalid multibulk length"},
      {"*-1\r\n", "invalid multibulk length"},
      {"*+1\r\n", "invalid multibulk length"},
      {"* 1\r\n", "invalid multibulk length"},
      {"*1\n", "invalid multibulk length"},
      {"*1\rx", "invalid multibulk length"},
      {"*1201\r\n", "invalid multibulk length"},
      {"*1000000000", "invalid multibulk length"},
      {"*1\r\n+PING\r\n", "expected '$' before an argument"},
      {"*2\r\n$1\r\na\r\n*", "expected '$' before an argument"},
      {"*1\r\n$\r\n", "invalid bulk length"},
      {"*1\r\n$-1\r\n", "invalid bulk length"},
      {"*1\r\n$4x", "invalid bulk length"},
      {"*1\r\n$4\n", "invalid bulk length"},
      {"*1\r\n$65537\r\n", "invalid bulk length"},
      {"*1\r\n$1000000000", "invalid bulk length"},
      {"*1\r\n$1\r\nab\r\n", "an argument does not end where its length says"},
      {"*1\r\n$1\r\na\n\n", "an argument does not end where its length says"},
      {"*1\r\n$1\r\na\rx", "an argument does not end where its length says"},
      {"ECHO \"open\r\n", "unbalanced quotes in request"},
      {"ECHO 'open\r\n", "unbalanced quotes in request"},
      {"ECHO \"a\"b\r\n", "unbalanced quotes in request"},
      {"ECHO \"a\\n\"\r\n", "escapes in quotes are not supported: send an array of bulk strings"},
  };
  for (const auto& [text, error] : invalid) {
    const ParsedCommand parsed = parse_command(text);
    EXPECT_EQ(parsed.status, Status::kBroken) << text;
    EXPECT_EQ(parsed.error, error) << text;
  }
}

TEST(RespParser, AcceptsArgumentsUpToTheMaximumNumber) {
  const Words most(kMaxRespArguments, "a");
  EXPECT_EQ(parse_command(encoded(most)).words, most);
  const Words more(kMaxRespArguments + 1, "a");
  EXPECT_EQ(parse_command(encoded(more)).status, Status::kBroken);
}

TEST(RespParser, AcceptsAnArgumentUpToTheMaximumSize) {
  const Words longest{std::string(kMaxRespArgument, 'a')};
  EXPECT_EQ(parse_command(encoded(longest)).words, longest);
  const Words longer{std::string(kMaxRespArgument + 1, 'a')};
  EXPECT_EQ(parse_command(encoded(longer)).status, Status::kBroken);
}

TEST(RespParser, AcceptsARequestUpToTheMaximumSize) {
  // Five arguments whose sizes have five digits: "*5\r\n", and ten bytes around each.
  const auto of_size = [](size_t last) {
    const std::string part(60'000, 'a');
    return encoded({part, part, part, part, std::string(last, 'a')});
  };
  const size_t fits = kMaxRespRequest - (4 + 5 * 10) - 4 * 60'000;
  ASSERT_EQ(of_size(fits).size(), kMaxRespRequest);
  EXPECT_EQ(parse_command(of_size(fits)).status, Status::kComplete);
  EXPECT_EQ(parse_command(of_size(fits + 1)).error, "request too large");
}

TEST(RespParser, ReadsALineOfWords) {
  EXPECT_EQ(parse_command("PING\r\n").words, Words{"PING"});
  EXPECT_EQ(parse_command("PING\n").words, Words{"PING"});
  EXPECT_EQ(parse_command("  CL.THROTTLE\talice 15  30 60 \r\n").words,
            (Words{"CL.THROTTLE", "alice", "15", "30", "60"}));
  EXPECT_EQ(parse_command("a$b *c\r\n").words, (Words{"a$b", "*c"}));
  EXPECT_EQ(parse_command("PING\r\nPING\r\n").bytes, 6u);
  EXPECT_EQ(parse_command("PING\r").status, Status::kIncomplete);
}

TEST(RespParser, ReadsQuotedWordsInALine) {
  EXPECT_EQ(parse_command("ECHO \"two words\" 'and \"one\"' \"\"\r\n").words,
            (Words{"ECHO", "two words", "and \"one\"", ""}));
  EXPECT_EQ(parse_command("it's fine\r\n").words, (Words{"it's", "fine"}));
  EXPECT_EQ(parse_command("a\\b\r\n").words, Words{"a\\b"});
}

TEST(RespParser, AcceptsALineUpToTheMaximumSize) {
  const std::string most(kMaxRespLine - 1, 'a');
  EXPECT_EQ(parse_command(most).status, Status::kIncomplete);
  EXPECT_EQ(parse_command(most + "\n").words, Words{most});
  EXPECT_EQ(parse_command(most + "a").error, "too big inline request");
  EXPECT_EQ(parse_command(most + "a\n").error, "too big inline request");
}

TEST(RespParser, AcceptsAsManyWordsInALineAsArgumentsInAnArray) {
  std::string line;
  for (size_t i = 0; i < kMaxRespArguments; ++i) line += "a ";
  EXPECT_EQ(parse_command(line + "\r\n").words.size(), kMaxRespArguments);
  EXPECT_EQ(parse_command(line + "a\r\n").error, "too many words");
}

TEST(RespParser, HasNoArgumentsAfterAnIncompleteRequest) {
  RespParser parser;
  ASSERT_EQ(parser.parse("PING\r\n"), Status::kComplete);
  ASSERT_EQ(parser.parse("*1\r\n$4\r\nPI"), Status::kIncomplete);
  EXPECT_TRUE(parser.arguments().empty());
  EXPECT_EQ(parser.bytes(), 0u);
}

}  // namespace
}  // namespace weir::frontends
