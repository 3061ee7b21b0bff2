#include "frontends/http/unknown_path.h"

namespace weir::frontends {

std::string unknown_path(std::string_view path) {
  constexpr std::string_view kPrefix = "/v2/";
  constexpr std::string_view kList = "; GET /openapi.json has all paths of Weir";
  constexpr size_t kMaxShown = 64;
  std::string text = "there is nothing at this path";
  if (path.starts_with(kPrefix)) {
    const std::string_view call = path.substr(kPrefix.size());
    text = "Weir has no call " + std::string(call.substr(0, kMaxShown));
    if (call.starts_with("keys.")) {
      text +=
          ": it limits rates and verifies no keys of others. Its own keys have keys.createKey, "
          "getKey, listKeys, rotateKey and revokeKey";
    } else if (!call.starts_with("ratelimit.")) {
      text += ": of the API of Unkey it has ratelimit.*";
    }
  }
  return text.append(kList);
}

bool is_upstash(std::string_view method, std::string_view path) {
  return method == "POST" && (path == "/" || path == "/pipeline" || path == "/multi-exec");
}

}  // namespace weir::frontends
