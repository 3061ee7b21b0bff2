#include "frontends/http/json_text.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weir::frontends
