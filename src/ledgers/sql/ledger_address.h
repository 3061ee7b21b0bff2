// Where a ledger is: a file, or a server that speaks the protocol of MySQL.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weir/error.h"

namespace weir::ledgers {

enum class LedgerKind : uint8_t { kSqlite, kMySql };

enum class LedgerTls : uint8_t {
  kOff,
  kPreferred,  // where the server can
  kRequired,   // or no connection; whoever answers is taken for the server
  kVerify,     // and the certificate must be the host's, of a known authority
};

struct LedgerAddress {
  LedgerKind kind = LedgerKind::kSqlite;
  std::string path = {};  // of the file; a server has the rest
  std::string host = {};
  uint16_t port = 3306;
  std::string socket = {};  // of a server on this machine: instead of host and port
  std::string user = {};
  std::string password = {};
  std::string database = {};
  LedgerTls tls = LedgerTls::kPreferred;
  std::string tls_ca = {};  // file with the authorities to believe; empty: the system's
  friend bool operator==(const LedgerAddress&, const LedgerAddress&) = default;
};

//   sqlite:PATH
//   mysql://[user[:password]@]host[:port]/database[?tls=...&tls-ca=FILE&socket=PATH]
//   mariadb://...   the same
//
// Every part may have %40 for '@' and so on. An error never repeats what was written, since a
// password may be anywhere in it.
[[nodiscard]] Result<LedgerAddress> parse_ledger_address(std::string_view text);

// For people to read: without user and password.
[[nodiscard]] std::string to_string(const LedgerAddress& address);

}  // namespace weir::ledgers
