#include "global/due_backlog.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "memory/tuple_key.h"

namespace weir::global {
namespace {

MonoTime mono_at(int64_t ms) {
  return MonoTime(Millis(1'000'000 + ms));
}

std::string tuple_of(const std::string& workspace, const std::string& ns,
                     const std::string& identifier) {
  static const base::KeyedHash hash(7);
  return memory::TupleKey({.workspace = workspace,
                           .ns = ns,
                           .identifier = identifier,
                           .limit = 1,
                           .duration = Millis(60'000)},
                          hash)
      .encoded();
}

class DueBacklogTest : public testing::Test {
 protected:
  DueTuple add(const std::string& workspace, const std::string& ns, const std::string& identifier,
               int64_t now = 0, Due kind = Due::kRule, int64_t due_at = 0) {
    const DueTuple due{
        .tuple = tuple_of(workspace, ns, identifier), .kind = kind, .at = WallTime(Millis(due_at))};
    backlog_.add(due, mono_at(now));
    return due;
  }
  // The next entries as "workspace/namespace/identifier", until there is none.
  std::vector<std::string> take(size_t most, int64_t now = 0) {
    std::vector<std::string> taken;
    while (taken.size() < most) {
      const DueBacklog::Entry* const entry = backlog_.take(mono_at(now));
      if (entry == nullptr) break;
      const LedgerKey key = ledger_key_of(entry->due.tuple);
      taken.push_back(key.workspace + "/" + key.ns + "/" + key.identifier);
    }
    return taken;
  }

  using Names = std::vector<std::string>;
  DueBacklog backlog_;
};

TEST_F(DueBacklogTest, TakesTheTuplesOfANamespaceInTheOrderOfTheirArrival) {
  for (const char* name : {"c", "a", "b"}) add("w", "api", name);
  EXPECT_EQ(take(10), (Names{"w/api/c", "w/api/a", "w/api/b"}));
  EXPECT_TRUE(take(10).empty());
  EXPECT_EQ(backlog_.size(), 3U);  // taken, and not removed yet
}

TEST_F(DueBacklogTest, LetsWorkspacesTakeTurnsHoweverManyTuplesOneHas) {
  for (int i = 0; i < 1000; ++i) add("flood", "api", std::to_string(i));
  add("other", "api", "x");
  add("other", "api", "y");
  add("third", "api", "z");
  EXPECT_EQ(take(6), (Names{"flood/api/0", "other/api/x", "third/api/z", "flood/api/1",
                            "other/api/y", "flood/api/2"}));
}

TEST_F(DueBacklogTest, LetsTheNamespacesOfAWorkspaceTakeTurns) {
  for (int i = 0; i < 1000; ++i) add("w", "flood", std::to_string(i));
  add("w", "quiet", "x");
  add("w", "quiet", "y");
  add("other", "api", "z");
  // A workspace with two namespaces has no more turns than one with a single one.
  EXPECT_EQ(take(6), (Names{"other/api/z", "w/flood/0", "w/quiet/x", "w/flood/1", "w/quiet/y",
                            "w/flood/2"}));
}

TEST_F(DueBacklogTest, ContinuesTheTurnsAcrossRounds) {
  for (const char* workspace : {"a", "b", "c"}) {
    for (int i = 0; i < 3; ++i) add(workspace, "api", std::to_string(i));
  }
  Names taken;
  for (int round = 0; round < 9; ++round) taken.push_back(take(1).at(0));
  EXPECT_EQ(taken, (Names{"a/api/0", "b/api/0", "c/api/0", "a/api/1", "b/api/1", "c/api/1",
                          "a/api/2", "b/api/2", "c/api/2"}));
}

TEST_F(DueBacklogTest, KeepsOneEntryOfEachKindForATuple) {
  add("w", "api", "x", 0, Due::kRule);
  add("w", "api", "x", 0, Due::kRule);
  add("w", "api", "x", 0, Due::kNow);
  EXPECT_EQ(backlog_.size(), 2U);
  EXPECT_EQ(take(10), (Names{"w/api/x", "w/api/x"}));
}

TEST_F(DueBacklogTest, AnEntryThatBecameDueAgainKeepsItsPlaceAndGetsTheNewTime) {
  add("w", "api", "x", 0, Due::kRule, 1000);
  add("w", "api", "y", 10, Due::kRule, 1001);
  add("w", "api", "x", 20, Due::kRule, 1002);
  DueBacklog::Entry* const first = backlog_.take(mono_at(20));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(ledger_key_of(first->due.tuple).identifier, "x");
  EXPECT_EQ(first->due.at, WallTime(Millis(1002)));
  EXPECT_EQ(first->since, mono_at(0));
}

TEST_F(DueBacklogTest, AnEntryThatIsPutBackIsTakenAgainAfterItsPause) {
  const DueTuple x = add("w", "api", "x");
  add("w", "api", "y");
  EXPECT_EQ(take(10), (Names{"w/api/x", "w/api/y"}));
  backlog_.put_back(x, mono_at(500));
  EXPECT_TRUE(take(10, 499).empty());
  EXPECT_EQ(take(10, 500), Names{"w/api/x"});
  // It is still the oldest.
  add("w", "api", "z", 500);
  backlog_.put_back(x, mono_at(500));
  EXPECT_EQ(take(1, 500), Names{"w/api/x"});
}

TEST_F(DueBacklogTest, APausedEntryDelaysNoOther) {
  const DueTuple x = add("a", "api", "x");
  add("a", "api", "y");
  add("b", "api", "z");
  EXPECT_EQ(take(1), Names{"a/api/x"});
  backlog_.put_back(x, mono_at(10'000));
  EXPECT_EQ(take(10), (Names{"b/api/z", "a/api/y"}));
}

TEST_F(DueBacklogTest, RemovesEntriesInAnyOrderAndForgetsEmptyTenants) {
  std::vector<DueTuple> all;
  for (const char* workspace : {"a", "b"}) {
    for (const char* ns : {"one", "two"}) {
      for (int i = 0; i < 3; ++i) all.push_back(add(workspace, ns, std::to_string(i)));
    }
  }
  EXPECT_EQ(take(5).size(), 5U);
  for (size_t i = 0; i < all.size(); i += 2) backlog_.remove(all[i]);
  for (size_t i = 1; i < all.size(); i += 2) backlog_.remove(all[i]);
  backlog_.remove(all[0]);  // again
  backlog_.put_back(all[0], mono_at(0));
  EXPECT_EQ(backlog_.size(), 0U);
  EXPECT_TRUE(take(10).empty());
  size_t tenants = 0;
  backlog_.each_tenant([&](const Tenant&, MonoTime) { ++tenants; });
  EXPECT_EQ(tenants, 0U);
  add("a", "one", "again");
  EXPECT_EQ(take(10), Names{"a/one/again"});
}

TEST_F(DueBacklogTest, ReportsSinceWhenTheOldestEntryOfEachTenantWaits) {
  const DueTuple first = add("a", "api", "x", 0);
  add("a", "api", "y", 100);
  add("b", "api", "z", 50);
  const auto waits = [this] {
    std::map<Tenant, MonoTime> since_when;
    backlog_.each_tenant([&](const Tenant& tenant, MonoTime since) { since_when[tenant] = since; });
    return since_when;
  };
  const Tenant a{.workspace = "a", .ns = "api"};
  const Tenant b{.workspace = "b", .ns = "api"};
  EXPECT_EQ(waits(), (std::map<Tenant, MonoTime>{{a, mono_at(0)}, {b, mono_at(50)}}));
  // A taken entry still waits.
  EXPECT_EQ(take(1), Names{"a/api/x"});
  EXPECT_EQ(waits().at(a), mono_at(0));
  backlog_.remove(first);
  EXPECT_EQ(waits().at(a), mono_at(100));
  backlog_.clear();
  EXPECT_TRUE(waits().empty());
  EXPECT_EQ(backlog_.size(), 0U);
}

}  // namespace
}  // namespace weir::global
