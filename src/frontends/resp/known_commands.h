// The table of commands, for COMMAND and for the checks of MULTI.

#pragma once

#include <string_view>

#include "frontends/resp/limit_commands.h"
#include "frontends/resp/resp_writer.h"

namespace weir::frontends {

struct KnownCommand {
  std::string_view name;  // in lower case
  int arity = 1;          // negative: the minimum
  // The position of the first key, by which cluster clients choose the node. 0: none.
  int key = 0;
  int last_key = 0;      // negative: counted from the end
  bool decides = false;  // changes counts

  [[nodiscard]] bool takes(size_t arguments) const {
    const auto count = static_cast<int>(arguments);
    return arity < 0 ? count >= -arity : count == arity;
  }
};

// nullptr: there is no such command.
[[nodiscard]] const KnownCommand* find_command(std::string_view name);

[[nodiscard]] RespError unknown_command(std::string_view name);

// COMMAND [COUNT | LIST | DOCS | INFO name ...]
[[nodiscard]] RespError answer_command(Arguments arguments, RespWriter& writer);

}  // namespace weir::frontends
