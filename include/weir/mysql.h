// The global ledger in a MySQL or MariaDB server: regions that use the same database share their
// counts. Component `mysql`, target weir::mysql.
//
//   const weir::MysqlOptions options = {.host = "db", .user = "weir", .database = "limits"};
//   if (auto version = weir::create_mysql_tables(options); !version) ...
//   auto ledger = weir::mysql_ledger(options);
//   auto limiter = weir::Limiter::create(weir::system_clock(),
//                                        {.ledger = *ledger, .region = "east"});

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "weir/error.h"
#include "weir/export.h"
#include "weir/ledger.h"

namespace weir {

enum class MysqlTls : uint8_t {
  kOff,
  kPreferred,  // encrypt if the server supports it
  kRequired,   // encrypt or fail; the server's certificate is not verified
  kVerify,     // encrypt, and verify the certificate and the host name
};

struct MysqlOptions {
  std::string host = {};      // 1 to 253 bytes, unless `socket` is given
  uint16_t port = 3306;       // 1 to 65535
  std::string socket = {};    // path of a Unix socket, instead of host and port; 0 to 107 bytes
  std::string user = {};      // 0 to 128 bytes
  std::string password = {};  // 0 to 512 bytes
  std::string database = {};  // 1 to 64 bytes
  MysqlTls tls = MysqlTls::kPreferred;
  std::string tls_ca = {};  // file of certificate authorities; empty: those of the system
};

// Parses mysql://[user[:password]@]host[:port]/database[?tls=...&tls-ca=FILE&socket=PATH]; every
// part may be percent-encoded. The error does not repeat the text, which may contain a password.
[[nodiscard]] WEIR_EXPORT Result<MysqlOptions> parse_mysql_url(std::string_view url);

// Creates the missing tables and returns the version of the schema. Blocks for seconds if the
// server does not answer.
[[nodiscard]] WEIR_EXPORT Result<int64_t> create_mysql_tables(const MysqlOptions& options);

// A ledger with threads of its own. Use one ledger per limiter. The tables must exist. The last
// owner that releases it ends the threads. An unreachable server is not an error here: the ledger
// tries again, and SyncStats::import_lag grows. It follows weir::system_clock(). The error names
// the option, its value and its range, but never the password.
[[nodiscard]] WEIR_EXPORT Result<std::shared_ptr<GlobalLedger>> mysql_ledger(
    const MysqlOptions& options);

}  // namespace weir
