// EVAL, EVALSHA and SCRIPT for one kind of script: a single call of CL.THROTTLE. Client libraries
// without support for custom commands send such scripts.
//
//   return redis.call('CL.THROTTLE', KEYS[1], ARGV[1], ARGV[2], ARGV[3])
//
// Any other script is refused. A script is parsed into the positions of its arguments; no Lua code
// is run.

#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "frontends/resp/limit_commands.h"
#include "frontends/resp/resp_writer.h"

namespace weir::frontends {

inline constexpr size_t kMaxScriptBytes = 4096;
inline constexpr size_t kMaxScripts = 256;  // of a workspace
inline constexpr size_t kMaxScriptsInAll = 4096;

// The arguments that a script passes to CL.THROTTLE. The views are of the script's text.
struct ThrottleScript {
  struct Part {
    enum class Kind : uint8_t { kText, kKey, kArgument, kAllArguments };
    Kind kind = Kind::kText;
    std::string_view text{};
    size_t index = 0;  // from 1
  };
  static constexpr size_t kMaxParts = 5;  // key max_burst count period quantity

  std::array<Part, kMaxParts> parts{};
  size_t count = 0;
};

// nullopt: any other script.
[[nodiscard]] std::optional<ThrottleScript> read_script(std::string_view text);

// The command that a script runs: CL.THROTTLE and its arguments.
class ThrottleCall {
 public:
  [[nodiscard]] Arguments arguments() const { return {words_.data(), count_}; }
  // `arguments` are those of EVAL: EVAL script numkeys key ... arg ...
  [[nodiscard]] RespError fill(const ThrottleScript& script, Arguments arguments);

 private:
  void add(std::string_view word);

  // One more than CL.THROTTLE accepts, so that its own parser reports the error.
  std::array<std::string_view, 2 + ThrottleScript::kMaxParts> words_{};
  size_t count_ = 0;
};

// SHA-1 in 40 hexadecimal digits.
using ScriptName = std::array<char, 40>;
[[nodiscard]] ScriptName name_of_script(std::string_view text);

// A tenant, and whether this client may store scripts for it.
struct ScriptOwner {
  std::string_view workspace = {};  // as in requests
  bool may_add = true;
};

// The loaded scripts of all sessions, of each workspace apart. Safe from any thread.
class ScriptStore {
 public:
  struct Stored {
    std::string text;
    ThrottleScript script;  // of this text
  };
  using Scripts = std::map<std::string, std::shared_ptr<const Stored>, std::less<>>;
  using Workspaces = std::map<std::string, Scripts, std::less<>>;

  // A thread's cached view of a store: locks only after a change.
  class View {
   public:
    [[nodiscard]] const Stored* find(const ScriptStore& store, std::string_view workspace,
                                     std::string_view name);

   private:
    uint64_t version_ = 0;
    std::shared_ptr<const Workspaces> workspaces_;
  };

  // False: there are too many.
  [[nodiscard]] bool add(std::string_view workspace, std::string_view name, std::string_view text);
  void clear();

 private:
  mutable base::StdMutex mutex_;
  std::shared_ptr<const Workspaces> workspaces_ = std::make_shared<const Workspaces>();  // mutex_
  // Changes with workspaces_ and is unique among all stores; written under mutex_.
  [[nodiscard]] static uint64_t next_version();
  std::atomic<uint64_t> version_{next_version()};
};

// EVAL script numkeys key ... arg ..., or EVALSHA name numkeys key ... arg ...
[[nodiscard]] RespError read_eval(Arguments arguments, const ScriptOwner& owner, ScriptStore& store,
                                  ScriptStore::View& view, ThrottleCall& call);

// SCRIPT LOAD script | EXISTS name ... | FLUSH [ASYNC | SYNC]
[[nodiscard]] RespError answer_script(Arguments arguments, const ScriptOwner& owner,
                                      ScriptStore& store, ScriptStore::View& view,
                                      RespWriter& writer);

}  // namespace weir::frontends
