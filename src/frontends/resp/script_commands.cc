#include "frontends/resp/script_commands.h"

#include <openssl/sha.h>

#include <charconv>

#include "catalog/permissions.h"

namespace weir::frontends {
namespace {

// Parses a script from left to right. A function that returns false may have consumed input: there
// is no alternative parse.
class ScriptReader {
 public:
  explicit ScriptReader(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool ended() {
    skip_space();
    return rest_.empty();
  }
  bool take(std::string_view token) {
    skip_space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  // A whole identifier.
  bool take_word(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    if (word.size() < rest_.size() && is_name(rest_[word.size()])) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool take_string(std::string_view& text) {
    skip_space();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return false;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return false;
    text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text.find_first_of("\\\r\n") == std::string_view::npos;
  }
  bool take_digits(std::string_view& text) {
    skip_space();
    size_t size = 0;
    while (size < rest_.size() && rest_[size] >= '0' && rest_[size] <= '9') ++size;
    text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return size > 0 && (rest_.empty() || !is_name(rest_[0]));
  }
  // [n]
  bool take_index(size_t& index) {
    std::string_view digits;
    if (!take("[") || !take_digits(digits) || digits.size() > 6) return false;
    std::from_chars(digits.data(), digits.data() + digits.size(), index);
    return take("]");
  }

 private:
  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  // Skips white space and comments to the end of the line.
  void skip_space() {
    for (;;) {
      const size_t at = rest_.find_first_not_of(" \t\r\n");
      rest_.remove_prefix(at == std::string_view::npos ? rest_.size() : at);
      if (!rest_.starts_with("--") || rest_.starts_with("--[")) return;
      const size_t end = rest_.find('\n');
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end);
    }
  }

  std::string_view rest_;
};

bool read_part(ScriptReader& reader, ThrottleScript::Part& part) {
  using Kind = ThrottleScript::Part::Kind;
  if (reader.take_word("KEYS")) {
    part.kind = Kind::kKey;
    return reader.take_index(part.index);
  }
  if (reader.take_word("ARGV")) {
    part.kind = Kind::kArgument;
    return reader.take_index(part.index);
  }
  if (reader.take_word("unpack") || reader.take("table.unpack")) {
    part.kind = Kind::kAllArguments;
    return reader.take("(") && reader.take_word("ARGV") && reader.take(")");
  }
  part.kind = Kind::kText;
  return reader.take_string(part.text) || reader.take_digits(part.text);
}

}  // namespace

std::optional<ThrottleScript> read_script(std::string_view text) {
  using Kind = ThrottleScript::Part::Kind;
  if (text.size() > kMaxScriptBytes) return std::nullopt;
  ScriptReader reader(text);
  std::string_view command;
  if (!reader.take_word("return") || !reader.take_word("redis") || !reader.take(".") ||
      !(reader.take_word("call") || reader.take_word("pcall")) || !reader.take("(") ||
      !reader.take_string(command) || !is_word(command, "CL.THROTTLE")) {
    return std::nullopt;
  }
  ThrottleScript script;
  while (reader.take(",")) {
    if (script.count == ThrottleScript::kMaxParts) return std::nullopt;
    ThrottleScript::Part& part = script.parts[script.count++];
    if (!read_part(reader, part)) return std::nullopt;
    // The key must come from the client, whose bytes outlive the script.
    if (script.count == 1 && part.kind != Kind::kKey && part.kind != Kind::kArgument) {
      return std::nullopt;
    }
    // Lua keeps all values of unpack() only at the end of the list.
    if (part.kind == Kind::kAllArguments) break;
  }
  if (!reader.take(")")) return std::nullopt;
  (void)reader.take(";");
  if (!reader.ended()) return std::nullopt;
  return script;
}

void ThrottleCall::add(std::string_view word) {
  if (count_ < words_.size()) words_[count_++] = word;
}

RespError ThrottleCall::fill(const ThrottleScript& script, Arguments arguments) {
  using Kind = ThrottleScript::Part::Kind;
  constexpr size_t kBefore = 3;  // EVAL script numkeys
  if (arguments.size() < kBefore) return wrong_number_of_arguments("eval");
  const std::string_view number = arguments[2];
  const Arguments rest = arguments.subspan(kBefore);
  size_t key_count = 0;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), key_count);
  if (error != std::errc() || end != number.data() + number.size()) {
    return "ERR value is not an integer or out of range: numkeys says how many keys follow";
  }
  if (key_count > rest.size()) return "ERR Number of keys can't be greater than number of args";
  const Arguments keys = rest.first(key_count);
  const Arguments values = rest.subspan(key_count);
  count_ = 0;
  add("CL.THROTTLE");
  for (size_t i = 0; i < script.count; ++i) {
    const ThrottleScript::Part& part = script.parts[i];
    if (part.kind == Kind::kText) {
      add(part.text);
    } else if (part.kind == Kind::kAllArguments) {
      for (const std::string_view value : values) add(value);
    } else {
      const bool is_key = part.kind == Kind::kKey;
      const Arguments from = is_key ? keys : values;
      if (part.index == 0 || part.index > from.size()) {
        return std::string("ERR the script uses ") + (is_key ? "KEYS[" : "ARGV[") +
               std::to_string(part.index) + "], but there are " + std::to_string(from.size());
      }
      add(from[part.index - 1]);
    }
  }
  return {};
}

ScriptName name_of_script(std::string_view text) {
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  std::array<unsigned char, SHA_DIGEST_LENGTH> hash;
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  ScriptName name;
  for (size_t i = 0; i < hash.size(); ++i) {
    name[2 * i] = kHexDigits[hash[i] >> 4];
    name[2 * i + 1] = kHexDigits[hash[i] & 15];
  }
  return name;
}

const ScriptStore::Stored* ScriptStore::View::find(const ScriptStore& store,
                                                   std::string_view workspace,
                                                   std::string_view name) {
  ScriptName lower;
  if (name.size() != lower.size()) return nullptr;
  for (size_t i = 0; i < name.size(); ++i) {
    lower[i] = name[i] >= 'A' && name[i] <= 'F' ? static_cast<char>(name[i] + 32) : name[i];
  }
  // Relaxed: the scripts are read under the lock.
  if (store.version_.load(std::memory_order_relaxed) != version_) {
    const base::MutexLock lock(store.mutex_);
    workspaces_ = store.workspaces_;
    version_ = store.version_.load(std::memory_order_relaxed);
  }
  const auto owned = workspaces_->find(workspace);
  if (owned == workspaces_->end()) return nullptr;
  const auto found = owned->second.find(std::string_view(lower.data(), lower.size()));
  return found == owned->second.end() ? nullptr : found->second.get();
}

uint64_t ScriptStore::next_version() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool ScriptStore::add(std::string_view workspace, std::string_view name, std::string_view text) {
  auto stored = std::make_shared<Stored>(Stored{.text = std::string(text), .script = {}});
  stored->script = *read_script(stored->text);
  const base::MutexLock lock(mutex_);
  size_t in_all = 0;
  size_t own = 0;
  for (const auto& [id, scripts] : *workspaces_) {
    in_all += scripts.size();
    if (id != workspace) continue;
    if (scripts.contains(name)) return true;
    own = scripts.size();
  }
  if (own >= kMaxScripts || in_all >= kMaxScriptsInAll) return false;
  auto more = std::make_shared<Workspaces>(*workspaces_);
  (*more)[std::string(workspace)].emplace(name, std::move(stored));
  workspaces_ = std::move(more);
  version_.store(next_version(), std::memory_order_relaxed);
  return true;
}

void ScriptStore::clear() {
  const base::MutexLock lock(mutex_);
  workspaces_ = std::make_shared<const Workspaces>();
  version_.store(next_version(), std::memory_order_relaxed);
}

RespError read_eval(Arguments arguments, const ScriptOwner& owner, ScriptStore& store,
                    ScriptStore::View& view, ThrottleCall& call) {
  const bool by_name = is_word(arguments[0], "EVALSHA");
  if (arguments.size() < 3) return wrong_number_of_arguments(by_name ? "evalsha" : "eval");
  if (by_name) {
    const ScriptStore::Stored* const stored = view.find(store, owner.workspace, arguments[1]);
    if (stored == nullptr) return RespError(kUnknownScript);
    return call.fill(stored->script, arguments);
  }
  const auto script = read_script(arguments[1]);
  if (!script) return RespError(kOtherScript);
  // As in Redis, EVAL stores the script for EVALSHA. A full store does not fail EVAL. A key that
  // may not limit is refused later.
  const ScriptName name = name_of_script(arguments[1]);
  const std::string_view sha(name.data(), name.size());
  if (owner.may_add && view.find(store, owner.workspace, sha) == nullptr) {
    (void)store.add(owner.workspace, sha, arguments[1]);
  }
  return call.fill(*script, arguments);
}

RespError answer_script(Arguments arguments, const ScriptOwner& owner, ScriptStore& store,
                        ScriptStore::View& view, RespWriter& writer) {
  const auto is = [&](std::string_view name) {
    return arguments.size() > 1 && is_word(arguments[1], name);
  };
  if (is("LOAD") && arguments.size() == 3) {
    if (!read_script(arguments[2])) return RespError(kOtherScript);
    const ScriptName name = name_of_script(arguments[2]);
    const std::string_view sha(name.data(), name.size());
    if (!owner.may_add) {
      return "NOPERM the key lacks the permission " +
             catalog::permission_for(catalog::Verb::kLimit);
    }
    if (!store.add(owner.workspace, sha, arguments[2])) {
      return "ERR there are " + std::to_string(kMaxScripts) +
             " scripts, the maximum: remove them with SCRIPT FLUSH";
    }
    writer.bulk(sha);
  } else if (is("EXISTS") && arguments.size() > 2) {
    writer.array(arguments.size() - 2);
    for (const std::string_view name : arguments.subspan(2)) {
      writer.integer(view.find(store, owner.workspace, name) == nullptr ? 0 : 1);
    }
  } else if (is("FLUSH") && (arguments.size() == 2 ||
                             (arguments.size() == 3 &&
                              (is_word(arguments[2], "SYNC") || is_word(arguments[2], "ASYNC"))))) {
    store.clear();
    writer.simple("OK");
  } else {
    return "ERR unknown subcommand of SCRIPT: Weir supports LOAD script, EXISTS name ... and FLUSH";
  }
  return {};
}

}  // namespace weir::frontends
