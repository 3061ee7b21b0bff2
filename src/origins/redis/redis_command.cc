#include "origins/redis/redis_command.h"

#include <utility>

namespace weir::origins {

OriginError error_of_reply(std::string_view error) {
  constexpr std::pair<std::string_view, OriginError> kCodes[] = {
      {"READONLY", OriginError::kReadOnly},     {"LOADING", OriginError::kLoading},
      {"BUSY", OriginError::kLoading},          {"MASTERDOWN", OriginError::kLoading},
      {"OOM", OriginError::kOutOfMemory},       {"NOAUTH", OriginError::kRefused},
      {"WRONGPASS", OriginError::kRefused},     {"NOPERM", OriginError::kRefused},
      {"NOSCRIPT", OriginError::kNoScript},     {"WRONGTYPE", OriginError::kWrongType},
      {"MOVED", OriginError::kMoved},           {"ASK", OriginError::kMoved},
      {"CLUSTERDOWN", OriginError::kMoved},     {"TRYAGAIN", OriginError::kMoved},
      {"CROSSSLOT", OriginError::kMoved},       {"NOREPLICAS", OriginError::kWritesRefused},
      {"MISCONF", OriginError::kWritesRefused},
  };
  const std::string_view code = error.substr(0, error.find(' '));
  for (const auto& [name, meaning] : kCodes) {
    if (code == name) return meaning;
  }
  // Before Redis 7 the error of a command in a script follows the place in the script.
  const size_t place = error.find("@user_script");
  for (size_t at = place; at < error.size(); at = error.find_first_of(" -", at + 1)) {
    const std::string_view rest = error.substr(at + 1);
    for (const auto& [name, meaning] : kCodes) {
      if (rest.starts_with(name) && rest.substr(name.size()).starts_with(' ')) return meaning;
    }
  }
  // The reply for a script that calls a forbidden command has no code of its own.
  if (error.find("can't run this command") != std::string_view::npos) return OriginError::kRefused;
  return OriginError::kOther;
}

void append_command(std::string& out, std::span<const std::string_view> words) {
  out += '*';
  out += std::to_string(words.size());
  out += "\r\n";
  for (const std::string_view word : words) {
    out += '$';
    out += std::to_string(word.size());
    out += "\r\n";
    out += word;
    out += "\r\n";
  }
}

}  // namespace weir::origins
