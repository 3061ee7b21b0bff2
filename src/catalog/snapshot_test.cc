#include "catalog/snapshot.h"

#include <gtest/gtest.h>

namespace weir::catalog {
namespace {

const std::string kWorkspace(kDefaultWorkspace);

CatalogRow at(uint64_t revision, const Record& record) {
  CatalogRow row = row_of(record);
  row.revision = revision;
  return row;
}

Namespace ns_named(const std::string& name, const std::string& workspace = kWorkspace) {
  return {.id = namespace_id(workspace, name), .workspace = workspace, .name = name};
}

Override override_of(const Namespace& ns, const std::string& identifier, Count limit) {
  return {.identifier = identifier,
          .limit = limit,
          .duration = Millis(1000),
          .id = override_id(ns.id, identifier)};
}

OverrideRecord in(const Namespace& ns, const Override& override) {
  return {.workspace = ns.workspace, .namespace_id = ns.id, .values = override};
}

Key key_named(const std::string& name) {
  const rules::KeyHash hash = rules::hash_of(name);
  return {.id = key_id(hash),
          .workspace = kWorkspace,
          .name = name,
          .hash = hash,
          .start = "weir_",
          .permissions = {"ratelimit.*.limit"}};
}

TEST(CatalogRow, KeepsEveryRecord) {
  Key key = key_named("k");
  key.expires = WallTime(Millis(5));
  key.per_second = 7;
  key.permissions = {"ratelimit.*.limit", "key.*.read_key"};
  Namespace ns = ns_named(std::string("n\n \0x", 5));
  ns.values = {.limit = 1,
               .duration = Millis(100),
               .algorithm = Algorithm::kGcra,
               .burst = 9,
               .consistency = Consistency::kExact};
  Override override = override_of(ns, "a*\nb", 0);
  override.burst = 3;
  override.since = WallTime(Millis(77));
  override.past = {{.duration = Millis(200), .until = WallTime(Millis(9))},
                   {.duration = Millis(100), .until = WallTime(Millis(8))}};
  ns.since = WallTime(Millis(66));
  ns.past = {{.duration = Millis(300), .until = WallTime(Millis(7))}};
  const Reset reset{.id = "rlrs_1",
                    .workspace = kWorkspace,
                    .namespace_id = ns.id,
                    .identifier = "x",
                    .epoch = 12,
                    .kept_until = WallTime(Millis(99))};
  for (const Record& record :
       std::initializer_list<Record>{Workspace{.id = "ws_1", .name = "one", .deleted = true}, key,
                                     ns, in(ns, override), reset}) {
    const auto again = record_of(row_of(record));
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, record);
  }
}

TEST(CatalogRow, IgnoresDamagedRows) {
  CatalogRow row = row_of(in(ns_named("n"), override_of(ns_named("n"), "a", 1)));
  row.body = "limit x\nduration 1000\n";
  EXPECT_FALSE(record_of(row));
  row.body = "limit 5\n";
  EXPECT_FALSE(record_of(row));
  row.kind = 'z';
  EXPECT_FALSE(record_of(row));
  CatalogRow key = row_of(key_named("k"));
  key.body += "expires never\n";
  EXPECT_FALSE(record_of(key)) << "a key whose expiry cannot be read must not live for ever";
}

TEST(CatalogRow, DerivesIdsThatDoNotCollide) {
  EXPECT_EQ(namespace_id("ws_1", "a"), namespace_id("ws_1", "a"));
  EXPECT_NE(namespace_id("ws_1", "a"), namespace_id("ws_2", "a"));
  EXPECT_NE(namespace_id("ws_1", "1a"), namespace_id("ws_11", "a"));
  EXPECT_TRUE(namespace_id("ws_1", "a").starts_with("rlns_"));
}

TEST(Snapshot, FindsNamespacesByNameAndId) {
  SnapshotBuilder builder;
  const Namespace ns = ns_named("api");
  builder.apply(at(1, ns));
  const auto snapshot = builder.build();
  const WorkspaceView* const workspace = snapshot->find_workspace(kWorkspace);
  ASSERT_NE(workspace, nullptr);
  ASSERT_NE(workspace->find("api"), nullptr);
  EXPECT_EQ(workspace->find("api"), workspace->find(ns.id));
  EXPECT_EQ(workspace->find("other"), nullptr);
  EXPECT_EQ(snapshot->revision(), 1U);
}

TEST(Snapshot, KeepsWorkspacesApart) {
  SnapshotBuilder builder;
  builder.apply(at(1, Workspace{.id = "ws_1", .name = "one"}));
  builder.apply(at(2, ns_named("api", "ws_1")));
  const auto snapshot = builder.build();
  EXPECT_NE(snapshot->find_workspace("ws_1")->find("api"), nullptr);
  EXPECT_EQ(snapshot->find_workspace(kWorkspace)->find("api"), nullptr);
  EXPECT_EQ(snapshot->find_workspace(kWorkspace)->find(namespace_id("ws_1", "api")), nullptr);
}

TEST(Snapshot, AppliesSetDeleteAndSetAgain) {
  SnapshotBuilder builder;
  const Namespace ns = ns_named("api");
  builder.apply(at(1, ns));
  const auto limit_of = [&](const std::string& identifier) -> int64_t {
    const auto snapshot = builder.build();
    const NamespaceView* const view = snapshot->find_workspace(kWorkspace)->find("api");
    const Override* const found = view->overrides ? view->overrides->find(identifier) : nullptr;
    return found == nullptr ? -1 : static_cast<int64_t>(found->limit);
  };
  EXPECT_EQ(limit_of("alice"), -1);
  Override override = override_of(ns, "alice", 5);
  builder.apply(at(2, in(ns, override)));
  EXPECT_EQ(limit_of("alice"), 5);
  override.deleted = true;
  builder.apply(at(3, in(ns, override)));
  EXPECT_EQ(limit_of("alice"), -1);
  override.deleted = false;
  override.limit = 9;
  builder.apply(at(4, in(ns, override)));
  EXPECT_EQ(limit_of("alice"), 9);
  override.limit = 1;
  builder.apply(at(2, in(ns, override)));
  EXPECT_EQ(limit_of("alice"), 9) << "an older row came late";
}

TEST(CatalogRow, LeavesOutPastDurationsThatItCannotRead) {
  CatalogRow row = row_of(in(ns_named("n"), override_of(ns_named("n"), "a", 1)));
  row.body += "past 99@5 x 200 @ 200@ @7 200@x 300@6 99999999999999999999@1\nsince x\n";
  const auto override = std::get<OverrideRecord>(record_of(row).value()).values;
  EXPECT_EQ(override.past,
            (std::vector<PastDuration>{{.duration = Millis(300), .until = WallTime(Millis(6))}}));
  EXPECT_EQ(override.since, WallTime{});
}

TEST(Snapshot, KeepsDeletedOverridesForAsLongAsTheyCount) {
  SnapshotBuilder builder;
  const Namespace ns = ns_named("api");
  builder.apply(at(1, ns));
  Override first = override_of(ns, "first", 1);
  first.duration = Millis(1000);
  first.since = WallTime(Millis(1'000'000));
  first.deleted = true;
  builder.apply(at(2, in(ns, first)));
  const auto ended = [&] {
    const auto snapshot = builder.build();
    const auto* const view = snapshot->find_workspace(kWorkspace)->find("api");
    return view->ended ? view->ended->all().size() : 0;
  };
  EXPECT_EQ(ended(), 1U);
  Override second = override_of(ns, "second", 1);
  second.since = counts_until(first.since, first.duration);
  builder.apply(at(3, in(ns, second)));
  EXPECT_EQ(ended(), 1U);
  second.since += Millis(1);
  builder.apply(at(4, in(ns, second)));
  EXPECT_EQ(ended(), 0U);
}

TEST(Snapshot, KeepsDeletedOverridesForAsLongAsTheirBurstCounts) {
  SnapshotBuilder builder;
  const Namespace ns = ns_named("api");
  builder.apply(at(1, ns));
  Override first = override_of(ns, "first", 1);
  first.burst = 100;
  first.since = WallTime(Millis(1'000'000));
  first.deleted = true;
  builder.apply(at(2, in(ns, first)));
  Override second = override_of(ns, "second", 1);
  second.since = counts_until(first.since, 100 * first.duration);
  builder.apply(at(3, in(ns, second)));
  const auto snapshot = builder.build();
  const auto* const view = snapshot->find_workspace(kWorkspace)->find("api");
  ASSERT_NE(view->ended, nullptr);
  EXPECT_GE(view->ended_until, second.since);
}

TEST(Snapshot, BoundsDeletedOverridesThatAreCostlyToFind) {
  SnapshotBuilder builder;
  const Namespace ns = ns_named("api");
  builder.apply(at(1, ns));
  for (int i = 0; i < 300; ++i) {
    Override each = override_of(ns, "*" + std::to_string(i) + "*", 1);
    each.duration = kMaxDuration;
    each.since = WallTime(Millis(1'000'000 + i));
    each.deleted = true;
    builder.apply(at(2, in(ns, each)));
  }
  const auto snapshot = builder.build();
  const auto* const view = snapshot->find_workspace(kWorkspace)->find("api");
  EXPECT_EQ(view->ended->all().size(), 200U);
  EXPECT_EQ(view->ended->find_exact("*99*"), nullptr) << "the oldest";
  EXPECT_NE(view->ended->find_exact("*100*"), nullptr);
}

TEST(Snapshot, ForgetsDeletedOverridesWithoutAnotherChange) {
  SnapshotBuilder builder;
  const Namespace ns = ns_named("api");
  builder.apply(at(1, ns));
  builder.apply(at(2, in(ns, override_of(ns, "kept", 1))));
  const size_t ids = builder.known_ids();
  Override ended = override_of(ns, "ended", 1);
  ended.since = WallTime(Millis(1'000'000));
  ended.deleted = true;
  builder.apply(at(3, in(ns, ended)));
  const auto view = [&] {
    return builder.build()->find_workspace(kWorkspace)->by_name.find("api")->second;
  };
  const auto before = view();
  ASSERT_NE(before->ended, nullptr);
  const WallTime until = counts_until(ended.since, ended.duration);
  EXPECT_FALSE(builder.forget_expired(until));
  EXPECT_TRUE(builder.forget_expired(until + Millis(1)));
  EXPECT_EQ(view()->ended, nullptr);
  EXPECT_EQ(view()->overrides, before->overrides) << "the others are not built again";
  EXPECT_EQ(builder.known_ids(), ids + 1) << "an older row may come late";
  ended.deleted = false;
  builder.apply(at(2, in(ns, ended)));
  EXPECT_EQ(view()->overrides->find("ended"), nullptr);
  EXPECT_FALSE(builder.forget_expired(ended.since + Millis(86'400'000)));
  EXPECT_EQ(builder.known_ids(), ids);
}

TEST(Snapshot, RemembersADurationThatTheFileHadBefore) {
  SnapshotBuilder builder;
  builder.configure({{"api", {.limit = 1, .duration = Millis(1000)}}});
  const auto record = [&] {
    const auto snapshot = builder.build();
    return snapshot->find_workspace(kWorkspace)->find("api")->record;
  };
  EXPECT_EQ(record().since, WallTime{}) << "what was before the start is not known";
  const WallTime first(Millis(1'000'000));
  builder.configure({{"api", {.limit = 2, .duration = Millis(1000)}}}, first);
  EXPECT_EQ(record().since, WallTime{});
  builder.configure({{"api", {.limit = 2, .duration = Millis(2000)}}}, first);
  EXPECT_EQ(record().since, first);
  EXPECT_EQ(record().past, (std::vector<PastDuration>{{.duration = Millis(1000), .until = first}}));
  const WallTime second = first + Millis(10);
  builder.configure({{"api", {}}}, second);
  builder.clear();
  EXPECT_EQ(record().since, second);
  EXPECT_EQ(record().past.size(), 2U);
}

TEST(Snapshot, BoundsDeletedOverrides) {
  SnapshotBuilder builder;
  const Namespace ns = ns_named("api");
  builder.apply(at(1, ns));
  for (int i = 0; i < 10'050; ++i) {
    Override each = override_of(ns, "user-" + std::to_string(i), 1);
    each.duration = kMaxDuration;
    each.since = WallTime(Millis(1'000'000 + i));
    each.deleted = true;
    builder.apply(at(2, in(ns, each)));
  }
  const auto snapshot = builder.build();
  const auto* const view = snapshot->find_workspace(kWorkspace)->find("api");
  EXPECT_EQ(view->ended->all().size(), 10'000U);
  EXPECT_EQ(view->ended->find("user-49"), nullptr) << "the oldest";
  EXPECT_NE(view->ended->find("user-50"), nullptr);
}

TEST(Snapshot, DoesNotChangeAfterItWasBuilt) {
  SnapshotBuilder builder;
  const Namespace ns = ns_named("api");
  builder.apply(at(1, ns));
  const auto before = builder.build();
  builder.apply(at(2, in(ns, override_of(ns, "alice", 5))));
  const auto after = builder.build();
  EXPECT_EQ(before->find_workspace(kWorkspace)->find("api")->overrides, nullptr);
  EXPECT_NE(after->find_workspace(kWorkspace)->find("api")->overrides, nullptr);
}

TEST(Snapshot, ForgetsRevokedKeys) {
  SnapshotBuilder builder;
  Key key = key_named("secret");
  builder.apply(at(1, key));
  EXPECT_NE(builder.build()->find_key(key.hash), nullptr);
  key.revoked = true;
  builder.apply(at(2, key));
  EXPECT_EQ(builder.build()->find_key(key.hash), nullptr);
}

TEST(Snapshot, ForgetsTheIdsOfRevokedKeys) {
  SnapshotBuilder builder;
  const size_t before = builder.known_ids();
  Key key = key_named("secret");
  key.revoked = true;
  builder.apply(at(2, key));
  const WallTime now(Millis(1'000'000));
  EXPECT_FALSE(builder.forget_expired(now));
  key.revoked = false;
  builder.apply(at(1, key));
  EXPECT_EQ(builder.build()->find_key(key.hash), nullptr) << "an older row came late";
  EXPECT_EQ(builder.known_ids(), before + 1);
  EXPECT_FALSE(builder.forget_expired(now + Millis(86'400'000)));
  EXPECT_EQ(builder.known_ids(), before);
}

TEST(Snapshot, GivesNoRightForAnUnknownPermission) {
  SnapshotBuilder builder;
  Key key = key_named("secret");
  key.permissions = {"ratelimit.*.fly", "ratelimit.*.limit"};
  builder.apply(at(1, key));
  const auto snapshot = builder.build();
  EXPECT_TRUE(snapshot->find_key(key.hash)->permissions.may(Verb::kLimit));
  EXPECT_FALSE(snapshot->find_key(key.hash)->permissions.may(Verb::kReset));
}

TEST(Snapshot, TakesValuesOfTheFileWhereTheCatalogHasNone) {
  SnapshotBuilder builder;
  builder.configure({{"api", {.limit = 10, .duration = Millis(1000)}},
                     {"web", {.limit = 1, .duration = Millis(100)}}});
  const auto values = [&](const char* name) {
    const NamespaceView* const view = builder.build()->find_workspace(kWorkspace)->find(name);
    return view == nullptr ? LimitValues{} : view->values;
  };
  EXPECT_EQ(values("api").limit, 10U);
  Namespace ns = ns_named("api");
  builder.apply(at(1, ns));
  EXPECT_EQ(values("api").limit, 10U);
  ns.values.limit = 20;
  ns.values.duration = Millis(60'000);
  builder.apply(at(2, ns));
  EXPECT_EQ(values("api").limit, 20U);
  EXPECT_EQ(values("api").duration, Millis(60'000));
  builder.configure({});
  EXPECT_EQ(values("web"), LimitValues{});
  EXPECT_EQ(values("api").limit, 20U);
}

TEST(Snapshot, ForgetsResetsThatHaveExpired) {
  SnapshotBuilder builder;
  const Namespace ns = ns_named("n");
  builder.apply(at(1, ns));
  const auto reset = [&](const std::string& identifier, int64_t kept_until) {
    return at(2, Reset{.id = reset_id(ns.id, identifier),
                       .workspace = kWorkspace,
                       .namespace_id = ns.id,
                       .identifier = identifier,
                       .epoch = 1,
                       .kept_until = WallTime(Millis(kept_until))});
  };
  builder.apply(reset("a", 10));
  builder.apply(reset("b", 20));
  const auto resets = [&] {
    const auto snapshot = builder.build();
    const auto& view = *snapshot->find_workspace(kWorkspace)->find("n");
    return view.resets ? view.resets->size() : 0;
  };
  EXPECT_EQ(resets(), 2U);
  EXPECT_FALSE(builder.forget_expired(WallTime(Millis(9))));
  EXPECT_TRUE(builder.forget_expired(WallTime(Millis(10))));
  EXPECT_EQ(resets(), 1U);
  EXPECT_TRUE(builder.forget_expired(WallTime(Millis(20))));
  EXPECT_EQ(resets(), 0U);
  EXPECT_FALSE(builder.forget_expired(WallTime(Millis(99))));
}

}  // namespace
}  // namespace weir::catalog
