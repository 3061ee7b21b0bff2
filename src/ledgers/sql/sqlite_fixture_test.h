// Stores in an SQLite file.

#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <memory>
#include <string>

#include "ledgers/sql/make_ledger.h"
#include "tests/servers/temporary_folder.h"

namespace weir::ledgers {

// A ledger file in its own folder.
class Folder {
 public:
  [[nodiscard]] std::string file() const { return folder_.path() / "ledger.db"; }

 private:
  const servers::TemporaryFolder folder_{"ledger"};
};

inline std::unique_ptr<LedgerStore> open(const Clock& clock, const Folder& folder,
                                         uint64_t seed = 1) {
  return make_store(clock, {.kind = LedgerKind::kSqlite, .path = folder.file()},
                    {.seed = seed, .pause = [](Millis) {}});
}

// Runs a statement on the file over another connection.
inline void execute(const Folder& folder, const std::string& sql) {
  sqlite3* file = nullptr;
  ASSERT_EQ(sqlite3_open(folder.file().c_str(), &file), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(file, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(file);
  sqlite3_close(file);
}

}  // namespace weir::ledgers
