#include "origins/redis/redis_address.h"

#include <charconv>

#include "base/percent.h"

namespace weir::origins {
namespace {

Error malformed() {
  return {.code = ErrorCode::kInvalidArgument,
          .retry = Retry::kPointless,
          .detail = "this is not the address of a Redis server",
          .fix = "use redis://[user:password@]host[:port][/database], like redis://127.0.0.1:6379"};
}

Error bad_percent(const char* field) {
  return {.code = ErrorCode::kInvalidArgument,
          .retry = Retry::kPointless,
          .field = field,
          .detail = "has a '%' without two hexadecimal digits behind it",
          .fix = "write %25 for a '%' itself"};
}

struct Range {
  int least = 0;
  int most = 0;
};

bool parse_number(std::string_view text, Range range, int& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && value >= range.least && value <= range.most;
}

}  // namespace

Result<RedisAddress> parse_redis_address(std::string_view text) {
  constexpr std::string_view kScheme = "redis://";
  if (!text.starts_with(kScheme)) return malformed();
  text.remove_prefix(kScheme.size());
  RedisAddress address;
  // A password may contain '@', a host may not: split at the last one.
  if (const size_t at = text.rfind('@'); at != std::string_view::npos) {
    const std::string_view credentials = text.substr(0, at);
    const size_t colon = credentials.find(':');
    if (colon == std::string_view::npos) return malformed();
    const auto user = base::percent_decoded(credentials.substr(0, colon));
    if (!user) return bad_percent("user");
    const auto password = base::percent_decoded(credentials.substr(colon + 1));
    if (!password) return bad_percent("password");
    address.user = *user;
    address.password = *password;
    text.remove_prefix(at + 1);
  }
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    const std::string_view database = text.substr(slash + 1);
    if (!database.empty() &&
        !parse_number(database, {.least = 0, .most = 1'000'000}, address.database)) {
      return malformed();
    }
    text = text.substr(0, slash);
  }
  if (const size_t colon = text.rfind(':');
      colon != std::string_view::npos && !text.ends_with(']')) {
    int port = 0;
    if (!parse_number(text.substr(colon + 1), {.least = 1, .most = 65535}, port)) {
      return malformed();
    }
    address.port = static_cast<uint16_t>(port);
    text = text.substr(0, colon);
  }
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  if (text.empty() || text.find_first_of(" /@") != std::string_view::npos) return malformed();
  address.host = text;
  return address;
}

std::string to_string(const RedisAddress& address) {
  const bool brackets = address.host.find(':') != std::string::npos;
  std::string text = brackets ? "redis://[" : "redis://";
  text += address.host;
  if (brackets) text += ']';
  return text + ":" + std::to_string(address.port) + "/" + std::to_string(address.database);
}

}  // namespace weir::origins
