#include "ledgers/sql/mysql_link.h"

#include <errmsg.h>
#include <mysql.h>
#include <mysqld_error.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"

namespace weir::ledgers {
namespace {

// Errors of the client library: the connection cannot be used any more.
constexpr unsigned kFirstClientError = 2000;
constexpr unsigned kLastClientError = 2999;

// Codes that some versions of the headers lack.
constexpr unsigned kStatementTimeout = 1969;
constexpr unsigned kConnectionKilled = 1927;
constexpr unsigned kMySqlStatementTimeout = 3024;
constexpr unsigned kMySqlCheckFailed = 3819;
constexpr unsigned kCheckFailed = 4025;
constexpr unsigned kReadOnlyTransaction = 1792;
constexpr unsigned kInnoDbReadOnly = 1874;
constexpr unsigned kReadOnlyMode = 1836;
constexpr unsigned kSocketAccess = 1698;
constexpr unsigned kClusterNotReady = 1047;
constexpr unsigned kAccountLocked = 4151;
constexpr unsigned kMySqlAccountLocked = 3118;
constexpr unsigned kPasswordExpired = 1820;
constexpr unsigned kPasswordExpiredAtLogin = 1862;
constexpr unsigned long kFirstNoWaitVersion = 100'300;  // MariaDB 10.3

constexpr const char* kSession =
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; "
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00', autocommit = 1, "
    "innodb_lock_wait_timeout = ";

// A firewall or proxy may have closed a connection that was idle for longer.
constexpr Nanos kMaxIdle = std::chrono::seconds(5);

// The remedy, if it is more specific than the one for the kind of error.
std::string fix_of(unsigned code) {
  switch (code) {
    case kAccountLocked:
    case kMySqlAccountLocked: return "unlock the user: ALTER USER ... ACCOUNT UNLOCK";
    case kPasswordExpired:
    case kPasswordExpiredAtLogin:
      return "give the user a new password: the old one has expired (ALTER USER ... IDENTIFIED BY)";
    case ER_TABLEACCESS_DENIED_ERROR:
    case ER_COLUMNACCESS_DENIED_ERROR:
    case ER_SPECIFIC_ACCESS_DENIED_ERROR:
      return "grant the user SELECT, INSERT, UPDATE and DELETE on the tables, and CREATE for weir "
             "migrate";
    case ER_CON_COUNT_ERROR: return "raise max_connections, or close unused connections";
    case ER_TOO_MANY_USER_CONNECTIONS:
      return "raise max_user_connections: each process has up to four connections";
    default: return "";
  }
}

class MySqlRow final : public SqlRow {
 public:
  MySqlRow(MYSQL_ROW values, const unsigned long* sizes) : values_(values), sizes_(sizes) {}
  [[nodiscard]] std::optional<int64_t> number(size_t column) const override {
    const std::string_view text = bytes(column);
    const char* const end = text.data() + text.size();
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
    return value;
  }
  [[nodiscard]] std::string_view bytes(size_t column) const override {
    return values_[column] == nullptr ? std::string_view()
                                      : std::string_view(values_[column], sizes_[column]);
  }

 private:
  const MYSQL_ROW values_;
  const unsigned long* const sizes_;
};

class MySqlLink final : public SqlLink {
 public:
  MySqlLink(const Clock& clock, LedgerAddress address, MySqlTimeouts timeouts)
      : clock_(clock), address_(std::move(address)), timeouts_(timeouts) {
    // Not thread-safe, and several threads may connect for the first time at once.
    static const int ready = mysql_library_init(0, nullptr, nullptr);
    WEIR_CHECK(ready == 0);
  }
  ~MySqlLink() override { close(); }
  MySqlLink(const MySqlLink&) = delete;
  MySqlLink& operator=(const MySqlLink&) = delete;

  std::optional<SqlFailure> run(std::span<const SqlStatement> statements, const EachRow& each,
                                Connection connection) override {
    if (connection == Connection::kAny) {
      if (auto failure = connect()) return failure;
    } else if (server_ == nullptr) {
      return SqlFailure{.kind = LedgerError::kUnreachable, .detail = "the connection was lost"};
    }
    std::string text;
    for (const SqlStatement& statement : statements) {
      if (!text.empty()) text += ';';
      text += with_values(statement);
    }
    auto failure = send(text, each);
    if (failure) failure->unanswered = failure->kind == LedgerError::kUnreachable;
    used_ = clock_.now().mono;
    return failure;
  }

  [[nodiscard]] uint64_t affected() const override { return affected_; }
  [[nodiscard]] bool supports_no_wait() const override {
    return server_ != nullptr && supports_no_wait_;
  }
  [[nodiscard]] uint64_t connections() const override { return connections_; }

 private:
  std::optional<SqlFailure> connect() {
    if (server_ != nullptr && clock_.now().mono - used_ > kMaxIdle && mysql_ping(server_) != 0)
      close();
    if (server_ != nullptr) return std::nullopt;
    began_ = clock_.now().mono;
    server_ = mysql_init(nullptr);
    WEIR_CHECK(server_ != nullptr);
    const auto seconds = [](Millis span) {
      return static_cast<unsigned>(
          std::max<int64_t>(1, std::chrono::ceil<std::chrono::seconds>(span).count()));
    };
    const unsigned connect_seconds = seconds(timeouts_.connect_timeout);
    const unsigned answer_seconds = seconds(timeouts_.answer_timeout);
    const unsigned no = 0;
    mysql_options(server_, MYSQL_OPT_CONNECT_TIMEOUT, &connect_seconds);
    mysql_options(server_, MYSQL_OPT_READ_TIMEOUT, &answer_seconds);
    mysql_options(server_, MYSQL_OPT_WRITE_TIMEOUT, &answer_seconds);
    mysql_options(server_, MYSQL_SET_CHARSET_NAME, "binary");
    // The server must not request local files.
    mysql_options(server_, MYSQL_OPT_LOCAL_INFILE, &no);
    set_tls();
    const bool local = !address_.socket.empty();
    const std::string host = local ? "localhost" : tcp_host();
    if (mysql_real_connect(server_, host.c_str(), address_.user.c_str(), address_.password.c_str(),
                           address_.database.c_str(), local ? 0 : address_.port,
                           local ? address_.socket.c_str() : nullptr,
                           CLIENT_MULTI_STATEMENTS) == nullptr) {
      SqlFailure failed = failure();
      // The server rejected the connection; it would reject the next one, too.
      if (failed.kind == LedgerError::kOther) failed.kind = LedgerError::kRefused;
      close();
      return failed;
    }
    // The library connects without TLS if the server has none, even if TLS is enforced.
    const bool wants_tls =
        address_.tls == LedgerTls::kRequired || address_.tls == LedgerTls::kVerify;
    if (wants_tls && mysql_get_ssl_cipher(server_) == nullptr) {
      close();
      return SqlFailure{.kind = LedgerError::kRefused, .detail = "the server offers no TLS"};
    }
    std::string session = kSession + std::to_string(seconds(timeouts_.lock_timeout));
    const std::string_view server = mysql_get_server_info(server_);
    const bool mariadb = server.find("MariaDB") != std::string_view::npos;
    supports_no_wait_ = mariadb && mysql_get_server_version(server_) >= kFirstNoWaitVersion;
    // MySQL aborts only SELECT statements.
    if (mariadb) {
      session +=
          ", max_statement_time = " + std::to_string(answer_seconds > 1 ? answer_seconds - 1 : 1);
    }
    if (auto failed = send(session, {})) {
      close();
      return failed;
    }
    ++connections_;
    used_ = clock_.now().mono;
    return std::nullopt;
  }

  // The library would use a Unix socket for "localhost".
  [[nodiscard]] std::string tcp_host() const {
    return address_.host == "localhost" ? "127.0.0.1" : address_.host;
  }

  void set_tls() {
    my_bool enforce = address_.tls == LedgerTls::kOff ? 0 : 1;
    my_bool verify = address_.tls == LedgerTls::kVerify ? 1 : 0;
    mysql_options(server_, MYSQL_OPT_SSL_ENFORCE, &enforce);
    mysql_options(server_, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    if (!address_.tls_ca.empty()) {
      mysql_options(server_, MYSQL_OPT_SSL_CA, address_.tls_ca.c_str());
    }
  }

  std::optional<SqlFailure> send(const std::string& text, const EachRow& each) {
    began_ = clock_.now().mono;
    affected_ = 0;
    if (mysql_real_query(server_, text.data(), text.size()) != 0) return failure();
    for (size_t statement = 0;; ++statement) {
      if (MYSQL_RES* const result = mysql_store_result(server_)) {
        while (MYSQL_ROW row = mysql_fetch_row(result)) {
          if (each) each(statement, MySqlRow(row, mysql_fetch_lengths(result)));
        }
        mysql_free_result(result);
      } else if (mysql_field_count(server_) != 0) {
        return failure(statement);
      } else {
        affected_ = mysql_affected_rows(server_);
      }
      const int more = mysql_next_result(server_);
      if (more < 0) return std::nullopt;
      if (more > 0) return failure(statement + 1);
    }
  }

  // Describes the failure of the last call. Closes the connection if another one may work.
  SqlFailure failure(size_t statement = 0) {
    const unsigned code = mysql_errno(server_);
    SqlFailure failure{
        .kind = classify_mysql_error(code),
        .detail = std::string(mysql_error(server_)) + " (" + std::to_string(code) + ")",
        .fix = fix_of(code),
        .statement = statement};
    const bool lost = code >= kFirstClientError && code <= kLastClientError;
    // The library reports a timeout as a lost connection.
    const Millis timeout = connecting() ? timeouts_.connect_timeout : timeouts_.answer_timeout;
    if (failure.kind == LedgerError::kUnreachable && clock_.now().mono - began_ >= timeout) {
      failure.kind = LedgerError::kTimeout;
    }
    if (lost || failure.kind == LedgerError::kReadOnly || failure.kind == LedgerError::kRefused ||
        failure.kind == LedgerError::kUnreachable || failure.kind == LedgerError::kTimeout) {
      close();
    }
    return failure;
  }

  [[nodiscard]] bool connecting() const { return mysql_thread_id(server_) == 0; }

  void close() {
    if (server_ != nullptr) mysql_close(server_);
    server_ = nullptr;
  }

  const Clock& clock_;
  const LedgerAddress address_;
  const MySqlTimeouts timeouts_;
  MYSQL* server_ = nullptr;
  MonoTime began_{};  // start of the last call
  MonoTime used_{};   // end of the last call
  bool supports_no_wait_ = false;
  uint64_t affected_ = 0;
  uint64_t connections_ = 0;
};

void append_hex(std::string& text, std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  text += "x'";
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  text += '\'';
}

}  // namespace

std::string with_values(const SqlStatement& statement) {
  size_t size = statement.sql.size();
  for (const SqlValue& value : statement.values) {
    const auto* bytes = std::get_if<std::string_view>(&value);
    size += bytes == nullptr ? 20 : 3 + 2 * bytes->size();
  }
  std::string text;
  text.reserve(size);
  size_t next = 0;
  for (const char c : statement.sql) {
    if (c != '?') {
      text += c;
      continue;
    }
    WEIR_CHECK(next < statement.values.size());
    const SqlValue& value = statement.values[next++];
    if (const auto* number = std::get_if<int64_t>(&value)) {
      char digits[24];
      text.append(digits, std::to_chars(digits, digits + sizeof digits, *number).ptr);
    } else {
      append_hex(text, std::get<std::string_view>(value));
    }
  }
  WEIR_CHECK(next == statement.values.size());
  return text;
}

LedgerError classify_mysql_error(unsigned code) {
  switch (code) {
    case ER_LOCK_DEADLOCK: return LedgerError::kDeadlock;
    case ER_LOCK_WAIT_TIMEOUT: return LedgerError::kLocked;
    case kStatementTimeout:
    case kMySqlStatementTimeout: return LedgerError::kTimeout;
    case ER_OPTION_PREVENTS_STATEMENT:
    case kReadOnlyTransaction:
    case kReadOnlyMode:
    case kInnoDbReadOnly: return LedgerError::kReadOnly;
    case ER_DISK_FULL:
    case ER_RECORD_FILE_FULL: return LedgerError::kFull;
    case ER_NO_SUCH_TABLE: return LedgerError::kMissingTables;
    case ER_ACCESS_DENIED_ERROR:
    case ER_DBACCESS_DENIED_ERROR:
    case ER_TABLEACCESS_DENIED_ERROR:
    case ER_COLUMNACCESS_DENIED_ERROR:
    case ER_SPECIFIC_ACCESS_DENIED_ERROR:
    case ER_HOST_NOT_PRIVILEGED:
    case ER_BAD_DB_ERROR:
    case kSocketAccess:
    case kAccountLocked:
    case kMySqlAccountLocked:
    case kPasswordExpired:
    case kPasswordExpiredAtLogin:
    case CR_SSL_CONNECTION_ERROR:
    case CR_AUTH_PLUGIN_CANNOT_LOAD: return LedgerError::kRefused;
    case ER_DATA_TOO_LONG:
    case ER_WARN_DATA_OUT_OF_RANGE:
    case ER_TRUNCATED_WRONG_VALUE:
    case ER_TRUNCATED_WRONG_VALUE_FOR_FIELD:
    case ER_DATA_OUT_OF_RANGE:
    case ER_BAD_NULL_ERROR:
    case ER_TOO_BIG_ROWSIZE:
    case ER_SIGNAL_EXCEPTION:
    case ER_NET_PACKET_TOO_LARGE:
    case kCheckFailed:
    case kMySqlCheckFailed: return LedgerError::kBadRows;
    case ER_CON_COUNT_ERROR:
    case ER_TOO_MANY_USER_CONNECTIONS:
    case ER_SERVER_SHUTDOWN:
    case kClusterNotReady:
    case kConnectionKilled: return LedgerError::kUnreachable;
    default: break;
  }
  const bool client = code >= kFirstClientError && code <= kLastClientError;
  return client ? LedgerError::kUnreachable : LedgerError::kOther;
}

std::unique_ptr<SqlLink> make_mysql_link(const Clock& clock, LedgerAddress address,
                                         MySqlTimeouts timeouts) {
  return std::make_unique<MySqlLink>(clock, std::move(address), timeouts);
}

}  // namespace weir::ledgers
