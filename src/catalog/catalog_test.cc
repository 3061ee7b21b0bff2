#include "catalog/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <set>

#include "catalog/changes.h"
#include "catalog/explaining_link_test.h"
#include "catalog/sql_catalog.h"
#include "ledgers/sql/sqlite_link.h"
#include "platform/thread_executor.h"
#include "tests/doubles/manual_clock.h"
#include "tests/servers/await.h"
#include "tests/servers/temporary_folder.h"

namespace weir::catalog {
namespace {

using testing::HasSubstr;

const std::string kHome(kDefaultWorkspace);
const Author kAuthor{.actor = "root", .now = WallTime(Millis(1000))};

struct File {
  servers::TemporaryFolder folder{"catalog"};
  doubles::ManualClock clock;

  [[nodiscard]] std::unique_ptr<CatalogStore> open() const {
    return make_catalog_store(clock, {.kind = ledgers::LedgerKind::kSqlite,
                                      .path = (folder.path() / "ledger.db").string()});
  }
};

Namespace api() {
  return new_namespace(kHome, "api", kAuthor.now);
}

CatalogWrite override_of(const std::string& identifier, Count limit) {
  return set_override(kAuthor, api(),
                      {.identifier = identifier, .limit = limit, .duration = Millis(1000)});
}

Override override_in(const CatalogWrite& write) {
  return std::get<OverrideRecord>(*record_of(write.row)).values;
}

// The limit that a snapshot has for an identifier; 0: none.
Count limit_in(const Catalog& catalog, const std::string& identifier) {
  const auto snapshot = catalog.snapshot();
  const NamespaceView* const view = snapshot->find_workspace(kHome)->find("api");
  if (view == nullptr || !view->overrides) return 0;
  const Override* const found = view->overrides->find(identifier);
  return found == nullptr ? 0 : found->limit;
}

TEST(SqlCatalog, NumbersItsTransactions) {
  const File file;
  const auto store = file.open();
  EXPECT_EQ(store->read_heads(0)->last, CatalogHead{});
  for (uint64_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(store->write(std::vector{override_of("a", i)}).value(), i);
  }
  EXPECT_EQ(file.open()->read_heads(0)->last.revision, 3U);
}

TEST(SqlCatalog, GivesEachTransactionARandomNonce) {
  const File file;
  const auto store = file.open();
  std::set<uint64_t> nonces;
  for (uint64_t i = 1; i <= 20; ++i) {
    ASSERT_TRUE(store->write(std::vector{override_of("a", i), override_of("b", i)}));
    const auto heads = store->read_heads(i);
    EXPECT_EQ(heads->last.nonce, heads->known_nonce);
    EXPECT_TRUE(nonces.insert(heads->known_nonce).second);
  }
  EXPECT_TRUE(nonces.contains(store->read_heads(1)->known_nonce));
  EXPECT_FALSE(nonces.contains(0));
  EXPECT_EQ(store->read_heads(21)->known_nonce, 0U);
}

TEST(SqlCatalog, RotatesAKeyOnlyIfNobodyHasChangedIt) {
  const File file;
  const auto store = file.open();
  const NewKey key = create_key(kAuthor, {.workspace = kHome, .name = "k"}, {1, 2, 3});
  ASSERT_TRUE(store->write(std::vector{key.write}));
  const Rotation first = rotate_key(kAuthor, key.key, Millis(5000), {4, 5, 6});
  ASSERT_TRUE(store->write(std::vector{first.fresh.write, first.old}));
  // Another process still knows the key as it was before.
  const Rotation late = rotate_key(kAuthor, key.key, Millis(5000), {7, 8, 9});
  const auto refused = store->write(std::vector{late.fresh.write, late.old});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(is_conflict(refused.error()));
  const Key old = std::get<Key>(*record_of(first.old.row));
  ASSERT_TRUE(store->write(std::vector{revoke_key(kAuthor, old)}));
  const Rotation revoked = rotate_key(kAuthor, old, Millis(0), {10, 11, 12});
  EXPECT_FALSE(store->write(std::vector{revoked.fresh.write, revoked.old}));
  const Rotation unknown = rotate_key(kAuthor, late.fresh.key, Millis(0), {13, 14, 15});
  EXPECT_FALSE(store->write(std::vector{unknown.fresh.write, unknown.old}));
  // Nothing of the refused changes was written.
  EXPECT_EQ(store->read_after({}, 10)->size(), 2U);
  EXPECT_EQ(store->read_audit(kHome, {}, 10)->size(), 4U);
  EXPECT_EQ(store->read_heads(0)->last.revision, 3U);
}

TEST(SqlCatalog, ReadsRowsInTheOrderOfTheirChangePageByPage) {
  const File file;
  const auto store = file.open();
  std::set<std::string> ids;
  for (int i = 0; i < 25; ++i) {
    const std::vector writes{override_of("x" + std::to_string(i), 1),
                             override_of("y" + std::to_string(i), 2)};
    for (const CatalogWrite& write : writes) ids.insert(write.row.id);
    ASSERT_TRUE(store->write(writes));
  }
  CatalogPosition at;
  std::set<std::string> read;
  for (;;) {
    const auto page = store->read_after(at, 7);
    ASSERT_TRUE(page);
    for (const CatalogRow& row : *page) {
      const CatalogPosition here{.revision = row.revision, .id = row.id};
      EXPECT_LT(at, here);
      at = here;
      EXPECT_TRUE(read.insert(row.id).second);
    }
    if (page->size() < 7) break;
  }
  EXPECT_EQ(read, ids);
}

TEST(SqlCatalog, KeepsAnExistingRowIfAsked) {
  const File file;
  const auto store = file.open();
  Namespace ns = api();
  ns.values.limit = 5;
  ns.values.duration = Millis(1000);
  ASSERT_TRUE(store->write(std::vector{set_namespace(kAuthor, ns, "namespace.create")}));
  CatalogWrite again = set_namespace(kAuthor, api(), "namespace.create");
  again.existing = Existing::kKeep;
  ASSERT_TRUE(store->write(std::vector{again}));
  const auto rows = store->read_after({}, 10);
  ASSERT_EQ(rows->size(), 1U);
  EXPECT_EQ(std::get<Namespace>(*record_of((*rows)[0])).values.limit, 5U);
}

TEST(SqlCatalog, KeepsNamesOfAnyBytes) {
  const File file;
  const auto store = file.open();
  std::string name;
  for (int c = 0; c < 256; ++c) name += static_cast<char>(c);
  const Namespace ns = new_namespace(kHome, name, kAuthor.now);
  ASSERT_TRUE(store->write(std::vector{set_namespace(kAuthor, ns, "namespace.create")}));
  EXPECT_EQ(store->read_after({}, 10)->at(0).name, name);
}

TEST(SqlCatalog, RecordsWhoChangedWhat) {
  const File file;
  const auto store = file.open();
  ASSERT_TRUE(store->write(std::vector{override_of("a", 1)}));
  ASSERT_TRUE(store->write(std::vector{override_of("a", 2)}));
  const auto entries = store->read_audit(kHome, {}, 10);
  ASSERT_EQ(entries->size(), 2U);
  EXPECT_EQ((*entries)[0].revision, 2U);
  EXPECT_EQ((*entries)[0].actor, "root");
  EXPECT_EQ((*entries)[0].action, "override.set");
  EXPECT_NE((*entries)[0].detail.find("limit 2"), std::string::npos);
  EXPECT_EQ(store->read_audit(kHome, {.revision = 2}, 10)->size(), 1U);
  EXPECT_TRUE(store->read_audit("ws_other", {}, 10)->empty());
}

TEST(SqlCatalog, ReadsEveryEntryOfTheAuditLogOnceInPagesOfAnySize) {
  const File file;
  const auto store = file.open();
  std::set<std::string> targets;
  for (const int count : {1, 130, 2, 1, 51}) {
    std::vector<CatalogWrite> writes;
    for (int i = 0; i < count; ++i) {
      writes.push_back(override_of(std::to_string(targets.size()), 1));
      targets.insert(writes.back().audit.target);
    }
    ASSERT_TRUE(store->write(writes));
  }
  for (const size_t most : {1, 2, 50, 100}) {
    for (const std::string& workspace : {kHome, std::string()}) {
      std::set<std::string> read;
      AuditPosition before;
      for (;;) {
        const auto page = store->read_audit(workspace, before, most);
        ASSERT_TRUE(page);
        for (const AuditEntry& entry : *page) EXPECT_TRUE(read.insert(entry.target).second);
        if (page->size() < most) break;
        before = {.revision = page->back().revision, .position = page->back().position};
      }
      EXPECT_EQ(read, targets) << most;
    }
  }
}

TEST(SqlCatalog, RemovesDeletedOverridesAndKeepsOtherRows) {
  File file;
  const auto store = file.open();
  const CatalogWrite set = override_of("a", 1);
  ASSERT_TRUE(store->write(std::vector{set_namespace(kAuthor, api(), "namespace.create"), set}));
  ASSERT_TRUE(store->write(std::vector{delete_override(kAuthor, api(), override_in(set)),
                                       delete_namespace(kAuthor, api())}));
  file.clock.advance(std::chrono::hours(2));
  const WallTime now = file.clock.now().wall;
  EXPECT_EQ(store->clean_rows("", now - std::chrono::hours(3), 10)->deleted, 0U);
  EXPECT_EQ(store->clean_rows("", now - std::chrono::hours(1), 10)->deleted, 1U);
  EXPECT_EQ(store->read_after({}, 10)->size(), 1U);
}

// A store that can be exchanged, as a restored backup is.
struct Switch final : CatalogStore {
  CatalogStore* now = nullptr;
  std::function<void()> on_page = {};  // after each page of rows
  Result<uint64_t> write(std::span<const CatalogWrite> writes) override {
    return now->write(writes);
  }
  Result<Heads> read_heads(uint64_t known) override { return now->read_heads(known); }
  Result<std::vector<CatalogRow>> read_after(const CatalogPosition& at, size_t most) override {
    auto page = now->read_after(at, most);
    if (on_page) on_page();
    return page;
  }
  Result<std::vector<AuditEntry>> read_audit(const std::string& workspace,
                                             const AuditPosition& before, size_t most) override {
    return now->read_audit(workspace, before, most);
  }
  Result<std::optional<CatalogRow>> read_row(const std::string& id) override {
    return now->read_row(id);
  }
  Result<CleanedRows> clean_rows(const std::string& after, WallTime before, size_t most) override {
    return now->clean_rows(after, before, most);
  }
  Result<CleanedAudit> clean_audit(uint64_t after, const AuditBounds& bounds,
                                   size_t most) override {
    return now->clean_audit(after, bounds, most);
  }
};

// A store that can stop answering.
struct Failing final : CatalogStore {
  std::unique_ptr<CatalogStore> inner;
  bool fails = false;
  [[nodiscard]] static Error error() {
    return {.code = ErrorCode::kUnavailable, .retry = Retry::kMayHelp, .detail = "away"};
  }
  Result<uint64_t> write(std::span<const CatalogWrite> writes) override {
    if (fails) return error();
    return inner->write(writes);
  }
  Result<Heads> read_heads(uint64_t known) override {
    if (fails) return error();
    return inner->read_heads(known);
  }
  Result<std::vector<CatalogRow>> read_after(const CatalogPosition& at, size_t most) override {
    return inner->read_after(at, most);
  }
  Result<std::vector<AuditEntry>> read_audit(const std::string&, const AuditPosition&,
                                             size_t) override {
    return error();
  }
  Result<std::optional<CatalogRow>> read_row(const std::string&) override { return error(); }
  Result<CleanedRows> clean_rows(const std::string&, WallTime, size_t) override { return error(); }
  Result<CleanedAudit> clean_audit(uint64_t, const AuditBounds&, size_t) override {
    return error();
  }
};

// One transaction writes many rows, as an import does, and many write few.
void fill(CatalogStore& store) {
  std::vector<CatalogWrite> many{set_namespace(kAuthor, api(), "namespace.create")};
  for (int i = 0; i < 60; ++i) many.push_back(override_of("m" + std::to_string(i), 1));
  ASSERT_TRUE(store.write(many));
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(store.write(std::vector{override_of("s" + std::to_string(i), 1)}));
  }
}

// With the comparison "revision > ? OR (revision = ? AND id > ?)" SQLite read the whole index for
// each page, so that a large catalog took a time that grew with the square of its size.
TEST(SqlCatalog, FindsEveryPageByAnIndexWhereverItIs) {
  const File file;
  auto link = std::make_unique<ExplainingLink>(
      ledgers::make_sqlite_link(file.clock, (file.folder.path() / "ledger.db").string()));
  ExplainingLink& explaining = *link;
  const auto store = make_sql_catalog(ledgers::LedgerKind::kSqlite, std::move(link), "file");
  fill(*store);
  const auto plan_of = [&](const auto& call) {
    explaining.plans.clear();
    call();
    std::string all;
    for (const std::string& each : explaining.plans) {
      all += each + '\n';
      EXPECT_EQ(each.find("SCAN weir_"), std::string::npos) << each;
    }
    return all;
  };
  const auto rows = store->read_after({}, 200);
  ASSERT_EQ(rows->size(), 121U);
  const CatalogRow& middle = (*rows)[40];
  EXPECT_THAT(plan_of([&] {
                EXPECT_EQ(store->read_after({middle.revision, middle.id}, 7)->front(), (*rows)[41]);
              }),
              HasSubstr("INDEX weir_catalog_revision ((revision,id)>(?,?))"));
  const auto entries = store->read_audit(kHome, {}, 200);
  ASSERT_EQ(entries->size(), 121U);
  const AuditPosition before{.revision = (*entries)[80].revision,
                             .position = (*entries)[80].position};
  EXPECT_THAT(
      plan_of([&] { EXPECT_EQ(store->read_audit(kHome, before, 7)->front(), (*entries)[81]); }),
      HasSubstr("INDEX weir_audit_workspace (workspace=? AND revision<?)"));
  EXPECT_THAT(
      plan_of([&] { EXPECT_EQ(store->read_audit("", before, 7)->front(), (*entries)[81]); }),
      HasSubstr("((revision,position)<(?,?))"));
  EXPECT_THAT(plan_of([&] { EXPECT_EQ(store->read_row(middle.id)->value(), middle); }),
              HasSubstr("(id=?)"));
  const WallTime late = file.clock.now().wall + 2 * kResetKept;
  EXPECT_THAT(plan_of([&] { EXPECT_TRUE(store->clean_rows(middle.id, late, 7)); }),
              HasSubstr("(id>?)"));
  EXPECT_THAT(plan_of([&] { EXPECT_TRUE(store->clean_audit(3, {.before = late}, 7)); }),
              HasSubstr("(revision>? AND revision<?)"));
}

// A server was ready ten seconds after its start, however much was left to read: blocks with a
// limit of 0 did not apply yet.
TEST(Catalog, IsNotReadyUntilItHasReadToTheEnd) {
  File file;
  const auto store = file.open();
  fill(*store);
  auto switched = std::make_unique<Switch>();
  Switch& slow = *switched;
  slow.now = store.get();
  Catalog catalog(file.clock, std::move(switched), {.page = 10});
  size_t pages = 0;
  slow.on_page = [&] {
    ++pages;
    EXPECT_EQ(catalog.state(), CatalogState::kLoading);
    EXPECT_EQ(limit_in(catalog, "m0"), 0U);
    EXPECT_TRUE(catalog.is_catching_up(file.clock.now().mono));
    file.clock.advance(std::chrono::seconds(9));
    EXPECT_TRUE(catalog.is_catching_up(file.clock.now().mono));
  };
  EXPECT_EQ(catalog.poll_once(), nullptr);
  EXPECT_EQ(pages, 13U) << "each page is read once";
  EXPECT_FALSE(catalog.is_catching_up(file.clock.now().mono));
  EXPECT_EQ(limit_in(catalog, "m0"), 1U);
  EXPECT_EQ(limit_in(catalog, "s59"), 1U);
}

TEST(Catalog, WaitsTenSecondsForAStoreThatDoesNotAnswer) {
  File file;
  const auto store = file.open();
  fill(*store);
  auto failing = std::make_unique<Failing>();
  Failing& away = *failing;
  away.inner = file.open();
  away.fails = true;
  Catalog catalog(file.clock, std::move(failing));
  EXPECT_NE(catalog.poll_once(), nullptr);
  EXPECT_TRUE(catalog.is_catching_up(file.clock.now().mono));
  file.clock.advance(std::chrono::seconds(10));
  EXPECT_FALSE(catalog.is_catching_up(file.clock.now().mono));
  EXPECT_NE(catalog.poll_once(), nullptr);
  // It serves without the catalog; a database that comes back must not take it out of service.
  away.fails = false;
  EXPECT_FALSE(catalog.is_catching_up(file.clock.now().mono));
  EXPECT_EQ(catalog.poll_once(), nullptr);
  EXPECT_EQ(limit_in(catalog, "m0"), 1U);
}

TEST(Catalog, ReadsOnlyToTheHeadThatItHasSeen) {
  File file;
  const auto store = file.open();
  fill(*store);
  auto switched = std::make_unique<Switch>();
  Switch& busy = *switched;
  busy.now = store.get();
  Catalog catalog(file.clock, std::move(switched), {.page = 10});
  size_t pages = 0;
  // Others write more than a page for each page that it reads.
  busy.on_page = [&] {
    if (++pages > 20) return;
    for (int i = 0; i < 12; ++i) {
      ASSERT_TRUE(store->write(std::vector{override_of("x" + std::to_string(i), 1)}));
    }
  };
  EXPECT_EQ(catalog.poll_once(), nullptr);
  EXPECT_EQ(catalog.state(), CatalogState::kReady);
  EXPECT_EQ(pages, 13U);
}

TEST(Catalog, ReadsWhatOthersWrite) {
  const File file;
  const auto other = file.open();
  Catalog catalog(file.clock, file.open());
  EXPECT_EQ(catalog.state(), CatalogState::kLoading);
  EXPECT_EQ(catalog.poll_once(), nullptr);
  EXPECT_EQ(catalog.state(), CatalogState::kReady);
  const uint64_t version = catalog.version();
  EXPECT_EQ(catalog.poll_once(), nullptr);
  EXPECT_EQ(catalog.version(), version) << "nothing has changed";
  ASSERT_TRUE(other->write(
      std::vector{set_namespace(kAuthor, api(), "namespace.create"), override_of("a*", 7)}));
  EXPECT_EQ(limit_in(catalog, "alice"), 0U);
  EXPECT_EQ(catalog.poll_once(), nullptr);
  EXPECT_GT(catalog.version(), version);
  EXPECT_EQ(limit_in(catalog, "alice"), 7U);
}

TEST(Catalog, ReadsManyPages) {
  const File file;
  const auto other = file.open();
  std::vector<CatalogWrite> writes{set_namespace(kAuthor, api(), "namespace.create")};
  for (int i = 0; i < 100; ++i) writes.push_back(override_of("x" + std::to_string(i), 1 + i));
  ASSERT_TRUE(other->write(writes));
  Catalog catalog(file.clock, file.open(), {.page = 7});
  EXPECT_EQ(catalog.poll_once(), nullptr);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(limit_in(catalog, "x" + std::to_string(i)), 1U + i);
}

TEST(Catalog, ReadsAllAgainAfterALongSilenceAndForgetsWhatWasRemoved) {
  File file;
  const auto other = file.open();
  Catalog catalog(file.clock, file.open(), {.kept_deleted = std::chrono::hours(24)});
  const CatalogWrite set = override_of("a", 1);
  ASSERT_TRUE(other->write(std::vector{set_namespace(kAuthor, api(), "namespace.create"), set}));
  EXPECT_EQ(catalog.poll_once(), nullptr);
  EXPECT_EQ(limit_in(catalog, "a"), 1U);
  ASSERT_TRUE(other->write(std::vector{delete_override(kAuthor, api(), override_in(set))}));
  file.clock.advance(std::chrono::hours(30));
  const WallTime before = file.clock.now().wall - std::chrono::hours(24);
  EXPECT_EQ(other->clean_rows("", before, 10)->deleted, 1U);
  EXPECT_EQ(catalog.poll_once(), nullptr);
  EXPECT_EQ(limit_in(catalog, "a"), 0U);
}

TEST(Catalog, ReadsAllAgainIfTheDatabaseWasReplaced) {
  const File file;
  const File another;
  const auto first = file.open();
  const auto second = another.open();
  const CatalogWrite ns = set_namespace(kAuthor, api(), "namespace.create");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(first->write(std::vector{ns, override_of("a", 1)}));
  ASSERT_TRUE(second->write(std::vector{ns, override_of("b", 2)}));
  auto exchanged = std::make_unique<Switch>();
  Switch& store = *exchanged;
  store.now = first.get();
  Catalog catalog(file.clock, std::move(exchanged));
  EXPECT_EQ(catalog.poll_once(), nullptr);
  store.now = second.get();
  EXPECT_EQ(catalog.poll_once(), nullptr);
  EXPECT_EQ(limit_in(catalog, "a"), 0U);
  EXPECT_EQ(limit_in(catalog, "b"), 2U);
}

// The backup is written to before this process polls again, so that its revision is the same or
// larger.
TEST(Catalog, ReadsAllAgainIfAnOlderBackupHasOvertakenIt) {
  for (const int later : {0, 5}) {
    const File file;
    const File another;
    const auto first = file.open();
    const auto second = another.open();
    const CatalogWrite ns = set_namespace(kAuthor, api(), "namespace.create");
    ASSERT_TRUE(first->write(std::vector{ns}));
    ASSERT_TRUE(first->write(std::vector{override_of("lost", 1)}));
    ASSERT_TRUE(second->write(std::vector{ns}));
    ASSERT_TRUE(second->write(std::vector{override_of("b", 2)}));
    for (int i = 0; i < later; ++i) ASSERT_TRUE(second->write(std::vector{override_of("c", 3)}));
    auto exchanged = std::make_unique<Switch>();
    Switch& store = *exchanged;
    store.now = first.get();
    Catalog catalog(file.clock, std::move(exchanged));
    EXPECT_EQ(catalog.poll_once(), nullptr);
    EXPECT_EQ(limit_in(catalog, "lost"), 1U);
    store.now = second.get();
    EXPECT_EQ(catalog.poll_once(), nullptr);
    EXPECT_EQ(limit_in(catalog, "lost"), 0U);
    EXPECT_EQ(limit_in(catalog, "b"), 2U);
    const uint64_t version = catalog.version();
    EXPECT_EQ(catalog.poll_once(), nullptr);
    EXPECT_EQ(catalog.version(), version) << "it reads all once";
  }
}

TEST(Catalog, KeepsAPlaceForChangesWhileResetsWait) {
  File file;
  auto switched = std::make_unique<Switch>();
  const auto store = file.open();
  switched->now = store.get();
  Catalog catalog(file.clock, std::move(switched), {.max_queued = 10});
  doubles::ManualExecutor home(file.clock);
  std::vector<std::string> done;
  const auto write = [&](const std::string& name, std::vector<CatalogWrite> writes) {
    catalog.write(std::move(writes), home, [&done, name](const Result<uint64_t>& written) {
      done.push_back(name + (written ? "" : ": " + written.error().detail));
    });
  };
  const auto resets = [](size_t count) {
    std::vector<CatalogWrite> writes;
    for (size_t i = 0; i < count; ++i) {
      writes.push_back(reset_identifier(kAuthor, api(), "x" + std::to_string(i), 7));
    }
    return writes;
  };
  write("3 resets", resets(3));
  write("3 more", resets(3));  // the rows count, not the calls
  home.run();
  EXPECT_EQ(done, std::vector<std::string>{"3 more: too many changes of the catalog wait"});
  done.clear();
  write("2 more", resets(2));
  write("another", resets(1));
  for (int i = 0; i < 5; ++i) write("change", {override_of("a", 1)});
  write("one too many", {override_of("a", 1)});
  EXPECT_EQ(catalog.poll_once(), nullptr);
  home.run();
  const std::vector<std::string> expected{"another: too many changes of the catalog wait",
                                          "one too many: too many changes of the catalog wait",
                                          "change",
                                          "change",
                                          "change",
                                          "change",
                                          "change",
                                          "3 resets",
                                          "2 more"};
  EXPECT_EQ(done, expected);
  done.clear();
  write("5 resets", resets(5));
  EXPECT_EQ(catalog.poll_once(), nullptr);
  home.run();
  EXPECT_EQ(done, std::vector<std::string>{"5 resets"}) << "what was written makes place";
}

// Each one is added while the thread may just drain the queue.
// A creation has a task on the thread of the catalog, or the task of another one writes it. The
// regular look for changes would write it, too; it does not come again in this test.
TEST(Catalog, WritesEveryCreation) {
  const File file;
  Catalog catalog(system_clock(), file.open(), {.poll = std::chrono::hours(1000)});
  catalog.start();
  servers::await([&] { return catalog.state() == CatalogState::kReady; });
  const auto exists = [&](int number) {
    const auto snapshot = catalog.snapshot();
    return snapshot->find_workspace(kHome)->find("n" + std::to_string(number)) != nullptr;
  };
  for (int i = 0; i < 100; ++i) {
    catalog.create_namespace(kHome, "n" + std::to_string(i), "root");
    if (i % 10 == 9) servers::await([&] { return exists(i); });
  }
  for (int i = 0; i < 100; ++i) servers::await([&] { return exists(i); });
  catalog.stop();
}

TEST(SqlCatalog, TrimsTheAuditLogInStepsButNotTheNonceOfTheLastChange) {
  File file;
  const auto store = file.open();
  fill(*store);
  file.clock.advance(std::chrono::hours(2));
  const auto trimmed = [&](const AuditBounds& bounds) {
    size_t deleted = 0;
    uint64_t at = 0;
    for (bool more = true; more;) {
      const auto cleaned = store->clean_audit(at, bounds, 20);
      EXPECT_TRUE(cleaned);
      deleted += cleaned->deleted;
      at = cleaned->last;
      more = cleaned->more;
    }
    return deleted;
  };
  const WallTime now = file.clock.now().wall;
  EXPECT_EQ(trimmed({.before = now - std::chrono::hours(3)}), 0U);
  EXPECT_EQ(trimmed({.before = now - std::chrono::hours(1)}), 120U);
  const auto left = store->read_audit(kHome, {}, 200);
  ASSERT_EQ(left->size(), 1U);
  EXPECT_EQ(left->front().revision, 61U);
  EXPECT_NE(store->read_heads(61)->known_nonce, 0U);
}

TEST(SqlCatalog, RemovesRevokedKeys) {
  File file;
  const auto store = file.open();
  const NewKey key = create_key(kAuthor, {.workspace = kHome, .name = "k"}, {1, 2, 3});
  const NewKey kept = create_key(kAuthor, {.workspace = kHome, .name = "k"}, {4, 5, 6});
  ASSERT_TRUE(store->write(std::vector{key.write, kept.write}));
  ASSERT_TRUE(store->write(std::vector{revoke_key(kAuthor, key.key)}));
  file.clock.advance(std::chrono::hours(2));
  EXPECT_EQ(store->clean_rows("", file.clock.now().wall, 10)->deleted, 1U);
  EXPECT_EQ(store->read_row(key.key.id)->has_value(), false);
  EXPECT_EQ(store->read_row(kept.key.id)->has_value(), true);
}

// Resets, which clients cause, filled the audit log without a bound.
TEST(Catalog, KeepsTheAuditLogWithinItsTimeAndABoundedNumberOfResets) {
  File file;
  const auto store = file.open();
  Catalog catalog(file.clock, file.open(),
                  {.audit_kept = std::chrono::hours(48), .resets_in_audit = 10});
  ASSERT_TRUE(store->write(std::vector{set_namespace(kAuthor, api(), "namespace.create")}));
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(
        store->write(std::vector{reset_identifier(kAuthor, api(), "x" + std::to_string(i), 7)}));
  }
  ASSERT_TRUE(store->write(std::vector{override_of("a", 1)}));
  EXPECT_EQ(catalog.poll_once(), nullptr);
  const auto clean = [&] {
    while (catalog.clean_once()) continue;
  };
  const auto entries = [&](const std::string& action) {
    const auto all = store->read_audit("", {}, 1000);
    return std::ranges::count(*all, action, &AuditEntry::action);
  };
  clean();
  EXPECT_EQ(entries("identifier.reset"), 10);
  EXPECT_EQ(entries("namespace.create"), 1) << "administrators make few changes";
  EXPECT_EQ(entries("override.set"), 1);
  file.clock.advance(std::chrono::hours(47));
  clean();
  EXPECT_EQ(entries("namespace.create"), 1);
  file.clock.advance(std::chrono::hours(2));
  clean();
  EXPECT_EQ(entries("namespace.create"), 0);
  EXPECT_EQ(entries("identifier.reset"), 0);
  EXPECT_EQ(entries("override.set"), 1) << "the last change";
}

// A page of a large audit log delayed the revocation of a key by seconds.
TEST(Catalog, WritesWhileTheAuditLogIsRead) {
  const File file;
  std::atomic<bool> reading{false};
  std::atomic<bool> go_on{false};
  struct Slow final : CatalogStore {
    Slow(std::unique_ptr<CatalogStore> store, std::atomic<bool>& begun, std::atomic<bool>& end)
        : inner(std::move(store)), reading(begun), go_on(end) {}
    std::unique_ptr<CatalogStore> inner;
    std::atomic<bool>& reading;
    std::atomic<bool>& go_on;
    Result<uint64_t> write(std::span<const CatalogWrite> writes) override {
      return inner->write(writes);
    }
    Result<Heads> read_heads(uint64_t known) override { return inner->read_heads(known); }
    Result<std::vector<CatalogRow>> read_after(const CatalogPosition& at, size_t most) override {
      return inner->read_after(at, most);
    }
    Result<std::vector<AuditEntry>> read_audit(const std::string& workspace,
                                               const AuditPosition& before, size_t most) override {
      reading = true;
      servers::await([&] { return go_on.load(); });
      return inner->read_audit(workspace, before, most);
    }
    Result<std::optional<CatalogRow>> read_row(const std::string& id) override {
      return inner->read_row(id);
    }
    Result<CleanedRows> clean_rows(const std::string&, WallTime, size_t) override {
      return CleanedRows{};
    }
    Result<CleanedAudit> clean_audit(uint64_t, const AuditBounds&, size_t) override {
      return CleanedAudit{};
    }
  };
  const auto slow = [&] { return std::make_unique<Slow>(file.open(), reading, go_on); };
  Catalog catalog(system_clock(), slow(), {.max_audit_reads = 3}, slow());
  platform::ThreadExecutor home;
  home.start();
  catalog.start();
  servers::await([&] { return catalog.state() == CatalogState::kReady; });
  std::atomic<int> pages{0};
  std::atomic<int> refused{0};
  for (int i = 0; i < 5; ++i) {
    catalog.read_audit(kHome, {}, 100, home, [&](const Result<std::vector<AuditEntry>>& read) {
      ++(read ? pages : refused);
    });
  }
  servers::await([&] { return reading.load() && refused == 2; });
  std::atomic<bool> written{false};
  catalog.write({override_of("a", 1)}, home, [&](const Result<uint64_t>& done) {
    EXPECT_TRUE(done);
    written = true;
  });
  servers::await([&] { return written.load(); });
  EXPECT_EQ(pages, 0);
  go_on = true;
  servers::await([&] { return pages == 3; });
  catalog.stop();
  home.stop();
}

TEST(Catalog, KeepsItsSnapshotWhileTheStoreFails) {
  const File file;
  auto failing = std::make_unique<Failing>();
  Failing& store = *failing;
  store.inner = file.open();
  ASSERT_TRUE(store.write(
      std::vector{set_namespace(kAuthor, api(), "namespace.create"), override_of("a", 3)}));
  Catalog catalog(file.clock, std::move(failing));
  EXPECT_EQ(catalog.poll_once(), nullptr);
  store.fails = true;
  EXPECT_NE(catalog.poll_once(), nullptr);
  EXPECT_EQ(catalog.state(), CatalogState::kLost);
  EXPECT_EQ(limit_in(catalog, "a"), 3U);
  store.fails = false;
  EXPECT_EQ(catalog.poll_once(), nullptr);
  EXPECT_EQ(catalog.state(), CatalogState::kReady);
}

}  // namespace
}  // namespace weir::catalog
