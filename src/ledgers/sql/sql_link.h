// One connection to a store that speaks SQL: what the two kinds of store have in common.

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

// Bytes must outlive the call.
using SqlValue = std::variant<int64_t, std::string_view>;

// A '?' stands for a value, and for nothing else.
struct SqlStatement {
  std::string_view sql;
  std::vector<SqlValue> values = {};
};

struct SqlFailure {
  LedgerError why = LedgerError::kOther;
  std::string detail;
  std::string fix = {};  // empty: what helps follows from `why`
};

// A row of an answer, valid while it is given.
class SqlRow {
 public:
  virtual ~SqlRow() = default;
  // None if it is no whole number of 64 bits.
  [[nodiscard]] virtual std::optional<int64_t> number(size_t column) const = 0;
  [[nodiscard]] virtual std::string_view bytes(size_t column) const = 0;
};

inline constexpr std::string_view kNoWait = "SET STATEMENT innodb_lock_wait_timeout=0 FOR ";

// Connects by itself when it is used, and again after it was lost. One thread at a time.
class SqlLink {
 public:
  enum class Connection : uint8_t { kAny, kTheSame };
  // `statement` is the place of the one it answers.
  using EachRow = std::function<void(size_t statement, const SqlRow& row)>;

  virtual ~SqlLink() = default;

  // Runs all of them in order, up to the first that fails. With kTheSame, fails if the
  // connection of the last run is gone: what ends a transaction must be where it began.
  virtual std::optional<SqlFailure> run(std::span<const SqlStatement> statements,
                                        const EachRow& each,
                                        Connection connection = Connection::kAny) = 0;

  // Rows that the last statement of the last run changed or deleted.
  [[nodiscard]] virtual uint64_t affected() const = 0;
  // Whether a statement that takes as long as a transaction may last is ended by the store, and
  // not committed later when nobody waits for it any more.
  [[nodiscard]] virtual bool ends_long_statements() const = 0;
  // Whether a statement behind kNoWait fails at once where it would wait for a lock.
  [[nodiscard]] virtual bool supports_no_wait() const { return false; }
  // How often a connection was made.
  [[nodiscard]] virtual uint64_t connections() const = 0;
};

}  // namespace weir::ledgers
