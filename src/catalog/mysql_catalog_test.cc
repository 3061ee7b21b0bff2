// The catalog in a real MariaDB.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "catalog/changes.h"
#include "catalog/explaining_link_test.h"
#include "catalog/sql_catalog.h"
#include "ledgers/sql/mysql_fixture_test.h"
#include "ledgers/sql/mysql_link.h"

namespace weir::catalog {
namespace {

using testing::HasSubstr;

const std::string kHome(kDefaultWorkspace);
const Author kAuthor{.actor = "root", .now = WallTime(Millis(1000))};

Namespace api() {
  return new_namespace(kHome, "api", kAuthor.now);
}

CatalogWrite override_of(const std::string& identifier) {
  return set_override(kAuthor, api(),
                      {.identifier = identifier, .limit = 1, .duration = Millis(1000)});
}

struct MySqlCatalog : testing::Test {
  ledgers::Database database;
  ExplainingLink* link = nullptr;  // of the store
  std::unique_ptr<CatalogStore> store = open();

  std::unique_ptr<CatalogStore> open() {
    // table, type, key and rows
    auto explaining = std::make_unique<ExplainingLink>(
        ledgers::make_mysql_link(
            system_clock(), database.address,
            {.connect_timeout = Millis(60'000), .answer_timeout = Millis(60'000)}),
        "EXPLAIN ", std::vector<size_t>{2, 3, 5});
    link = explaining.get();
    return make_sql_catalog(ledgers::LedgerKind::kMySql, std::move(explaining), "database");
  }
  void fill() {
    std::vector<CatalogWrite> many;
    for (int i = 0; i < 60; ++i) many.push_back(override_of("m" + std::to_string(i)));
    ASSERT_TRUE(store->write(many));
    for (int i = 0; i < 60; ++i) {
      ASSERT_TRUE(store->write(std::vector{override_of("s" + std::to_string(i))}));
    }
  }
  template <typename Call>
  std::string plan_of(const Call& call) {
    link->plans.clear();
    call();
    std::string all;
    for (const std::string& each : link->plans) all += each + '\n';
    return all;
  }
};

TEST_F(MySqlCatalog, FindsEveryPageByAnIndexWhereverItIs) {
  fill();
  const auto rows = store->read_after({}, 200);
  ASSERT_EQ(rows->size(), 120U);
  const CatalogRow& middle = (*rows)[40];
  EXPECT_THAT(plan_of([&] {
                EXPECT_EQ(store->read_after({middle.revision, middle.id}, 7)->front(), (*rows)[41]);
              }),
              HasSubstr("weir_catalog range weir_catalog_revision"));
  const auto entries = store->read_audit(kHome, {}, 200);
  ASSERT_EQ(entries->size(), 120U);
  const AuditPosition before{.revision = (*entries)[80].revision,
                             .position = (*entries)[80].position};
  EXPECT_THAT(
      plan_of([&] { EXPECT_EQ(store->read_audit(kHome, before, 7)->front(), (*entries)[81]); }),
      HasSubstr("weir_audit range weir_audit_workspace"));
  EXPECT_THAT(
      plan_of([&] { EXPECT_EQ(store->read_audit("", before, 7)->front(), (*entries)[81]); }),
      HasSubstr("weir_audit range PRIMARY"));
  EXPECT_THAT(plan_of([&] { EXPECT_EQ(store->read_row(middle.id)->value(), middle); }),
              HasSubstr("weir_catalog const PRIMARY"));
}

// How many rows a page makes the server read, also of one large transaction.
TEST_F(MySqlCatalog, ReadsNoMoreRowsThanAPageHas) {
  fill();
  const auto rows = store->read_after({}, 200);
  ASSERT_EQ(rows->size(), 120U);
  ledgers::Session session(database.address);
  const auto read = [&] {
    uint64_t all = 0;
    for (const auto& row : session.rows("SHOW GLOBAL STATUS LIKE 'Handler_read%'")) {
      all += std::stoull(row.at(1));
    }
    return all;
  };
  const auto cost_of_page = [&](size_t position) {
    const auto& row = (*rows)[position];
    const uint64_t before = read();
    EXPECT_EQ(store->read_after({row.revision, row.id}, 7)->size(), 7U);
    return read() - before;
  };
  for (const size_t position : {0, 30, 50, 100}) EXPECT_LT(cost_of_page(position), 60U) << position;
}

TEST_F(MySqlCatalog, TrimsTheAuditLogInSteps) {
  fill();
  const WallTime late = ledgers::now() + std::chrono::hours(1);
  size_t deleted = 0;
  uint64_t at = 0;
  for (bool more = true; more;) {
    const auto cleaned = store->clean_audit(at, {.before = late}, 20);
    ASSERT_TRUE(cleaned);
    deleted += cleaned->deleted;
    at = cleaned->last;
    more = cleaned->more;
  }
  EXPECT_EQ(deleted, 119U);
  EXPECT_EQ(store->read_audit("", {}, 200)->size(), 1U) << "the nonce of the last change";
  const auto heads = store->read_heads(61);
  EXPECT_EQ(heads->last.nonce, heads->known_nonce);
  EXPECT_NE(heads->last.nonce, 0U);
}

TEST_F(MySqlCatalog, RemovesExpiredRowsInSteps) {
  fill();
  const auto rows = store->read_after({}, 200);
  for (const CatalogRow& row : *rows) {
    const Override values = std::get<OverrideRecord>(*record_of(row)).values;
    if (values.identifier.starts_with('m')) {
      ASSERT_TRUE(store->write(std::vector{delete_override(kAuthor, api(), values)}));
    }
  }
  const WallTime late = ledgers::now() + std::chrono::hours(1);
  size_t deleted = 0;
  std::string at;
  do {
    const auto cleaned = store->clean_rows(at, late, 7);
    ASSERT_TRUE(cleaned);
    deleted += cleaned->deleted;
    at = cleaned->last;
  } while (!at.empty());
  EXPECT_EQ(deleted, 60U);
  EXPECT_EQ(store->read_after({}, 200)->size(), 60U);
}

}  // namespace
}  // namespace weir::catalog
