#include "weir/mysql.h"

#include <utility>

#include "ledgers/sql/mysql_ledger.h"
#include "library/store_options.h"
#include "platform/own_thread.h"
#include "weir/clock.h"

namespace weir {
namespace {

using library::check_length;
using library::check_number;

static_assert(static_cast<int>(MysqlTls::kOff) == static_cast<int>(ledgers::LedgerTls::kOff));
static_assert(static_cast<int>(MysqlTls::kPreferred) ==
              static_cast<int>(ledgers::LedgerTls::kPreferred));
static_assert(static_cast<int>(MysqlTls::kRequired) ==
              static_cast<int>(ledgers::LedgerTls::kRequired));
static_assert(static_cast<int>(MysqlTls::kVerify) == static_cast<int>(ledgers::LedgerTls::kVerify));

std::optional<Error> error_in(const MysqlOptions& options) {
  const size_t least_host = options.socket.empty() ? 1 : 0;
  if (auto error = check_length("host", options.host, {.least = least_host, .most = 253})) {
    return error;
  }
  if (auto error = check_number("port", options.port, {.low = 1, .high = 65535})) return error;
  if (auto error = check_length("socket", options.socket, {.most = 107})) return error;
  if (auto error = check_length("user", options.user, {.most = 128})) return error;
  if (auto error =
          check_length("password", options.password, {.most = 512}, library::Secret::kYes)) {
    return error;
  }
  if (auto error = check_length("database", options.database, {.least = 1, .most = 64})) {
    return error;
  }
  if (auto error = check_number("tls", static_cast<int64_t>(options.tls),
                                {.low = 0, .high = static_cast<int64_t>(MysqlTls::kVerify)})) {
    return error;
  }
  return check_length("tls_ca", options.tls_ca, {.most = 4096});
}

ledgers::LedgerAddress address_of(const MysqlOptions& options) {
  return {.kind = ledgers::LedgerKind::kMySql,
          .host = options.host,
          .port = options.port,
          .socket = options.socket,
          .user = options.user,
          .password = options.password,
          .database = options.database,
          .tls = static_cast<ledgers::LedgerTls>(options.tls),
          .tls_ca = options.tls_ca};
}

}  // namespace

Result<MysqlOptions> parse_mysql_url(std::string_view url) {
  auto address = ledgers::parse_ledger_address(url);
  if (!address) return address.error();
  if (address->kind != ledgers::LedgerKind::kMySql) {
    return Error{.field = "url",
                 .detail = "url does not start with mysql:// or mariadb://",
                 .fix = "choose mysql://[user[:password]@]host[:port]/database"};
  }
  return MysqlOptions{.host = std::move(address->host),
                      .port = address->port,
                      .socket = std::move(address->socket),
                      .user = std::move(address->user),
                      .password = std::move(address->password),
                      .database = std::move(address->database),
                      .tls = static_cast<MysqlTls>(address->tls),
                      .tls_ca = std::move(address->tls_ca)};
}

Result<int64_t> create_mysql_tables(const MysqlOptions& options) {
  if (auto error = error_in(options)) return std::move(*error);
  return ledgers::make_mysql_store(system_clock(), address_of(options), {})->migrate();
}

Result<std::shared_ptr<GlobalLedger>> mysql_ledger(const MysqlOptions& options) {
  if (auto error = error_in(options)) return std::move(*error);
  auto ledger = ledgers::make_mysql_ledger(system_clock(), {.address = address_of(options)});
  ledger->start();
  return platform::destroyed_by_others<GlobalLedger>(std::move(ledger));
}

}  // namespace weir
