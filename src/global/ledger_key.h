// Conversions between an encoded tuple and its key in the ledger.

#pragma once

#include <string>
#include <string_view>

#include "global/regions.h"
#include "weir/ledger.h"
#include "weir/request.h"

namespace weir::global {

[[nodiscard]] LedgerKey ledger_key_of(const std::string& tuple);
[[nodiscard]] Tenant tenant_of(const std::string& tuple);
[[nodiscard]] bool are_of_one_tenant(const std::string& tuple, const std::string& other);
// A request on the tuple, with a limit of 1.
[[nodiscard]] Request request_of(const LedgerKey& key);

// Whether some valid request has this key. Another region may write anything into the ledger.
[[nodiscard]] bool is_valid(const LedgerKey& key);
// Whether the bytes, which a store returned, encode a valid tuple of the window class.
[[nodiscard]] bool is_window_tuple(std::string_view bytes);

}  // namespace weir::global
