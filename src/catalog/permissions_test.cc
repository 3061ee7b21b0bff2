#include "catalog/permissions.h"

#include <gtest/gtest.h>

namespace weir::catalog {
namespace {

PermissionSet set_of(std::vector<std::string> texts) {
  const auto set = PermissionSet::parse(texts);
  EXPECT_TRUE(set) << (set ? "" : set.error().detail);
  return set ? *set : PermissionSet();
}

std::vector<Verb> all_verbs() {
  std::vector<Verb> verbs;
  for (size_t i = 0; i < static_cast<size_t>(Verb::kCount); ++i) {
    verbs.push_back(static_cast<Verb>(i));
  }
  return verbs;
}

TEST(Permissions, GiveEachVerbAloneAndNoOther) {
  for (const Verb given : all_verbs()) {
    const PermissionSet set = set_of({permission_for(given)});
    for (const Verb verb : all_verbs()) {
      const bool expected = verb == given || (given == Verb::kLimit && verb == Verb::kPeek);
      EXPECT_EQ(set.may(verb), expected) << to_string(given) << " " << to_string(verb);
      EXPECT_EQ(set.may(verb, "rlns_1"), expected);
    }
  }
}

TEST(Permissions, AreOfOneNamespace) {
  const PermissionSet set = set_of(
      {"ratelimit.rlns_1.limit", "ratelimit.rlns_1.read_override", "ratelimit.rlns_2.limit"});
  EXPECT_TRUE(set.may(Verb::kLimit, "rlns_1"));
  EXPECT_TRUE(set.may(Verb::kReadOverride, "rlns_1"));
  EXPECT_TRUE(set.may(Verb::kLimit, "rlns_2"));
  EXPECT_FALSE(set.may(Verb::kReadOverride, "rlns_2"));
  EXPECT_FALSE(set.may(Verb::kLimit, "rlns_3"));
  EXPECT_FALSE(set.may(Verb::kLimit));
  EXPECT_TRUE(set.knows("rlns_2"));
  EXPECT_FALSE(set.knows("rlns_3"));
}

TEST(Permissions, OfKeysAloneKnowNoNamespace) {
  EXPECT_FALSE(set_of({"key.*.*", "audit.*.read_audit"}).knows("rlns_1"));
}

TEST(Permissions, CoverWhatTheyContain) {
  const PermissionSet wide = set_of({"ratelimit.*.*"});
  const PermissionSet narrow = set_of({"ratelimit.rlns_1.limit", "ratelimit.*.reset"});
  EXPECT_TRUE(wide.covers(narrow));
  EXPECT_FALSE(narrow.covers(wide));
  EXPECT_FALSE(wide.covers(set_of({"key.*.create_key"})));
  EXPECT_TRUE(PermissionSet::all().covers(set_of({"key.*.*", "ratelimit.*.*", "audit.*.*"})));
  EXPECT_TRUE(narrow.covers(PermissionSet()));
}

TEST(Permissions, RefuseOtherTextsAndNameThem) {
  for (const std::string text :
       {"", "limit", "ratelimit.*", "ratelimit..limit", "ratelimit.api.limit", "ratelimit.*.fly",
        "key.rlns_1.create_key", "ratelimit.*.create_key", "*.*.*", "RATELIMIT.*.limit",
        "ratelimit.rlns_.limit", "ratelimit.rlns_a.b.limit", "ratelimit.rlns_a\nb.limit",
        "ratelimit.rlns_x ratelimit.*.* key.*.* ratelimit.rlns_y.limit"}) {
    const auto set = PermissionSet::parse({&text, 1});
    ASSERT_FALSE(set) << text;
    EXPECT_NE(set.error().detail.find("\"" + text + "\""), std::string::npos);
    EXPECT_EQ(set.error().field, "permissions");
  }
  EXPECT_FALSE(PermissionSet::parse(std::vector<std::string>(101, "ratelimit.*.limit")));
}

}  // namespace
}  // namespace weir::catalog
