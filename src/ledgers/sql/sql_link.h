// One connection to an SQL store; the common interface of SQLite and MySQL.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "telemetry/ledger_metrics.h"
#include "weir/error.h"

namespace weir::ledgers {

using telemetry::LedgerError;

// The caller keeps the bytes alive during the call.
using SqlValue = std::variant<int64_t, std::string_view>;

// Each '?' is a placeholder for one value.
struct SqlStatement {
  std::string_view sql;
  std::vector<SqlValue> values = {};
};

struct SqlFailure {
  LedgerError kind = LedgerError::kOther;
  std::string detail;
  std::string fix = {};     // empty: the usual remedy for `kind`
  size_t statement = 0;     // the index of the statement that failed
  bool unanswered = false;  // the connection was lost: the server may have run all statements
};

// A row of a result, valid during the callback.
class SqlRow {
 public:
  virtual ~SqlRow() = default;
  // None if the column does not hold a 64-bit integer.
  [[nodiscard]] virtual std::optional<int64_t> number(size_t column) const = 0;
  [[nodiscard]] virtual std::string_view bytes(size_t column) const = 0;
};

inline constexpr std::string_view kNoWait = "SET STATEMENT innodb_lock_wait_timeout=0 FOR ";

// Connects at the first use, and reconnects after the connection was lost. One thread at a time.
class SqlLink {
 public:
  enum class Connection : uint8_t { kAny, kSame };
  // `statement` is the index of the statement that returned the row.
  using EachRow = std::function<void(size_t statement, const SqlRow& row)>;

  virtual ~SqlLink() = default;

  // Runs the statements in order and stops at the first failure. With kSame it fails if the
  // connection of the last run was lost: a transaction must end on the connection where it began.
  virtual std::optional<SqlFailure> run(std::span<const SqlStatement> statements,
                                        const EachRow& each,
                                        Connection connection = Connection::kAny) = 0;

  // Number of rows that the last statement of the last run changed or deleted.
  [[nodiscard]] virtual uint64_t affected() const = 0;
  // Whether a statement with the prefix kNoWait fails at once instead of waiting for a lock.
  [[nodiscard]] virtual bool supports_no_wait() const { return false; }
  // Number of connections made.
  [[nodiscard]] virtual uint64_t connections() const = 0;
};

}  // namespace weir::ledgers
