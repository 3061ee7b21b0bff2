// The errors of the Redis protocol front end. A reply that begins with another code than ERR is
// made here; clients match these codes.

#pragma once

#include <string>
#include <string_view>

#include "catalog/permissions.h"
#include "frontends/resolve.h"
#include "weir/error.h"

namespace weir::frontends {

// The text of an error reply: a code in capitals, then a sentence. Empty: no error.
using RespError = std::string;

inline constexpr std::string_view kAuthRequired = "NOAUTH Authentication required.";
inline constexpr std::string_view kHelloAuthRequired =
    "NOAUTH HELLO must be called with AUTH: HELLO 3 AUTH default <root key>";
inline constexpr std::string_view kInvalidKey = "WRONGPASS invalid key";
inline constexpr std::string_view kKeyEnded =
    "WRONGPASS this key was revoked or replaced, or has expired: send AUTH with another one";
inline constexpr std::string_view kKeyUnchecked =
    "TRYAGAIN the catalog does not answer, so this key cannot be checked";
inline constexpr std::string_view kCatalogUnread =
    "TRYAGAIN the catalog was not read yet: send it again";
inline constexpr std::string_view kTooManyNamespaces =
    "ERR the namespace does not exist, and the workspace has as many as requests may create";
inline constexpr std::string_view kRootOnly = "NOPERM this command needs the root key";
inline constexpr std::string_view kKeyTooFast =
    "ERR this key has sent too many requests in this second: send fewer";
inline constexpr std::string_view kUnknownProtocol = "NOPROTO unsupported protocol version";
inline constexpr std::string_view kUnknownScript = "NOSCRIPT No matching script. Please use EVAL.";
inline constexpr std::string_view kOtherScript =
    "ERR Weir runs one kind of script: return redis.call('CL.THROTTLE', KEYS[1], ARGV[1], ARGV[2], "
    "ARGV[3])";
inline constexpr std::string_view kUnknownCommand = "ERR unknown command '";
inline constexpr std::string_view kTransactionAborted =
    "EXECABORT Transaction discarded because of previous errors.";

[[nodiscard]] inline RespError wrong_number_of_arguments(std::string_view command) {
  return "ERR wrong number of arguments for '" + std::string(command) + "' command";
}

[[nodiscard]] inline RespError protocol_error(std::string_view detail) {
  return "ERR Protocol error: " + std::string(detail);
}

// Why a request has no limit to be decided by; empty: it has one.
[[nodiscard]] RespError to_resp_error(const Resolved& resolved, catalog::Verb verb);

// Why a change of the catalog failed. Only the operator may learn where the database is.
enum class Detail : uint8_t { kShown, kHidden };
[[nodiscard]] inline RespError catalog_failed(const Error& error, Detail detail) {
  if (detail == Detail::kHidden) return "TRYAGAIN the catalog does not answer: send it again";
  return "TRYAGAIN " + error.detail + ": " + error.fix;
}

// An error of the limiter: the field, its value and the remedy.
[[nodiscard]] inline RespError to_resp_error(const Error& error) {
  return "ERR " + error.detail + ": " + error.fix;
}

}  // namespace weir::frontends
