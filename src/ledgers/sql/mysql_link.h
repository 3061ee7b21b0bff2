// A server of MariaDB or MySQL.
//
// Several statements go to it in one message, so that a call costs one way there and back
// however far it is. Values are written into them as numbers and hexadecimal literals, in
// which nothing can be hidden.

#pragma once

#include <memory>

#include "ledgers/sql/ledger_address.h"
#include "ledgers/sql/sql_link.h"
#include "weir/clock.h"

namespace weir::ledgers {

struct MySqlTimeouts {
  Millis connect_timeout{2000};
  Millis answer_timeout{3000};
};

// `clock` tells how long things took.
[[nodiscard]] std::unique_ptr<SqlLink> make_mysql_link(const Clock& clock, LedgerAddress address,
                                                         MySqlTimeouts timeouts);

// What an error of the server or of its client library means.
[[nodiscard]] LedgerError classify_mysql_error(unsigned code);

// The statement with its values in it.
[[nodiscard]] std::string with_values(const SqlStatement& statement);

}  // namespace weir::ledgers
