#include "frontends/http/json_text.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <string>

namespace weir::frontends {
namespace {

std::string as_json(std::string_view text) {
  Bytes out;
  append_json(out, text);
  return std::string(out.unread());
}

TEST(JsonText, QuotesPlainText) {
  EXPECT_EQ(as_json(""), R"("")");
  EXPECT_EQ(as_json("two words"), R"("two words")");
  EXPECT_EQ(as_json("/"), R"("/")");
}

TEST(JsonText, EscapesQuotesBackslashesAndControlCharacters) {
  EXPECT_EQ(as_json(R"(a"b\c)"), R"("a\"b\\c")");
  EXPECT_EQ(as_json("\n\t\x1f"), R"("\u000a\u0009\u001f")");
  EXPECT_EQ(as_json(std::string_view("\0", 1)), R"("\u0000")");
}

TEST(JsonText, CopiesEverythingElse) {
  EXPECT_EQ(as_json("é\xf0\x9f\x8c\x8a\x7f"), "\"é\xf0\x9f\x8c\x8a\x7f\"");
}

TEST(JsonText, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(as_json("a\xff"
                    "b\x80\""),
            R"("a\ufffdb\ufffd\"")");
  // A character that is cut, one with more bytes than needed, a surrogate, one behind the last.
  for (const std::string_view text : {"\xf0\x9f\x8c", "\xe0\x80\xaf", "\xed\xa0\x80"}) {
    EXPECT_EQ(as_json(text), R"("\ufffd\ufffd\ufffd")");
  }
  EXPECT_EQ(as_json("\xf4\x90\x80\x80"), R"("\ufffd\ufffd\ufffd\ufffd")");
  EXPECT_EQ(as_json("\xc0\x80"), R"("\ufffd\ufffd")");
}

// Of every two bytes that begin a text, and of the edges of each length.
TEST(JsonText, IsAlwaysValid) {
  simdjson::dom::parser parser;
  const auto check = [&](const std::string& text) {
    const simdjson::padded_string json(as_json(text));
    std::string_view read;
    ASSERT_EQ(parser.parse(json).get_string().get(read), simdjson::SUCCESS);
    if (simdjson::validate_utf8(text)) {
      ASSERT_EQ(read, text);
    }
  };
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      for (const std::string_view rest : {"", "\x80", "\xbf\x80", "\x80\x80x"}) {
        check(std::string{static_cast<char>(a), static_cast<char>(b)} + std::string(rest));
      }
    }
  }
}

}  // namespace
}  // namespace weir::frontends
