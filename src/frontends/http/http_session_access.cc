#include "frontends/http/http_session.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

namespace weir::frontends {
namespace {

using telemetry::FrontendStat;

// Compares without case; `prefix` is in lower case.
bool starts_with_ignoring_case(std::string_view text, std::string_view prefix) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(prefix.begin(), prefix.end(), text.begin(),
                    [&](char a, char b) { return a == lower(b); });
}

}  // namespace

// A connection that has sent a valid key compares the next one instead of hashing it.
bool HttpSession::authenticate(const HttpHead& head) {
  constexpr std::string_view kScheme = "bearer ";
  if (!head.authorization) {
    refuse_key(FrontendStat::kMissingKey, HttpError::kMissingKey,
               "the Authorization header is missing: send Authorization: Bearer <root key>");
    return false;
  }
  const std::string_view given = *head.authorization;
  const bool known = !accepted_.empty() && rules::same_secret(given, accepted_);
  const bool bearer =
      known || (given.size() > kScheme.size() && given.size() <= rules::kMaxKeyBytes &&
                starts_with_ignoring_case(given, kScheme));
  if (!bearer) {
    refuse_key(FrontendStat::kMalformedKey, HttpError::kMalformedKey,
               "the Authorization header is malformed: send Authorization: Bearer <root key>");
    return false;
  }
  if (!known) {
    accepted_.clear();
    access_.become(rules::hash_of(given.substr(kScheme.size())), service_.keys);
  }
  switch (access_.refresh(service_.catalog, scratch_.catalog, now_.wall)) {
    case KeyState::kValid: break;
    case KeyState::kUnknown: refuse_wrong_key(); return false;
    case KeyState::kNoAnswer:
      fail(HttpError::kUnavailable,
           "the catalog does not answer, so this key cannot be checked: send the request again");
      scratch_.fields.append("Retry-After: 1\r\n");
      return false;
  }
  if (!known) {
    accepted_ = given;
    client_ = access_.client();
    set_buffers(Buffers::kFull);
  }
  return true;
}

void HttpSession::refuse_wrong_key() {
  accepted_.clear();
  refuse_key(FrontendStat::kWrongKey, HttpError::kWrongKey, "this key is not valid");
  scratch_.fields.append("WWW-Authenticate: Bearer\r\n");
  delayed_ = scratch_.wrong_keys.delays(peer_, *access_.hash(), now_.mono);
}

// Counted by this process alone: the limit protects the process.
bool HttpSession::is_within_rate() {
  const std::optional<Count> per_second = access_.per_second();
  if (!per_second) [[likely]]
    return true;
  const std::array<Request, 1> request{requests_of_key(access_)};
  service_.backend.check_each(now_, request, scratch_.verdict);
  if (!scratch_.verdict[0] || scratch_.verdict[0]->admitted()) return true;
  fail(HttpError::kTooManyRequests,
       "this key may send " + std::to_string(*per_second) + " requests per second to this server");
  scratch_.fields.append("Retry-After: 1\r\n");
  return false;
}

void HttpSession::refuse_key(FrontendStat stat, HttpError error, std::string_view detail) {
  fail(error, detail);
  service_.http.add_from(stat, peer_);
}

}  // namespace weir::frontends
