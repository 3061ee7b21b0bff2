#include "frontends/http/normal_path.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace weir::frontends {
namespace {

std::string normal(std::string_view target) {
  std::string path = "left over";
  normalize_path(target, path);
  return path;
}

TEST(NormalPath, IsTheSameForAllSpellings) {
  for (const auto& [target, expected] : std::vector<std::pair<std::string, std::string>>{
           {"/login", "/login"},
           {"/login?a=/b", "/login"},
           {"/login#a?b", "/login"},
           {"//login", "/login"},
           {"/./login", "/login"},
           {"/%6Cogin", "/login"},
           {"/%6c%6F%67in", "/login"},
           {"/x/../login", "/login"},
           {"/x/%2e%2E/login", "/login"},
           {"/../../login", "/login"},
           {"login", "/login"},
           {"http://host:80/login", "/login"},
           {"https://host?x", "/"},
           {"http://host", "/"},
           {"", "/"},
           {"?a", "/"},
           {"*", "/*"},
           {"/login/", "/login/"},
           {"/login/.", "/login/"},
           {"/a/b/..", "/a/"},
           {"/a/b/../", "/a/"},
           {"/a//b", "/a/b"},
           {"/...", "/..."},
           {"/LOGIN", "/LOGIN"},
           {"/a%2fb", "/a%2Fb"},
           {"/a%3fb%23", "/a%3Fb%23"},
           {"/100%", "/100%25"},
           {"/%zz", "/%25zz"},
           {"/%%341", "/%2541"},
           {"/%2541", "/%2541"},
           {"/a%00%0a", "/a%00%0A"},
           {"/caf%c3%a9", "/caf\xc3\xa9"},
           {"/a://b/../c", "/a:/c"},
       }) {
    EXPECT_EQ(normal(target), expected) << target;
  }
}

RC_GTEST_PROP(NormalPath, DoesNotChangeAgain, (const std::vector<uint8_t>& choices)) {
  constexpr std::string_view kPieces[] = {"/", ".", "%", "2", "5", "e", "F", "?", "#", "a", "\n"};
  std::string target;
  for (const uint8_t choice : choices) target += kPieces[choice % std::size(kPieces)];
  const std::string once = normal(target);
  RC_ASSERT(normal(once) == once);
  RC_ASSERT(once.starts_with('/'));
  RC_ASSERT(once.find("//") == std::string::npos);
  RC_ASSERT((once + "/").find("/../") == std::string::npos);
}

std::vector<std::string> readings(std::string_view target) {
  std::vector<std::string> all{"left over"};
  other_readings(target, all);
  return all;
}

TEST(OtherReadings, AreThoseOfApplicationsThatReadSlashesAndParametersDifferently) {
  using Paths = std::vector<std::string>;
  EXPECT_EQ(readings("/login"), Paths{});
  EXPECT_EQ(readings("/login?a;b\\c%2f"), Paths{});
  EXPECT_EQ(readings("/%6cogin"), Paths{});
  EXPECT_EQ(readings("/a;b=c/d"), Paths{"/a/d"});
  EXPECT_EQ(readings("/\\a"), Paths{"/a"});
  EXPECT_EQ(readings("/a%2fb"), Paths{"/a/b"});
  EXPECT_EQ(readings("/a%5cb"), Paths{"/a/b"});
  EXPECT_EQ(readings("/a;%2fb"), (Paths{"/a/b", "/a", "/a;/b"}));
  EXPECT_EQ(readings("/a/..;/b"), Paths{"/b"});
}

RC_GTEST_PROP(OtherReadings, AreFewAndInNormalForm, (const std::vector<uint8_t>& choices)) {
  constexpr std::string_view kPieces[] = {"/", ".", "%2f", ";", "\\", "%5C", "%3b", "a", "?"};
  std::string target;
  for (const uint8_t choice : choices) target += kPieces[choice % std::size(kPieces)];
  const std::vector<std::string> all = readings(target);
  RC_ASSERT(all.size() <= 11u);
  for (const std::string& each : all) RC_ASSERT(normal(each) == each);
}

}  // namespace
}  // namespace weir::frontends
