#include "frontends/resp/known_commands.h"

#include <iterator>

namespace weir::frontends {
namespace {

constexpr KnownCommand kCommands[] = {
    {.name = "cl.throttle", .arity = -5, .key = 1, .last_key = 1, .decides = true},
    {.name = "gcra", .arity = -5, .key = 1, .last_key = 1, .decides = true},
    {.name = "weir.limit", .arity = -5, .key = 2, .last_key = 2, .decides = true},
    {.name = "weir.peek", .arity = -5, .key = 2, .last_key = 2},
    {.name = "weir.multi", .arity = -6, .key = 3, .last_key = 3, .decides = true},
    {.name = "weir.reset", .arity = -4, .key = 2, .last_key = 2, .decides = true},
    {.name = "del", .arity = -2, .key = 1, .last_key = -1, .decides = true},
    {.name = "unlink", .arity = -2, .key = 1, .last_key = -1, .decides = true},
    {.name = "eval", .arity = -3, .decides = true},
    {.name = "evalsha", .arity = -3, .decides = true},
    {.name = "script", .arity = -2},
    {.name = "multi", .arity = 1},
    {.name = "exec", .arity = 1},
    {.name = "discard", .arity = 1},
    {.name = "cluster", .arity = -2},
    {.name = "readonly", .arity = 1},
    {.name = "readwrite", .arity = 1},
    {.name = "ping", .arity = -1},
    {.name = "echo", .arity = 2},
    {.name = "hello", .arity = -1},
    {.name = "auth", .arity = -2},
    {.name = "select", .arity = 2},
    {.name = "client", .arity = -2},
    {.name = "command", .arity = -1},
    {.name = "info", .arity = -1},
    {.name = "config", .arity = -2},
    {.name = "reset", .arity = 1},
    {.name = "quit", .arity = 1}};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

// In the format of Redis 7; fields that Weir does not have are empty.
void write_info(const KnownCommand& command, RespWriter& writer) {
  writer.array(10);
  writer.bulk(command.name);
  writer.integer(command.arity);
  writer.array(command.decides ? 2 : 1);
  if (command.decides) writer.simple("write");
  writer.simple("fast");
  writer.integer(command.key);
  writer.integer(command.last_key);
  writer.integer(command.key == 0 ? 0 : 1);
  for (int i = 0; i < 4; ++i) writer.array(0);  // categories, tips, key specifications, subcommands
}

}  // namespace

const KnownCommand* find_command(std::string_view name) {
  for (const KnownCommand& command : kCommands) {
    if (command.name.size() != name.size()) continue;
    size_t i = 0;
    while (i < name.size() && lower(name[i]) == command.name[i]) ++i;
    if (i == name.size()) return &command;
  }
  return nullptr;
}

RespError unknown_command(std::string_view name) {
  return std::string(kUnknownCommand) + std::string(name.substr(0, 64)) +
         "': Weir supports CL.THROTTLE, GCRA, WEIR.LIMIT, WEIR.PEEK, WEIR.MULTI and WEIR.RESET";
}

RespError answer_command(Arguments arguments, RespWriter& writer) {
  const auto is = [&](std::string_view name) { return is_word(arguments[1], name); };
  if (arguments.size() == 1) {
    writer.array(std::size(kCommands));
    for (const KnownCommand& command : kCommands) write_info(command, writer);
  } else if (is("COUNT")) {
    writer.integer(std::size(kCommands));
  } else if (is("LIST")) {
    writer.array(std::size(kCommands));
    for (const KnownCommand& command : kCommands) writer.bulk(command.name);
  } else if (is("DOCS")) {
    writer.map(0);
  } else if (is("INFO")) {
    writer.array(arguments.size() - 2);
    for (const std::string_view name : arguments.subspan(2)) {
      const KnownCommand* const command = find_command(name);
      command == nullptr ? writer.null_array() : write_info(*command, writer);
    }
  } else {
    return "ERR unknown subcommand of COMMAND: Weir supports COUNT, DOCS, INFO and LIST";
  }
  return {};
}

}  // namespace weir::frontends
