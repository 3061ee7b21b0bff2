// Turns what a client sent into the request that is decided: its workspace, and the limit that
// applies. In this order: the override of the identifier, the values of the namespace, the values
// of the request. If its duration was changed lately, the request names those that it had before.

#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "base/inline.h"
#include "catalog/catalog.h"
#include "frontends/access.h"
#include "weir/request.h"
#include "weir/verdict.h"

namespace weir::frontends {

enum class Resolution : uint8_t {
  kReady,
  kForbidden,  // the key has rights on the namespace, but not this one
  kUnknown,    // there is no such namespace, and the key may not create it
  kUnknownId,  // there is no namespace with this id
  kNoRight,    // the key has the right on no namespace, and must not learn whether this one exists
  kGone,       // the namespace was deleted
  kNoLimit,    // neither the request nor the namespace has a limit and a duration
};

// Of Resolution::kUnknown.
inline constexpr std::string_view kNamespaceRemedy =
    "run weir namespaces set, or give the key this permission, too";

struct Resolved {
  Resolution resolution = Resolution::kReady;
  const catalog::NamespaceView* ns = nullptr;   // null: not in the catalog
  const catalog::Override* override = nullptr;  // null: none applies
  bool denies_all = false;                      // the limit is 0: the request can never be admitted
};

// What requests point to besides the snapshot. Emptied by the caller.
struct Identifiers {
  std::deque<std::string> after_reset;  // with the number of a reset
  std::deque<PastDurations> past;

  void clear() {
    if (!after_reset.empty()) after_reset.clear();
    if (!past.empty()) past.clear();
  }
};

// resolve() of a request that may have an override, other values, or no rights.
[[nodiscard]] Resolved resolve_any(Access& access, catalog::Verb verb, catalog::Catalog& catalog,
                                   Request& request, Identifiers& identifiers);

// `access` is valid. The request points into the snapshot of `access` and into `identifiers`.
[[nodiscard]] WEIR_HOT_INLINE Resolved resolve(Access& access, catalog::Verb verb,
                                               catalog::Catalog& catalog, Request& request,
                                               Identifiers& identifiers) {
  const bool is_plain = access.is_last(request.ns) && access.last_is_plain() &&
                        access.permissions().may(verb) && request.limit != 0 &&
                        request.duration != Millis(0);
  if (!is_plain) [[unlikely]]
    return resolve_any(access, verb, catalog, request, identifiers);
  request.workspace = access.tuple_workspace();
  request.past = nullptr;
  Resolved resolved;
  resolved.ns = access.last();
  return resolved;
}

// Why a request got kUnknown, kUnknownId or kNoRight, behind "the namespace does not exist, ".
[[nodiscard]] std::string why_unknown(Resolution resolution, catalog::Verb verb);

// The verdict on a request with a limit of 0, which was decided with another one.
void set_limit_of_zero(Verdict& verdict);

// A request that counts those of a key to this server; the key has a limit.
[[nodiscard]] Request requests_of_key(const Access& access);

// Identifiers that are reset may have this many bytes: a number is added to them.
inline constexpr size_t kMaxResetBytes = kMaxNameBytes - 48;

// The identity of an identifier that was reset. Nobody can guess it, since the epoch is random.
[[nodiscard]] std::string identifier_after(std::string_view identifier, uint64_t epoch);

}  // namespace weir::frontends
