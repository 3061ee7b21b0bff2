// The address of a ledger: an SQLite file or a MySQL server.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weir/error.h"

namespace weir::ledgers {

enum class LedgerKind : uint8_t { kSqlite, kMySql };

enum class LedgerTls : uint8_t {
  kOff,
  kPreferred,  // if the server supports it
  kRequired,   // without a check of the certificate
  kVerify,     // with a check of the certificate and the host name
};

struct LedgerAddress {
  LedgerKind kind = LedgerKind::kSqlite;
  std::string path = {};  // kSqlite only; the other members are for kMySql
  std::string host = {};
  uint16_t port = 3306;
  std::string socket = {};  // a Unix socket instead of host and port
  std::string user = {};
  std::string password = {};
  std::string database = {};
  LedgerTls tls = LedgerTls::kPreferred;
  std::string tls_ca = {};  // file with trusted authorities; empty: those of the system
  friend bool operator==(const LedgerAddress&, const LedgerAddress&) = default;
};

//   sqlite:PATH
//   mysql://[user[:password]@]host[:port]/database[?tls=...&tls-ca=FILE&socket=PATH]
//   mariadb://...   the same
//
// Every part may be percent-encoded. No error repeats the text, since the text may contain a
// password.
[[nodiscard]] Result<LedgerAddress> parse_ledger_address(std::string_view text);

// The URL without user and password, for logs.
[[nodiscard]] std::string to_string(const LedgerAddress& address);

}  // namespace weir::ledgers
