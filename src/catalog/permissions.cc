#include "catalog/permissions.h"

#include <algorithm>
#include <array>

namespace weir::catalog {
namespace {

constexpr std::string_view kRatelimit = "ratelimit";
constexpr std::string_view kKey = "key";
constexpr std::string_view kAudit = "audit";

struct VerbInfo {
  Verb verb;
  std::string_view name;
  std::string_view resource;
};

constexpr std::array<VerbInfo, static_cast<size_t>(Verb::kCount)> kVerbs{{
    {Verb::kLimit, "limit", kRatelimit},
    {Verb::kPeek, "peek", kRatelimit},
    {Verb::kReset, "reset", kRatelimit},
    {Verb::kCreateNamespace, "create_namespace", kRatelimit},
    {Verb::kReadNamespace, "read_namespace", kRatelimit},
    {Verb::kUpdateNamespace, "update_namespace", kRatelimit},
    {Verb::kDeleteNamespace, "delete_namespace", kRatelimit},
    {Verb::kSetOverride, "set_override", kRatelimit},
    {Verb::kReadOverride, "read_override", kRatelimit},
    {Verb::kDeleteOverride, "delete_override", kRatelimit},
    {Verb::kCreateKey, "create_key", kKey},
    {Verb::kReadKey, "read_key", kKey},
    {Verb::kRevokeKey, "revoke_key", kKey},
    {Verb::kReadAudit, "read_audit", kAudit},
}};

constexpr bool is_in_order() {
  for (size_t i = 0; i < kVerbs.size(); ++i) {
    if (static_cast<size_t>(kVerbs[i].verb) != i) return false;
  }
  return true;
}
static_assert(is_in_order(), "one row for each verb, in the order of the enum");

// An id contains nothing that a stored list of permissions could be split at.
bool is_namespace_id(std::string_view text) {
  constexpr std::string_view kPrefix = "rlns_";
  return text.starts_with(kPrefix) && text.size() > kPrefix.size() &&
         text.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz", kPrefix.size()) ==
             std::string_view::npos;
}

Error unknown(std::string_view text) {
  std::string verbs;
  for (const VerbInfo& row : kVerbs) {
    verbs +=
        (verbs.empty() ? "" : ", ") + std::string(row.resource) + ".*." + std::string(row.name);
  }
  return {.code = ErrorCode::kInvalidArgument,
          .field = "permissions",
          .detail = "permissions has \"" + std::string(text.substr(0, kMaxPermissionBytes)) +
                    "\", which is no permission",
          .fix = "use ratelimit.<namespace id>.<verb> or one of " + verbs};
}

}  // namespace

std::string_view to_string(Verb verb) {
  return kVerbs[static_cast<size_t>(verb)].name;
}

std::optional<Verb> verb_from(std::string_view name) {
  for (const VerbInfo& row : kVerbs) {
    if (row.name == name) return row.verb;
  }
  return std::nullopt;
}

std::string permission_for(Verb verb, std::string_view target) {
  const VerbInfo& row = kVerbs[static_cast<size_t>(verb)];
  return std::string(row.resource) + "." + std::string(target.empty() ? "*" : target) + "." +
         std::string(row.name);
}

PermissionSet PermissionSet::all() {
  PermissionSet set;
  set.everywhere_ = ~Verbs{0};
  return set;
}

Result<PermissionSet> PermissionSet::parse(std::span<const std::string> texts) {
  PermissionSet set;
  if (texts.size() > kMaxPermissions) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .field = "permissions",
                 .detail = "permissions has " + std::to_string(texts.size()) + " items",
                 .fix = "give at most " + std::to_string(kMaxPermissions)};
  }
  for (const std::string_view text : texts) {
    const size_t first = text.find('.');
    const size_t last = text.rfind('.');
    if (first == std::string_view::npos || first == last || text.size() > kMaxPermissionBytes) {
      return unknown(text);
    }
    const std::string_view resource = text.substr(0, first);
    const std::string_view target = text.substr(first + 1, last - first - 1);
    const std::string_view name = text.substr(last + 1);
    Verbs verbs = 0;
    for (const VerbInfo& row : kVerbs) {
      if (row.resource == resource && (name == "*" || row.name == name)) verbs |= bit(row.verb);
    }
    // A request of cost 0 is a peek.
    if ((verbs & bit(Verb::kLimit)) != 0) verbs |= bit(Verb::kPeek);
    const bool one_namespace = resource == kRatelimit && is_namespace_id(target);
    if (verbs == 0 || (target != "*" && !one_namespace)) return unknown(text);
    set.add(target == "*" ? std::string_view() : target, verbs);
  }
  return set;
}

bool PermissionSet::may_somewhere(Verb verb) const {
  return may(verb) || std::ranges::any_of(by_namespace_, [&](const auto& entry) {
           return (entry.second & bit(verb)) != 0;
         });
}

bool PermissionSet::knows(std::string_view namespace_id) const {
  constexpr Verbs kOfKeys =
      bit(Verb::kCreateKey) | bit(Verb::kReadKey) | bit(Verb::kRevokeKey) | bit(Verb::kReadAudit);
  return (everywhere_ & ~kOfKeys) != 0 || verbs_on(namespace_id) != 0;
}

bool PermissionSet::covers(const PermissionSet& other) const {
  if ((other.everywhere_ & ~everywhere_) != 0) return false;
  return std::ranges::all_of(other.by_namespace_, [&](const auto& entry) {
    return (entry.second & ~(everywhere_ | verbs_on(entry.first))) == 0;
  });
}

PermissionSet::Verbs PermissionSet::verbs_on(std::string_view namespace_id) const {
  const auto found =
      std::ranges::lower_bound(by_namespace_, namespace_id, {},
                               [](const auto& entry) -> std::string_view { return entry.first; });
  return found != by_namespace_.end() && found->first == namespace_id ? found->second : 0;
}

void PermissionSet::add(std::string_view namespace_id, Verbs verbs) {
  if (namespace_id.empty()) {
    everywhere_ |= verbs;
    return;
  }
  const auto found =
      std::ranges::lower_bound(by_namespace_, namespace_id, {},
                               [](const auto& entry) -> std::string_view { return entry.first; });
  if (found != by_namespace_.end() && found->first == namespace_id) {
    found->second |= verbs;
  } else {
    by_namespace_.emplace(found, namespace_id, verbs);
  }
}

}  // namespace weir::catalog
