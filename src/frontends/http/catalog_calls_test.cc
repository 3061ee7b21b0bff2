// The calls that change and read the catalog, through a session.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "catalog/changes.h"
#include "catalog/checks.h"
#include "frontends/fixture_test.h"
#include "frontends/http/catalog_api.h"
#include "frontends/http/catalog_reply.h"
#include "frontends/http/http_session.h"
#include "frontends/memory_catalog_test.h"

namespace weir::frontends {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct CatalogCalls : testing::Test {
  MemoryCatalog* database = new MemoryCatalog;  // owned by the catalog
  Fixture fixture{{}, std::unique_ptr<catalog::CatalogStore>(database)};
  doubles::ManualExecutor executor{fixture.clock};
  HttpScratch scratch{1};
  HttpSession session{fixture.service, scratch};
  TestConnection line{fixture, session};
  const catalog::Author author{.actor = "root", .now = fixture.clock.now().wall};

  void SetUp() override {
    session.bind(executor, [] {});
    fixture.service.random = [] {
      static uint64_t last = 1000;
      return ++last;
    };
    EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
  }
  // The answer to a call, after the catalog has written.
  std::string call(const std::string& operation, const std::string& body,
                   const std::string& key = std::string(kKey)) {
    std::string answer =
        line.send("POST /v2/" + operation + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + key +
                  "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    if (line.next != Next::kWait) return answer;
    EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
    executor.run();
    return line.send("");
  }
  catalog::NewKey make_key(const catalog::KeyValues& values) {
    const uint64_t seed = ++random_;
    auto key = catalog::create_key(author, values, {seed, seed, seed});
    write({key.write});
    return key;
  }
  // A page of the audit log, which the thread of the catalog reads otherwise.
  CatalogReply list_audit(const std::string& body) {
    Access access;
    CatalogReader reader;
    EXPECT_EQ(access.refresh(fixture.catalog, reader, author.now), KeyState::kValid);
    const std::string padded = body + std::string(Bytes::kPadding, ' ');
    CatalogReply reply;
    for (const CatalogOperation& each : catalog_operations()) {
      if (each.path != "/v2/audit.listEntries") continue;
      reply = each.run({.access = access,
                        .snapshot = *reader.pin(),
                        .body = std::string_view(padded).substr(0, body.size()),
                        .now = author.now});
    }
    if (reply.audit) {
      const auto& page = *reply.audit;
      complete(database->read_audit(page.workspace, page.before, page.most + 1).value(), reply);
    }
    return reply;
  }
  void write(const std::vector<catalog::CatalogWrite>& writes) {
    EXPECT_TRUE(database->write(writes));
    EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
  }

 private:
  uint64_t random_ = 100;
};

// The text of a field of an answer.
std::string text_in(const std::string& answer, const std::string& field) {
  const std::string begin = "\"" + field + "\":\"";
  const size_t at = answer.find(begin);
  if (at == std::string::npos) return "";
  const size_t from = at + begin.size();
  return answer.substr(from, answer.find('"', from) - from);
}

// It was ready ten seconds after its start, while the first overrides were still being read.
TEST(Readiness, WaitsUntilTheCatalogWasReadToItsEnd) {
  auto* const database = new MemoryCatalog;  // owned by the catalog
  Fixture fixture{{}, std::unique_ptr<catalog::CatalogStore>(database)};
  HttpScratch scratch{1};
  HttpSession session{fixture.service, scratch};
  TestConnection line{fixture, session};
  const auto readiness = [&] { return line.send("GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n"); };
  const catalog::Author author{.actor = "root", .now = fixture.clock.now().wall};
  const auto ns = catalog::new_namespace(catalog::kDefaultWorkspace, "api", author.now);
  EXPECT_TRUE(database->write(std::vector{catalog::set_namespace(author, ns, "namespace.create")}));
  EXPECT_THAT(readiness(), HasSubstr("reading the catalog"));
  fixture.clock.advance(Millis(9'000));
  database->fails = true;
  EXPECT_NE(fixture.catalog.poll_once(), nullptr);
  EXPECT_THAT(readiness(), HasSubstr("reading the catalog"));
  fixture.clock.advance(Millis(9'000));
  EXPECT_THAT(readiness(), StartsWith("HTTP/1.1 200")) << "the database does not answer";
  database->fails = false;
  std::string while_reading;
  database->on_page = [&] { while_reading = readiness(); };
  EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
  EXPECT_THAT(while_reading, HasSubstr("HTTP/1.1 503"));
  EXPECT_THAT(while_reading, HasSubstr("reading the catalog"));
  EXPECT_THAT(readiness(), StartsWith("HTTP/1.1 200"));
}

TEST_F(CatalogCalls, RotateAKeyWithinTheBoundsOfTheCaller) {
  const catalog::KeyValues free{.workspace = catalog::kDefaultWorkspace,
                                .name = "free",
                                .permissions = {"ratelimit.*.limit"}};
  catalog::KeyValues bounded = free;
  bounded.permissions = {"ratelimit.*.*", "key.*.*"};
  bounded.expires = author.now + Millis(60'000);
  bounded.per_second = 50;
  catalog::KeyValues narrow = free;
  narrow.expires = author.now + Millis(30'000);
  narrow.per_second = 10;
  const catalog::NewKey caller = make_key(bounded);
  const auto rotated = [&](const catalog::KeyValues& values, const std::string& key) {
    const std::string answer = call(
        "keys.rotateKey", R"({"keyId":")" + make_key(values).key.id + R"(","grace":1000})", key);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
    const auto* const fresh = fixture.catalog.snapshot()->find_key_by_id(text_in(answer, "keyId"));
    return fresh == nullptr ? catalog::Key{} : fresh->record;
  };
  const catalog::Key first = rotated(free, caller.secret);
  EXPECT_EQ(first.expires, bounded.expires);
  EXPECT_EQ(first.per_second, bounded.per_second);
  const catalog::Key second = rotated(narrow, caller.secret);
  EXPECT_EQ(second.expires, narrow.expires);
  EXPECT_EQ(second.per_second, narrow.per_second);
  const catalog::Key third = rotated(free, std::string(kKey));
  EXPECT_EQ(third.expires, std::nullopt);
  EXPECT_EQ(third.per_second, std::nullopt);
}

TEST_F(CatalogCalls, ListEveryEntryOfTheAuditLogOnce) {
  const auto ns = catalog::new_namespace(catalog::kDefaultWorkspace, "api", author.now);
  size_t written = 0;
  for (const size_t count : {1, 103, 2, 50}) {
    std::vector<catalog::CatalogWrite> writes;
    for (size_t i = 0; i < count; ++i) {
      writes.push_back(catalog::reset_identifier(author, ns, "x" + std::to_string(++written), 7));
    }
    write(writes);
  }
  for (const int most : {1, 2, 50, 100}) {
    std::vector<std::string> read;
    std::string cursor;
    for (bool more = true; more && read.size() <= written;) {
      const CatalogReply page =
          list_audit(R"({"limit":)" + std::to_string(most) +
                     (cursor.empty() ? "" : R"(,"cursor":")" + cursor + '"') + "}");
      const std::string answer = page.data + page.pagination;
      const std::string begin = "\"detail\":\"identifier ";
      for (size_t at = answer.find(begin); at != std::string::npos; at = answer.find(begin, at)) {
        at += begin.size();
        read.push_back(answer.substr(at, answer.find('"', at) - at));
      }
      more = answer.find(R"("hasMore":true)") != std::string::npos;
      cursor = text_in(answer, "cursor");
      EXPECT_EQ(cursor.empty(), !more);
    }
    ASSERT_EQ(read.size(), written) << most;
    for (size_t i = 0; i < written; ++i) EXPECT_EQ(read[i], "x" + std::to_string(written - i));
  }
  for (const char* wrong : {"7", "7.", ".7", "7.x", "-1.2", "7.1.1"}) {
    EXPECT_THAT(call("audit.listEntries", R"({"cursor":")" + std::string(wrong) + R"("})"),
                HasSubstr("use the cursor of the last page"))
        << wrong;
  }
}

TEST_F(CatalogCalls, CreateNoMoreNamespacesThanAWorkspaceMayHave) {
  std::vector<catalog::CatalogWrite> writes;
  for (size_t i = 0; i < catalog::kMaxNamespaces; ++i) {
    auto ns =
        catalog::new_namespace(catalog::kDefaultWorkspace, "n" + std::to_string(i), author.now);
    ns.deleted = i == 0;
    writes.push_back(catalog::set_namespace(author, ns, "namespace.create"));
  }
  write(writes);
  const std::string override = R"(,"identifier":"a","limit":1,"duration":60000})";
  const size_t rows = database->rows.size();
  for (const std::string& answer :
       {call("ratelimit.createNamespace", R"({"name":"more"})"),
        call("ratelimit.setOverride", R"({"namespace":"more")" + override)}) {
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 409"));
    EXPECT_THAT(answer, HasSubstr("the workspace has 10000 namespaces, deleted ones included, and "
                                  "at most 10000 can be created"));
  }
  EXPECT_EQ(database->rows.size(), rows);
  EXPECT_THAT(call("ratelimit.createNamespace", R"({"name":"n0"})"), StartsWith("HTTP/1.1 200"))
      << "it was deleted, and takes no place";
  EXPECT_THAT(call("ratelimit.setOverride", R"({"namespace":"n1")" + override),
              StartsWith("HTTP/1.1 200"));
}

// Each field was compared with all before it, and each was a problem of the answer: 16 MB for 1 MB.
TEST_F(CatalogCalls, StopAtTwentyProblemsOfABody) {
  const auto problems_in = [](const std::string& answer) {
    size_t count = 0;
    for (size_t at = answer.find("\"location\""); at != std::string::npos; ++count) {
      at = answer.find("\"location\"", at + 1);
    }
    return count;
  };
  std::string unknown = R"({"namespace":"n")";
  for (int i = 0; i < 40'000; ++i) unknown += ",\"f" + std::to_string(i) + "\":1";
  std::string repeated = R"({"name":"n")";
  for (int i = 0; i < 40'000; ++i) repeated += R"(,"name":"n")";
  const std::string name(1000, 'x');
  std::string long_names = "{\"a\":1";
  for (int i = 0; i < 500; ++i) long_names += ",\"" + name + "\":1";
  for (const auto& [operation, body] : {std::pair{"ratelimit.setOverride", unknown + "}"},
                                        {"ratelimit.createNamespace", repeated + "}"},
                                        {"keys.createKey", long_names + "}"}}) {
    const std::string answer = call(operation, body);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400"));
    EXPECT_EQ(problems_in(answer), kMaxProblems) << operation;
    EXPECT_LT(answer.size(), 8000) << operation;
  }
}

// The loop gives each key and each workspace its share of connections and bytes.
TEST_F(CatalogCalls, ShowTheKeyThatWasSentLast) {
  const auto key_of = [&](const std::string& workspace) {
    return make_key({.workspace = workspace, .name = "k", .permissions = {"ratelimit.*.*"}}).secret;
  };
  const catalog::CatalogWrite workspace = catalog::create_workspace(author, "other", 7);
  write({workspace});
  const std::string own = std::string(catalog::kDefaultWorkspace);
  const auto client_of = [&](const std::string& key) {
    EXPECT_THAT(call("ratelimit.listNamespaces", "{}", key), StartsWith("HTTP/1.1 200"));
    return session.client();
  };
  const std::string key = key_of(own);
  const Client first = client_of(key);
  const Client second = client_of(key_of(own));
  const Client third = client_of(key_of(workspace.row.id));
  EXPECT_EQ(first.trust, Trust::kAuthenticated);
  EXPECT_NE(first.key, second.key);
  EXPECT_EQ(first.workspace, second.workspace);
  EXPECT_NE(first.workspace, third.workspace);
  EXPECT_EQ(client_of(std::string(kKey)), Client{.trust = Trust::kRoot});
  EXPECT_EQ(client_of(key), first);
}

TEST_F(CatalogCalls, RefuseAKeyWithoutTheRightBeforeTheBodyArrives) {
  const catalog::NewKey powerless =
      make_key({.workspace = catalog::kDefaultWorkspace, .name = "k", .permissions = {}});
  for (const CatalogOperation& each : catalog_operations()) {
    HttpSession fresh{fixture.service, scratch};
    TestConnection client{fixture, fresh};
    const std::string answer = client.send(
        "POST " + std::string(each.path) + " HTTP/1.1\r\nHost: h\r\nAuthorization: " + "Bearer " +
        powerless.secret + "\r\nContent-Length: 1000000\r\n\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 403")) << each.path;
    EXPECT_EQ(client.next, Next::kClose) << "its body is not worth reading";
  }
}

TEST_F(CatalogCalls, KeepABoundedNumberOfResets) {
  const auto ns = catalog::new_namespace(catalog::kDefaultWorkspace, "api", author.now);
  std::vector<catalog::CatalogWrite> writes{catalog::set_namespace(author, ns, "namespace.create")};
  for (size_t i = 0; i < catalog::kMaxResets; ++i) {
    writes.push_back(catalog::reset_identifier(author, ns, "x" + std::to_string(i), 7));
  }
  write(writes);
  const std::string answer = call("ratelimit.reset", R"({"namespace":"api","identifier":"more"})");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 409"));
  EXPECT_THAT(answer, HasSubstr("keeps 100000 resets, and at most 100000"));
  EXPECT_THAT(call("ratelimit.reset", R"({"namespace":"api","identifier":"x7"})"),
              StartsWith("HTTP/1.1 200"))
      << "it replaces an earlier one";
}

TEST_F(CatalogCalls, CreateNoMoreKeysThanAWorkspaceMayHave) {
  std::vector<catalog::CatalogWrite> writes;
  catalog::NewKey first;
  for (uint64_t i = 0; i < catalog::kMaxKeys; ++i) {
    auto key = catalog::create_key(author, {.workspace = catalog::kDefaultWorkspace, .name = "k"},
                                   {i + 10'000, 1, 1});
    writes.push_back(key.write);
    if (i == 0) first = std::move(key);
  }
  write(writes);
  const std::string create = R"({"name":"more","permissions":[]})";
  const std::string rotate = R"({"keyId":")" + first.key.id + R"(","grace":)";
  for (const std::string& answer :
       {call("keys.createKey", create), call("keys.rotateKey", rotate + "1000}")}) {
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 409"));
    EXPECT_THAT(answer, HasSubstr("the workspace has 10000 keys, expired ones included, and at "
                                  "most 10000 can be created: revoke some"));
  }
  EXPECT_THAT(call("keys.rotateKey", rotate + "0}"), StartsWith("HTTP/1.1 200"))
      << "the old key ends at once";
  EXPECT_THAT(call("keys.createKey", R"({"name":"x","permissions":[],"workspaceId":"ws_default"})"),
              StartsWith("HTTP/1.1 409"));
}

TEST_F(CatalogCalls, SetNoMoreOverridesThanAWorkspaceMayHave) {
  catalog::WorkspaceView workspace;
  const catalog::OverrideValues values{.identifier = "a", .limit = 5, .duration = Millis(60'000)};
  workspace.override_count = catalog::kMaxOverrides - 1;
  EXPECT_EQ(catalog::error_in(workspace, nullptr, values), std::nullopt);
  workspace.override_count = catalog::kMaxOverrides;
  const auto error = catalog::error_in(workspace, nullptr, values);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->field, "") << "there is nothing wrong with the call";
  EXPECT_THAT(error->detail, HasSubstr("has 1000000 overrides, and at most 1000000 can be set"));
  // The count is that of all namespaces.
  for (const char* name : {"one", "two"}) {
    const auto ns = catalog::new_namespace(catalog::kDefaultWorkspace, name, author.now);
    write({catalog::set_namespace(author, ns, "namespace.create"),
           catalog::set_override(author, ns, values),
           catalog::set_override(author, ns, {.identifier = "b", .duration = Millis(1000)})});
  }
  const auto count = [&] {
    return fixture.catalog.snapshot()->find_workspace(catalog::kDefaultWorkspace)->override_count;
  };
  EXPECT_EQ(count(), 4U);
  EXPECT_THAT(call("ratelimit.deleteOverride", R"({"namespace":"two","identifier":"b"})"),
              StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(count(), 3U);
}

// Every page copied and sorted all overrides of the namespace.
TEST_F(CatalogCalls, ListAPageWithoutLookingAtTheOthers) {
  std::vector<int> all(100'000);
  for (int i = 0; i < 100'000; ++i) all[static_cast<size_t>(i)] = 100'000 + i;
  size_t looked = 0;
  std::string text;
  const auto id_of = [&](const int& item) {
    ++looked;
    text = std::to_string(item);
    return std::string_view(text);
  };
  CatalogReply reply;
  set_page(
      std::span<const int>(all), "150000", 100, id_of,
      [](int item) { return std::to_string(item); }, reply);
  EXPECT_THAT(reply.data, StartsWith("[150001,"));
  EXPECT_LT(looked, 200U);
  set_page(
      std::span<const int>(all), "1500005", 2, id_of, [](int item) { return std::to_string(item); },
      reply);
  EXPECT_EQ(reply.data, "[150001,150002]") << "the item of the cursor was deleted";
  // They are sorted once, when they change.
  const auto ns = catalog::new_namespace(catalog::kDefaultWorkspace, "api", author.now);
  std::vector<catalog::CatalogWrite> writes{catalog::set_namespace(author, ns, "namespace.create")};
  for (int i = 0; i < 250; ++i) {
    writes.push_back(catalog::set_override(
        author, ns, {.identifier = std::to_string(i), .limit = 1, .duration = Millis(1000)}));
  }
  write(writes);
  const auto snapshot = fixture.catalog.snapshot();
  const auto* const view = snapshot->find_workspace(catalog::kDefaultWorkspace)->find("api");
  EXPECT_TRUE(std::ranges::is_sorted(view->overrides->all(), {},
                                     [](const auto& each) { return each->id.text(); }));
  size_t listed = 0;
  std::string cursor;
  for (bool more = true; more; ++listed) {
    const std::string answer =
        call("ratelimit.listOverrides",
             R"({"namespace":"api","limit":50)" +
                 (cursor.empty() ? "" : R"(,"cursor":")" + cursor + '"') + "}");
    ASSERT_THAT(answer, StartsWith("HTTP/1.1 200"));
    more = answer.find(R"("hasMore":true)") != std::string::npos;
    cursor = text_in(answer, "cursor");
  }
  EXPECT_EQ(listed, 5U);
}

TEST_F(CatalogCalls, RevokeNoKeyThatIsStronger) {
  const auto key_with = [&](std::vector<std::string> permissions) {
    return make_key({.workspace = catalog::kDefaultWorkspace,
                     .name = "k",
                     .permissions = std::move(permissions)});
  };
  const catalog::NewKey caller = key_with({"key.*.revoke_key", "ratelimit.*.limit"});
  const catalog::NewKey stronger = key_with({"ratelimit.*.*"});
  const catalog::NewKey weaker = key_with({"ratelimit.*.peek"});
  const auto revoke = [&](const catalog::NewKey& key) {
    return call("keys.revokeKey", R"({"keyId":")" + key.key.id + R"("})", caller.secret);
  };
  const std::string refused = revoke(stronger);
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(refused, HasSubstr("a key cannot revoke a key with permissions that it does not"));
  EXPECT_THAT(revoke(weaker), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(revoke(caller), StartsWith("HTTP/1.1 200")) << "itself";
  EXPECT_THAT(call("keys.revokeKey", R"({"keyId":")" + stronger.key.id + R"("})"),
              StartsWith("HTTP/1.1 200"))
      << "the root key has all permissions";
}

TEST_F(CatalogCalls, SetNoOverrideThatCannotBeDecided) {
  struct Case {
    catalog::LimitValues values;
    std::string override;
    std::string part;
  };
  for (const Case& each : std::initializer_list<Case>{
           {{.algorithm = Algorithm::kSlidingLog},
            R"("limit":10001,"duration":60000)",
            "choose at most 10000: the namespace uses sliding_log"},
           {{.algorithm = Algorithm::kGcra},
            R"("limit":999999999989,"duration":2592000000)",
            "a rate that cannot be represented exactly"},
           {{.algorithm = Algorithm::kTokenBucket, .consistency = Consistency::kExact},
            R"("limit":1,"duration":2592000000,"burst":1000000)",
            "does not drain within"}}) {
    auto ns = catalog::new_namespace(catalog::kDefaultWorkspace, "api", author.now);
    ns.values = each.values;
    write({catalog::set_namespace(author, ns, "namespace.create")});
    const std::string named = R"({"namespace":"api","identifier":"vip",)" + each.override + "}";
    const std::string answer = call("ratelimit.setOverride", named);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400")) << named;
    EXPECT_THAT(answer, HasSubstr(each.part));
  }
}

// The namespace got its algorithm after the override. Its requests were errors, and /v1/check then
// answered 503, which gateways may let pass.
TEST_F(CatalogCalls, DecideABatchWithAnOverrideThatItsAlgorithmCannotServe) {
  auto ns = catalog::new_namespace(catalog::kDefaultWorkspace, "api", author.now);
  write({catalog::set_namespace(author, ns, "namespace.create"),
         catalog::set_override(
             author, ns, {.identifier = "vip", .limit = 20'000, .duration = Millis(60'000)})});
  ns.values.algorithm = Algorithm::kSlidingLog;
  write({catalog::set_namespace(author, ns, "namespace.update")});
  const std::string one = R"({"namespace":"api","identifier":"vip","limit":5,"duration":60000})";
  const std::string other = R"({"namespace":"api","identifier":"bob","limit":5,"duration":60000})";
  const std::string alone = call("ratelimit.limit", one);
  EXPECT_THAT(alone, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(alone, HasSubstr(R"("limit":20000,"remaining":19999)"));
  const std::string batch = call("ratelimit.multiLimit", "[" + one + "," + other + "]");
  EXPECT_THAT(batch, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(batch, HasSubstr(R"("remaining":19998)"));
  EXPECT_THAT(batch, HasSubstr(R"("remaining":4)"));
}

TEST_F(CatalogCalls, RotateNoExpiredKey) {
  const catalog::NewKey key = make_key({.workspace = catalog::kDefaultWorkspace,
                                        .name = "k",
                                        .permissions = {"ratelimit.*.limit"},
                                        .expires = author.now + Millis(1000)});
  fixture.clock.advance(Millis(1000));
  const size_t rows = database->rows.size();
  const std::string answer = call("keys.rotateKey", R"({"keyId":")" + key.key.id + R"("})");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 409"));
  EXPECT_THAT(answer, HasSubstr("has expired: create another one with keys.createKey"));
  EXPECT_EQ(database->rows.size(), rows);
}

}  // namespace
}  // namespace weir::frontends
