// The sync rules as rows of a store: names and values that an operator can read and change.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/ledger.h"

namespace weir::ledgers {

struct Setting {
  std::string_view name;  // static
  std::string value;
};
[[nodiscard]] std::vector<Setting> settings_of(const SyncRules& rules);

// Sets the rule of that name. Ignores unknown names, unreadable values, and values that make the
// rules invalid.
void read_setting(std::string_view name, std::string_view value, SyncRules& rules);

// None unless the text is an integer of at least 0.
[[nodiscard]] std::optional<int64_t> number_in(std::string_view text);

}  // namespace weir::ledgers
