// The commands there are, as COMMAND tells them and as MULTI checks them.

#pragma once

#include <string_view>

#include "frontends/resp/limit_commands.h"
#include "frontends/resp/resp_writer.h"

namespace weir::frontends {

struct KnownCommand {
  std::string_view name;  // in small letters
  int arity = 1;          // negative: at least
  // Which argument is a key: clients of a cluster choose the node by it. 0: none.
  int key = 0;
  int last_key = 0;      // negative: counted from the end
  bool decides = false;  // and so changes counts

  [[nodiscard]] bool takes(size_t arguments) const {
    const auto count = static_cast<int>(arguments);
    return arity < 0 ? count >= -arity : count == arity;
  }
};

// None: there is no such command.
[[nodiscard]] const KnownCommand* find_command(std::string_view name);

[[nodiscard]] Complaint unknown_command(std::string_view name);

// COMMAND [COUNT | LIST | DOCS | INFO name ...]
[[nodiscard]] Complaint answer_command(Arguments arguments, RespWriter& writer);

}  // namespace weir::frontends
