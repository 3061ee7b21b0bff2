#include "ledgers/sql/sqlite_link.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <unordered_map>

namespace weir::ledgers {
namespace {

LedgerError classify(int code, std::string_view message) {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return LedgerError::kTimeout;
    case SQLITE_READONLY: return LedgerError::kReadOnly;
    case SQLITE_FULL: return LedgerError::kFull;
    case SQLITE_PERM:
    case SQLITE_AUTH: return LedgerError::kRefused;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT: return LedgerError::kCorrupt;
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR: return LedgerError::kUnreachable;
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH: return LedgerError::kBadRows;
    default: break;
  }
  return message.starts_with("no such table") ? LedgerError::kMissingTables : LedgerError::kOther;
}

class SqliteRow final : public SqlRow {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}
  [[nodiscard]] std::optional<int64_t> number(size_t column) const override {
    const int at = static_cast<int>(column);
    if (sqlite3_column_type(statement_, at) != SQLITE_INTEGER) return std::nullopt;
    return sqlite3_column_int64(statement_, at);
  }
  [[nodiscard]] std::string_view bytes(size_t column) const override {
    const int at = static_cast<int>(column);
    const void* const start = sqlite3_column_blob(statement_, at);
    const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, at));
    return start == nullptr ? std::string_view()
                            : std::string_view{static_cast<const char*>(start), size};
  }

 private:
  sqlite3_stmt* const statement_;
};

class SqliteLink final : public SqlLink {
 public:
  SqliteLink(const Clock& clock, std::string path, Millis lock_timeout)
      : clock_(clock), path_(std::move(path)), lock_timeout_(lock_timeout) {}
  ~SqliteLink() override { close(); }
  SqliteLink(const SqliteLink&) = delete;
  SqliteLink& operator=(const SqliteLink&) = delete;

  std::optional<SqlFailure> run(std::span<const SqlStatement> statements, const EachRow& each,
                                Connection connection) override {
    if (file_ == nullptr) {
      if (connection == Connection::kSame) {
        return SqlFailure{.kind = LedgerError::kUnreachable, .detail = "the file is closed"};
      }
      if (auto failure = open()) return failure;
    }
    for (size_t i = 0; i < statements.size(); ++i) {
      if (auto failure = run_one(i, statements[i], each)) {
        failure->statement = i;
        return failure;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] uint64_t affected() const override { return affected_; }
  [[nodiscard]] uint64_t connections() const override { return connections_; }

 private:
  // Only the owner may read the counts. SQLite gives its other files the same permissions.
  void create_private_file() const {
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0) ::close(file);
  }

  std::optional<SqlFailure> open() {
    create_private_file();
    // One thread at a time: SQLite needs no mutex.
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int code = sqlite3_open_v2(path_.c_str(), &file_, flags, nullptr);
    if (code == SQLITE_OK) {
      sqlite3_busy_timeout(file_, static_cast<int>(lock_timeout_.count()));
      code = sqlite3_create_function(
          file_, "weir_now", 0, SQLITE_UTF8, const_cast<Clock*>(&clock_),
          [](sqlite3_context* context, int, sqlite3_value**) {
            const auto* clock = static_cast<const Clock*>(sqlite3_user_data(context));
            sqlite3_result_int64(context, clock->now().wall.time_since_epoch().count());
          },
          nullptr, nullptr);
    }
    if (code == SQLITE_OK) {
      // Commits survive a crash of the process, but not always of the machine: enough for counts.
      code = sqlite3_exec(file_, "PRAGMA synchronous=NORMAL; PRAGMA journal_mode=WAL", nullptr,
                          nullptr, nullptr);
      // Another process is switching the file to WAL, which is persistent.
      if (code == SQLITE_BUSY) code = SQLITE_OK;
    }
    if (code == SQLITE_OK) {
      ++connections_;
      return std::nullopt;
    }
    SqlFailure failure = failure_of(code);
    close();
    return failure;
  }

  void close() {
    for (const auto& [text, statement] : prepared_) sqlite3_finalize(statement);
    prepared_.clear();
    sqlite3_close(file_);
    file_ = nullptr;
  }

  [[nodiscard]] SqlFailure failure_of(int code) const {
    const std::string message =
        file_ == nullptr ? sqlite3_errstr(code) : std::string(sqlite3_errmsg(file_));
    return {.kind = classify(code, message), .detail = message};
  }

  // Caches prepared statements by their text; there are few.
  sqlite3_stmt* prepare(std::string_view sql) {
    const auto found = prepared_.find(std::string(sql));
    if (found != prepared_.end()) return found->second;
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v3(file_, sql.data(), static_cast<int>(sql.size()),
                           SQLITE_PREPARE_PERSISTENT, &statement, nullptr) != SQLITE_OK) {
      return nullptr;
    }
    prepared_.emplace(sql, statement);
    return statement;
  }

  std::optional<SqlFailure> run_one(size_t index, const SqlStatement& source, const EachRow& each) {
    sqlite3_stmt* const statement = prepare(source.sql);
    if (statement == nullptr) return failure_of(sqlite3_errcode(file_));
    for (size_t i = 0; i < source.values.size(); ++i) {
      const int at = static_cast<int>(i) + 1;
      if (const auto* number = std::get_if<int64_t>(&source.values[i])) {
        sqlite3_bind_int64(statement, at, *number);
      } else {
        const auto bytes = std::get<std::string_view>(source.values[i]);
        // A null pointer would bind NULL instead of an empty value.
        sqlite3_bind_blob(statement, at, bytes.empty() ? "" : bytes.data(),
                          static_cast<int>(bytes.size()), SQLITE_STATIC);
      }
    }
    int code = SQLITE_ROW;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
      if (each) each(index, SqliteRow(statement));
    }
    std::optional<SqlFailure> failure;
    if (code != SQLITE_DONE) failure = failure_of(code);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    affected_ = static_cast<uint64_t>(sqlite3_changes64(file_));
    // Opened again next time: another file may have replaced it.
    const bool broken = failure && (failure->kind == LedgerError::kUnreachable ||
                                    failure->kind == LedgerError::kCorrupt);
    if (broken) close();
    return failure;
  }

  const Clock& clock_;
  const std::string path_;
  const Millis lock_timeout_;
  sqlite3* file_ = nullptr;
  std::unordered_map<std::string, sqlite3_stmt*> prepared_;
  uint64_t affected_ = 0;
  uint64_t connections_ = 0;
};

}  // namespace

std::unique_ptr<SqlLink> make_sqlite_link(const Clock& clock, std::string path,
                                          Millis lock_timeout) {
  return std::make_unique<SqliteLink>(clock, std::move(path), lock_timeout);
}

}  // namespace weir::ledgers
