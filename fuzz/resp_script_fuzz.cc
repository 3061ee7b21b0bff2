// A script is parsed or rejected without a read beyond its text, and the result refers only to the
// script and to the arguments of the client.

#include "frontends/resp/script_commands.h"
#include "fuzz/input.h"

using weir::fuzz::Exact;
using weir::fuzz::must;
using namespace weir::frontends;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weir::fuzz::Input input(data, size);
  const size_t keys = input.number(7);
  const size_t values = input.number(7);
  const Exact text(input.text());
  const auto script = read_script(text.view());
  if (!script) return 0;
  must(text.size() <= kMaxScriptBytes, "a script is not too long");
  must(script->count <= ThrottleScript::kMaxParts,
       "it passes no more arguments than CL.THROTTLE accepts");
  for (size_t i = 0; i < script->count; ++i) {
    const ThrottleScript::Part& part = script->parts[i];
    if (part.kind != ThrottleScript::Part::Kind::kText) continue;
    must(i > 0, "a key comes from the client");
    must(text.holds(part.text), "a literal is a view of the script");
  }
  const std::string count = std::to_string(keys);
  std::vector<std::string_view> words{"EVAL", text.view(), count};
  for (size_t i = 0; i < keys; ++i) words.emplace_back("key");
  for (size_t i = 0; i < values; ++i) words.emplace_back("1");
  ThrottleCall call;
  if (!call.fill(*script, words).empty()) return 0;
  must(!call.arguments().empty() && call.arguments()[0] == "CL.THROTTLE", "it is CL.THROTTLE");
  must(call.arguments().size() <= 7, "and at most one argument too many");
  weir::Request request;
  HashedKey hashed;
  if (read_throttle(call.arguments(), request, hashed).empty()) {
    must(request.identifier == "key" || request.identifier == "1", "the client supplies its key");
  }
  // A stored copy parses the same.
  ScriptStore store;
  ScriptStore::View view;
  const ScriptName name = name_of_script(text.view());
  must(store.add("", {name.data(), name.size()}, text.view()), "the store has space for one");
  const auto* const stored = view.find(store, "", {name.data(), name.size()});
  must(stored != nullptr && stored->script.count == script->count, "a script is found again");
  return 0;
}
