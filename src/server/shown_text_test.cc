#include "server/shown_text.h"

#include <gtest/gtest.h>

namespace weir::server {
namespace {

TEST(ShownText, KeepsTextOfAnyLanguage) {
  for (const char* text : {"", "api", "a b", "caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                           "\xc2\xa0", "\xe6\x97\xa5\xe6\x9c\xac"}) {
    EXPECT_EQ(shown(text), text);
  }
}

TEST(ShownText, EscapesCharactersThatMoveTheCursor) {
  EXPECT_EQ(shown("a\x1b[2J\n\x7f"), "a\\x1b[2J\\x0a\\x7f");
  EXPECT_EQ(shown(std::string("\0x", 2)), "\\x00x");
}

// A terminal takes U+009B, and in many locales the byte 9B, as the beginning of an escape sequence.
TEST(ShownText, EscapesControlCharactersOfTheSecondSet) {
  EXPECT_EQ(shown("a\xc2\x9b[2J"), "a\\xc2\\x9b[2J");
  EXPECT_EQ(shown("a\x9b[2J"), "a\\x9b[2J");
  EXPECT_EQ(shown("\xc2\x80\xc2\x9f\xc2\xa0"), "\\xc2\\x80\\xc2\\x9f\xc2\xa0");
}

TEST(ShownText, EscapesWhatIsNoUtf8AndWhatChangesTheOrder) {
  EXPECT_EQ(shown("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(shown("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(shown("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(shown("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(shown("a\xe2\x80\xae"
                  "b"),
            "a\\xe2\\x80\\xaeb");
  EXPECT_EQ(shown("\xe2\x80\xa8"), "\\xe2\\x80\\xa8");
}

}  // namespace
}  // namespace weir::server
