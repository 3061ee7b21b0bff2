// The sharing rules as rows of a store: names and texts that a person can read and change.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/ledger.h"

namespace weir::ledgers {

struct Setting {
  std::string_view name;  // lives for ever
  std::string value;
};
[[nodiscard]] std::vector<Setting> settings_of(const SyncRules& rules);

// Changes the rule of that name. What is no rule, cannot be read, or leads to rules that cannot
// be meant, is as if it were not there.
void read_setting(std::string_view name, std::string_view value, SyncRules& rules);

// None if it is no whole number, or below 0.
[[nodiscard]] std::optional<int64_t> number_in(std::string_view text);

}  // namespace weir::ledgers
