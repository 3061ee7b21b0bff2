// Failures of an SQL store as errors for people.

#pragma once

#include <string>

#include "ledgers/sql/schema.h"
#include "ledgers/sql/sql_link.h"

namespace weir::ledgers {

// `address` names the store; it contains no secrets.
[[nodiscard]] Error error_of(const SqlFailure& failure, Dialect dialect,
                             const std::string& address);

}  // namespace weir::ledgers
