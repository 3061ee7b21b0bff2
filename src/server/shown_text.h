// Names of clients in tables and messages for a terminal.

#pragma once

#include <string>
#include <string_view>

namespace weir::server {

// With characters that move the cursor, change the order of the text, or are no UTF-8 as \xNN.
[[nodiscard]] std::string shown(std::string_view name);

}  // namespace weir::server
