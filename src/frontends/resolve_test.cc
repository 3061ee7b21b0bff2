#include "frontends/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "catalog/changes.h"
#include "frontends/memory_catalog_test.h"
#include "tests/doubles/manual_clock.h"
#include "weir/validate.h"

namespace weir::frontends {
namespace {

using catalog::Author;
using catalog::CatalogWrite;
using catalog::Verb;

struct ResolveTest : testing::Test {
  doubles::ManualClock clock;
  MemoryCatalog* store = new MemoryCatalog;  // owned by the catalog
  catalog::Catalog catalog{clock, std::unique_ptr<MemoryCatalog>(store)};
  CatalogReader reader;
  rules::RootKeys roots;
  Access access;
  Identifiers identifiers;
  const Author author{.actor = "root", .now = WallTime(Millis(1000))};
  const std::string workspace{catalog::kDefaultWorkspace};
  catalog::Namespace ns = catalog::new_namespace(workspace, "api", author.now);

  void write(const CatalogWrite& each) {
    ASSERT_TRUE(store->write(std::vector{each}));
    EXPECT_EQ(catalog.poll_once(), nullptr);
  }
  void write_namespace() { write(catalog::set_namespace(author, ns, "namespace.create")); }
  void set_override(std::string_view identifier, Count limit, std::optional<Count> burst = {}) {
    write(catalog::set_override(
        author, ns,
        {.identifier = identifier, .limit = limit, .duration = Millis(5000), .burst = burst}));
  }
  // With what applied before, as the API does.
  void set_duration(std::string_view identifier, int64_t ms) {
    write(catalog::set_override(author_now(), ns,
                                {.identifier = identifier, .limit = 10, .duration = Millis(ms)},
                                view().before_override(identifier)));
  }
  void delete_override(std::string_view identifier) {
    write(catalog::delete_override(author_now(), ns, *view().overrides->find_exact(identifier)));
  }
  void set_default(std::optional<Millis> duration) {
    catalog::LimitValues values{.limit = 10, .duration = duration};
    if (!duration) values = {};
    catalog::replace_values(ns, ns.values.duration, values, clock.now().wall);
    write_namespace();
  }
  [[nodiscard]] Author author_now() const { return {.actor = "root", .now = clock.now().wall}; }
  [[nodiscard]] const catalog::NamespaceView& view() {
    snapshot_ = catalog.snapshot();
    return *snapshot_->find_workspace(workspace)->find("api");
  }
  // The durations that a request of alice names, the latest first.
  std::vector<int64_t> past(Millis sent = Millis(1000)) {
    Request request = alice();
    request.duration = sent;
    (void)find(request);
    std::vector<int64_t> all;
    for (size_t i = 0; request.past != nullptr && i < request.past->count; ++i) {
      all.push_back(request.past->durations[i].count());
    }
    return all;
  }
  void become(const std::vector<std::string>& permissions) {
    const auto fresh = catalog::create_key(
        author, {.workspace = workspace, .name = "k", .permissions = permissions}, {1, 2, 3});
    write(fresh.write);
    access.become(fresh.key.hash, roots);
  }
  Resolved find(Request& request, Verb verb = Verb::kLimit) {
    EXPECT_EQ(access.refresh(catalog, reader, clock.now().wall), KeyState::kValid);
    return resolve(access, verb, catalog, request, identifiers);
  }
  std::shared_ptr<const catalog::Snapshot> snapshot_;
  static Request alice() {
    return {.ns = "api", .identifier = "alice", .limit = 10, .duration = Millis(1000)};
  }
};

TEST_F(ResolveTest, TakesOverrideThenNamespaceThenRequest) {
  write_namespace();
  Request request = alice();
  EXPECT_EQ(find(request).override, nullptr);
  EXPECT_EQ(request.limit, 10U);
  ns.values.limit = 20;
  ns.values.duration = Millis(2000);
  write_namespace();
  request = alice();
  (void)find(request);
  EXPECT_EQ(request.limit, 20U);
  EXPECT_EQ(request.duration, Millis(2000));
  set_override("a*", 30);
  request = alice();
  ASSERT_NE(find(request).override, nullptr);
  EXPECT_EQ(request.limit, 30U);
  EXPECT_EQ(request.duration, Millis(5000));
}

TEST_F(ResolveTest, AnswersFromMemoryLikeALookUp) {
  write_namespace();
  become({"ratelimit.*.limit", "ratelimit.*.create_namespace"});
  const auto resolution_of = [&](std::string_view name, Verb verb = Verb::kLimit) {
    Request request = alice();
    request.ns = name;
    request.workspace = "another";
    request.past = reinterpret_cast<const PastDurations*>(&request);  // of an earlier request
    const Resolved resolved = find(request, verb);
    if (resolved.resolution != Resolution::kReady) return resolved.resolution;
    EXPECT_EQ(request.workspace, catalog::tuple_workspace(workspace));
    EXPECT_EQ(request.past, nullptr);
    EXPECT_EQ(resolved.ns == nullptr ? "" : resolved.ns->record.name, name == "api" ? "api" : "");
    return resolved.resolution;
  };
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(resolution_of("api"), Resolution::kReady);
    EXPECT_EQ(resolution_of("apj"), Resolution::kReady);
    EXPECT_EQ(resolution_of("ap"), Resolution::kReady);
    EXPECT_EQ(resolution_of("api", Verb::kReset), Resolution::kForbidden);
    Request without_limit{.ns = "api", .identifier = "alice"};
    EXPECT_EQ(find(without_limit).resolution, Resolution::kNoLimit);
  }
  ns.deleted = true;
  write_namespace();
  EXPECT_EQ(resolution_of("api"), Resolution::kGone);
}

TEST_F(ResolveTest, AppliesWhatIsSetAfterARequest) {
  write_namespace();
  for (const auto& set : std::vector<std::function<void()>>{
           [&] { set_override("alice", 30); },
           [&] { delete_override("alice"); },
           [&] { set_default(Millis(3000)); },
       }) {
    Request before = alice();
    (void)find(before);
    Request again = alice();
    (void)find(again);
    EXPECT_EQ(again.duration, before.duration);
    set();
    Request after = alice();
    (void)find(after);
    EXPECT_NE(after.duration, before.duration);
  }
}

TEST_F(ResolveTest, NeedsALimitFromSomewhere) {
  write_namespace();
  Request request{.ns = "api", .identifier = "alice"};
  EXPECT_EQ(find(request).resolution, Resolution::kNoLimit);
  set_override("alice", 5);
  request = {.ns = "api", .identifier = "alice"};
  EXPECT_EQ(find(request).resolution, Resolution::kReady);
}

TEST_F(ResolveTest, CutsABurstToTheLimitOfAnOverride) {
  write_namespace();
  set_override("cut", 5);
  set_override("own", 5, 9);
  Request request = alice();
  request.algorithm = Algorithm::kGcra;
  request.burst = 16;
  request.identifier = "cut";
  (void)find(request);
  EXPECT_EQ(request.burst, 5U);
  request.identifier = "own";
  (void)find(request);
  EXPECT_EQ(request.burst, 9U);
}

TEST_F(ResolveTest, ReplacesTheAlgorithmWithItsBurst) {
  ns.values.algorithm = Algorithm::kSlidingLog;
  write_namespace();
  Request request = alice();
  request.algorithm = Algorithm::kGcra;
  request.burst = 16;
  (void)find(request);
  EXPECT_EQ(request.algorithm, Algorithm::kSlidingLog);
  EXPECT_EQ(request.burst, std::nullopt);
  request.algorithm = Algorithm::kGcra;
  request.across_durations = true;
  (void)find(request);
  EXPECT_EQ(request.algorithm, Algorithm::kGcra) << "only gcra has no duration in its key";
}

TEST_F(ResolveTest, TurnsALimitOfZeroIntoARequestThatNeverFits) {
  write_namespace();
  set_override("alice", 0);
  Request request = alice();
  EXPECT_TRUE(find(request).denies_all);
  EXPECT_GT(request.cost, request.limit);
}

TEST_F(ResolveTest, GivesAnIdentifierThatWasResetAnotherIdentity) {
  write_namespace();
  std::string last = "alice";
  for (const uint64_t random : {7, 9, 1001}) {
    write(catalog::reset_identifier(author, ns, "alice", random));
    Request request = alice();
    (void)find(request);
    EXPECT_NE(std::exchange(last, std::string(request.identifier)), request.identifier);
    EXPECT_TRUE(request.identifier.starts_with("alice\x1e"));
  }
  Request request = alice();
  request.identifier = "bob";
  (void)find(request);
  EXPECT_EQ(request.identifier, "bob");
}

TEST_F(ResolveTest, RefusesByTheRightsOfTheKey) {
  write_namespace();
  Request request = alice();
  become({"ratelimit." + ns.id + ".read_override"});
  EXPECT_EQ(find(request).resolution, Resolution::kForbidden);
  become({"key.*.*"});
  EXPECT_EQ(find(request).resolution, Resolution::kNoRight);
  request.ns = "other";
  EXPECT_EQ(find(request).resolution, Resolution::kNoRight) << "it must not learn which one exists";
  request.ns = "api";
  become({"ratelimit." + ns.id + ".limit"});
  EXPECT_EQ(find(request).resolution, Resolution::kReady);
  request.ns = ns.id;
  EXPECT_EQ(find(request).resolution, Resolution::kReady);
  EXPECT_EQ(request.ns, "api") << "an id stands for the name";
  request.ns = "other";
  EXPECT_EQ(find(request).resolution, Resolution::kNoRight);
  become({"ratelimit.*.limit"});
  EXPECT_EQ(find(request).resolution, Resolution::kUnknown);
  // The permission to create namespaces would not help.
  request.ns = "rlns_aaaaaaaaaaaaaaaaaaaaaaaa";
  EXPECT_EQ(find(request).resolution, Resolution::kUnknownId);
  EXPECT_THAT(why_unknown(Resolution::kUnknownId, catalog::Verb::kLimit),
              testing::Not(testing::HasSubstr("permission")));
  EXPECT_THAT(why_unknown(Resolution::kNoRight, catalog::Verb::kLimit),
              testing::HasSubstr("ratelimit.*.limit"));
  request.ns = "other";
  become({"ratelimit.*.limit", "ratelimit.*.create_namespace"});
  EXPECT_EQ(find(request).resolution, Resolution::kReady);
}

// Every request of the identifier was an error, and a batch with it as well.
TEST_F(ResolveTest, DecidesALimitThatTheAlgorithmCannotServe) {
  write_namespace();
  write(catalog::set_override(
      author_now(), ns, {.identifier = "alice", .limit = 1'000'000, .duration = Millis(1000)}));
  Request request = alice();
  request.algorithm = Algorithm::kSlidingLog;
  EXPECT_EQ(find(request).resolution, Resolution::kReady);
  EXPECT_EQ(error_in(request), std::nullopt);
  EXPECT_EQ(request.limit, 1'000'000U);
  EXPECT_EQ(request.algorithm, Algorithm::kSlidingWindowStrict);
  request = alice();
  request.algorithm = Algorithm::kSlidingLog;
  request.identifier = "bob";
  (void)find(request);
  EXPECT_EQ(request.algorithm, Algorithm::kSlidingLog) << "it has no override";
  // A rate that gcra cannot represent.
  write(catalog::set_override(author_now(), ns,
                              {.identifier = "alice",
                               .limit = 999'999'999'989,
                               .duration = kMaxDuration,
                               .burst = kMaxLimit}));
  request = alice();
  request.algorithm = Algorithm::kGcra;
  (void)find(request);
  EXPECT_EQ(error_in(request), std::nullopt);
  EXPECT_EQ(request.algorithm, Algorithm::kGcra);
  // A value that only the client sent is its own error.
  request = alice();
  request.identifier = "bob";
  request.algorithm = Algorithm::kSlidingLog;
  request.limit = 10'001;
  (void)find(request);
  EXPECT_NE(error_in(request), std::nullopt);
}

TEST_F(ResolveTest, DecidesALossPolicyThatTheNamespaceCannotHave) {
  ns.values = {.algorithm = Algorithm::kGcra, .consistency = Consistency::kRelaxed};
  write_namespace();
  Request request = alice();
  request.on_origin_loss = OnOriginLoss::kDeny;
  (void)find(request);
  EXPECT_EQ(error_in(request), std::nullopt);
}

using Past = std::vector<int64_t>;

TEST_F(ResolveTest, NamesTheDurationBeforeAnOverride) {
  write_namespace();
  EXPECT_EQ(past(), Past());
  set_duration("alice", 5000);
  EXPECT_EQ(past(), Past{1000});
  Request request = alice();
  (void)find(request);
  EXPECT_EQ(request.past->changed, clock.now().wall);
  clock.advance(Millis(100));
  set_duration("alice", 7000);
  EXPECT_EQ(past(), (Past{1000, 5000}));
  clock.advance(Millis(100));
  set_duration("alice", 5000);
  EXPECT_EQ(past(), (Past{1000, 7000})) << "not that of the request";
  request.identifier = "bob";
  (void)find(request);
  EXPECT_EQ(request.past, nullptr);
}

TEST_F(ResolveTest, NamesTheDurationOfADeletedOverride) {
  write_namespace();
  set_duration("alice", 5000);
  clock.advance(Millis(100));
  delete_override("alice");
  EXPECT_EQ(past(), Past{5000});
  EXPECT_EQ(past(Millis(5000)), Past()) << "its own";
  clock.advance(Millis(100));
  set_duration("alice", 6000);
  EXPECT_EQ(past(), (Past{1000, 5000}));
}

TEST_F(ResolveTest, NamesThePastOfTheMostSpecificOverride) {
  write_namespace();
  set_duration("a*", 4000);
  EXPECT_EQ(past(), Past{1000});
  clock.advance(Millis(100));
  set_duration("alice", 5000);
  EXPECT_EQ(past(), (Past{1000, 4000}));
  clock.advance(Millis(100));
  delete_override("alice");
  EXPECT_EQ(past(), (Past{5000, 1000})) << "again 4000";
  clock.advance(Millis(100));
  delete_override("a*");
  EXPECT_EQ(past(), (Past{4000, 5000})) << "the latest first";
}

TEST_F(ResolveTest, NamesAWildcardThatEndedBeforeTheOverrideWasSet) {
  write_namespace();
  set_duration("a*", 4000);
  clock.advance(Millis(100));
  delete_override("a*");
  clock.advance(Millis(100));
  set_duration("alice", 5000);
  EXPECT_EQ(past(), (Past{1000, 4000}));
}

TEST_F(ResolveTest, NamesNoWildcardThatEndedWhileTheOverrideApplied) {
  write_namespace();
  set_duration("alice", 5000);
  clock.advance(Millis(100));
  set_duration("a*", 4000);
  clock.advance(Millis(100));
  delete_override("a*");
  EXPECT_EQ(past(), Past{1000});
}

TEST_F(ResolveTest, NamesAllDeletedOverridesThatMatch) {
  write_namespace();
  set_duration("alice", 5000);
  clock.advance(Millis(100));
  delete_override("alice");
  clock.advance(Millis(100));
  set_duration("a*", 4000);
  clock.advance(Millis(100));
  delete_override("a*");
  EXPECT_EQ(past(), (Past{4000, 5000}));
}

TEST_F(ResolveTest, NamesAWildcardThatAMoreSpecificOneReplaced) {
  write_namespace();
  set_duration("al*", 4000);
  clock.advance(Millis(100));
  set_duration("*lice", 5000);
  EXPECT_EQ(past(), (Past{1000, 4000}));
  clock.advance(Millis(100));
  set_duration("al*", 7000);
  EXPECT_EQ(past(), (Past{1000, 4000})) << "7000 never applied";
}

TEST_F(ResolveTest, NamesThePastOfTheWildcardThatAnOverrideReplaced) {
  write_namespace();
  set_duration("al*", 4000);
  clock.advance(Millis(100));
  set_duration("al*", 6000);
  clock.advance(Millis(100));
  set_duration("alice", 5000);
  EXPECT_EQ(past(), (Past{1000, 6000, 4000}));
}

TEST_F(ResolveTest, NamesADurationForAsLongAsItsBurstCounts) {
  write_namespace();
  const auto set = [&](int64_t ms, std::optional<Count> burst) {
    write(catalog::set_override(
        author_now(), ns,
        {.identifier = "alice", .limit = 10, .duration = Millis(ms), .burst = burst},
        view().before_override("alice")));
  };
  set(5000, 1000);
  set(6000, 1000);
  clock.advance(Millis(2 * 6000) + catalog::kPastSlack + Millis(1));
  set(3'600'000, std::nullopt);
  EXPECT_EQ(past(), (Past{1000, 6000, 5000}));
}

TEST_F(ResolveTest, NamesTheDurationBeforeThatOfTheNamespace) {
  write_namespace();
  set_default(Millis(2000));
  EXPECT_EQ(past(), Past{1000});
  clock.advance(Millis(100));
  set_default(Millis(3000));
  EXPECT_EQ(past(), (Past{2000, 1000}));
  clock.advance(Millis(100));
  set_default(std::nullopt);
  EXPECT_EQ(past(), (Past{3000, 2000}));
  clock.advance(Millis(100));
  set_default(Millis(3000));
  set_duration("alice", 5000);
  EXPECT_EQ(past(), (Past{3000, 1000, 2000})) << "before both changes";
}

TEST_F(ResolveTest, NamesNoPastOnceItCannotCount) {
  write_namespace();
  set_duration("alice", 5000);
  clock.advance(Millis(2 * 5000) + catalog::kPastSlack);
  EXPECT_EQ(past(), Past());
  delete_override("alice");
  EXPECT_EQ(past(), Past{5000});
  clock.advance(Millis(2 * 1000) + catalog::kPastSlack);
  EXPECT_EQ(past(), Past()) << "it has left the shorter window";
}

TEST_F(ResolveTest, NamesNoPastWithoutTheTimeOfTheChange) {
  write_namespace();
  catalog::Override override{.identifier = "alice",
                             .limit = 5,
                             .duration = Millis(5000),
                             .id = catalog::override_id(ns.id, "alice")};
  const auto write_override = [&] {
    write(
        {.row = catalog::row_of(catalog::OverrideRecord{workspace, ns.id, override}), .audit = {}});
  };
  write_override();  // of an earlier version
  EXPECT_EQ(past(), Past());
  override.deleted = true;
  write_override();
  EXPECT_EQ(past(), Past());
}

TEST_F(ResolveTest, NamesNoPastOfCountsAcrossDurationsAndOfALimitOfZero) {
  write_namespace();
  set_duration("alice", 5000);
  Request request = alice();
  request.algorithm = Algorithm::kGcra;
  request.across_durations = true;
  (void)find(request);
  EXPECT_EQ(request.past, nullptr);
  write(catalog::set_override(author_now(), ns,
                              {.identifier = "alice", .limit = 0, .duration = Millis(6000)},
                              view().before_override("alice")));
  EXPECT_EQ(past(), Past());
}

TEST_F(ResolveTest, NamesNoMoreThanTheLatestDurations) {
  write_namespace();
  for (int64_t i = 0; i < 20; ++i) {
    clock.advance(Millis(10));
    set_duration("alice", 5000 + i);
    set_default(Millis(4000 + i));
  }
  const Past all = past();
  EXPECT_EQ(all.size(), PastDurations::kMost);
  EXPECT_EQ(all[0], 4019) << "what it would have without the override";
}

TEST_F(ResolveTest, RefusesADeletedNamespace) {
  write_namespace();
  write(catalog::delete_namespace(author, ns));
  Request request = alice();
  EXPECT_EQ(find(request).resolution, Resolution::kGone);
}

TEST_F(ResolveTest, DecidesUnknownNamespacesWhileTheCatalogIsLost) {
  become({"ratelimit.*.limit"});
  store->fails = true;
  EXPECT_NE(catalog.poll_once(), nullptr);
  Request request = alice();
  EXPECT_EQ(find(request).resolution, Resolution::kReady);
  Access unknown;
  unknown.become(rules::hash_of("another key"), roots);
  EXPECT_EQ(unknown.refresh(catalog, reader, clock.now().wall), KeyState::kNoAnswer);
}

TEST_F(ResolveTest, EndsAKeyThatIsRevokedOrExpires) {
  auto fresh = catalog::create_key(
      author, {.workspace = workspace, .name = "k", .expires = clock.now().wall + Millis(100)},
      {4, 5, 6});
  write(fresh.write);
  access.become(fresh.key.hash, roots);
  EXPECT_EQ(access.refresh(catalog, reader, clock.now().wall), KeyState::kValid);
  EXPECT_EQ(access.refresh(catalog, reader, clock.now().wall + Millis(100)), KeyState::kUnknown);
  write(catalog::revoke_key(author, fresh.key));
  EXPECT_EQ(access.refresh(catalog, reader, clock.now().wall), KeyState::kUnknown);
}

TEST_F(ResolveTest, GivesNoRightsToAKeyThatIsNotValid) {
  Access unknown;
  unknown.become(rules::hash_of("no key"), roots);
  EXPECT_NE(unknown.refresh(catalog, reader, clock.now().wall), KeyState::kValid);
  EXPECT_TRUE(unknown.permissions().empty());
  const WallTime end = clock.now().wall + Millis(100);
  const auto fresh = catalog::create_key(
      author,
      {.workspace = workspace, .name = "k", .permissions = {"ratelimit.*.*"}, .expires = end},
      {4, 5, 6});
  write(fresh.write);
  EXPECT_EQ(unknown.refresh(catalog, reader, clock.now().wall), KeyState::kUnknown);
  EXPECT_TRUE(unknown.permissions().empty());
  access.become(fresh.key.hash, roots);
  EXPECT_EQ(access.refresh(catalog, reader, clock.now().wall), KeyState::kValid);
  EXPECT_FALSE(access.permissions().empty());
  EXPECT_EQ(access.refresh(catalog, reader, end), KeyState::kUnknown);
  EXPECT_TRUE(access.permissions().empty());
  const rules::KeyHash root = rules::hash_of("a root key");
  roots.add(root);
  access.become(root, roots);
  EXPECT_EQ(access.refresh(catalog, reader, clock.now().wall), KeyState::kValid);
  EXPECT_FALSE(access.permissions().empty());
  roots.replace(rules::hash_of("another root key"));
  EXPECT_EQ(access.refresh(catalog, reader, clock.now().wall), KeyState::kUnknown);
  EXPECT_TRUE(access.permissions().empty());
  roots.replace(root);
  EXPECT_EQ(access.refresh(catalog, reader, clock.now().wall), KeyState::kValid);
  EXPECT_FALSE(access.permissions().empty());
}

TEST_F(ResolveTest, EndsARootKeyThatIsReplaced) {
  const rules::KeyHash old = rules::hash_of("the first root key");
  roots.add(old);
  access.become(old, roots);
  EXPECT_TRUE(access.is_root());
  EXPECT_EQ(access.refresh(catalog, reader, clock.now().wall), KeyState::kValid);
  roots.replace(old);
  EXPECT_EQ(access.refresh(catalog, reader, clock.now().wall), KeyState::kValid);
  roots.replace(rules::hash_of("the second root key"));
  EXPECT_EQ(access.refresh(catalog, reader, clock.now().wall), KeyState::kUnknown);
  EXPECT_EQ(access.refresh(catalog, reader, clock.now().wall), KeyState::kUnknown);
  roots.replace(old);
  EXPECT_EQ(access.refresh(catalog, reader, clock.now().wall), KeyState::kValid);
}

}  // namespace
}  // namespace weir::frontends
