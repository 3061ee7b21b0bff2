// A connection to a MySQL or MariaDB server.
//
// Several statements go to the server in one message, so that a call needs one round trip. Values
// are encoded as numbers and hexadecimal literals, which rules out SQL injection.

#pragma once

#include <memory>

#include "ledgers/sql/ledger_address.h"
#include "ledgers/sql/sql_link.h"
#include "weir/clock.h"

namespace weir::ledgers {

// A lock times out before the statement does, and the statement before the client gives up.
struct MySqlTimeouts {
  Millis connect_timeout{2000};
  Millis answer_timeout{3000};
  Millis lock_timeout{1000};
};

// `clock` measures durations.
[[nodiscard]] std::unique_ptr<SqlLink> make_mysql_link(const Clock& clock, LedgerAddress address,
                                                       MySqlTimeouts timeouts);

// Classifies an error code of the server or of the client library.
[[nodiscard]] LedgerError classify_mysql_error(unsigned code);

// Returns the text of the statement with its values filled in.
[[nodiscard]] std::string with_values(const SqlStatement& statement);

}  // namespace weir::ledgers
