// What a key may do.
//
//   ratelimit.<namespace id>.limit   one verb on one namespace
//   ratelimit.*.limit                on all namespaces of the workspace
//   ratelimit.*.*                    all verbs
//   key.*.create_key                 keys of the workspace
//   audit.*.read_audit               its audit log
//
// A text is stored as it was given; PermissionSet is the form that requests are checked against.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/error.h"

namespace weir::catalog {

enum class Verb : uint8_t {
  kLimit,
  kPeek,
  kReset,
  kCreateNamespace,
  kReadNamespace,
  kUpdateNamespace,
  kDeleteNamespace,
  kSetOverride,
  kReadOverride,
  kDeleteOverride,
  kCreateKey,
  kReadKey,
  kRevokeKey,
  kReadAudit,
  kCount,
};

// "set_override".
[[nodiscard]] std::string_view to_string(Verb verb);
[[nodiscard]] std::optional<Verb> verb_from(std::string_view name);
// The permission for a verb as a client would write it; `target` is a namespace id or empty: "*".
[[nodiscard]] std::string permission_for(Verb verb, std::string_view target = {});

inline constexpr size_t kMaxPermissions = 100;
inline constexpr size_t kMaxPermissionBytes = 128;

// Immutable after it was built.
class PermissionSet {
 public:
  PermissionSet() = default;

  // Everything, in any workspace.
  [[nodiscard]] static PermissionSet all();
  // The error names the text that is no permission.
  [[nodiscard]] static Result<PermissionSet> parse(std::span<const std::string> texts);

  [[nodiscard]] bool may(Verb verb) const { return (everywhere_ & bit(verb)) != 0; }
  [[nodiscard]] bool may(Verb verb, std::string_view namespace_id) const {
    return may(verb) || (!by_namespace_.empty() && (verbs_on(namespace_id) & bit(verb)) != 0);
  }
  // On any namespace, known or not.
  [[nodiscard]] bool may_somewhere(Verb verb) const;
  // Whether it has any right on the namespace. Others must not learn that it exists.
  [[nodiscard]] bool knows(std::string_view namespace_id) const;
  // Whether every right of `other` is one of these.
  [[nodiscard]] bool covers(const PermissionSet& other) const;
  [[nodiscard]] bool empty() const { return everywhere_ == 0 && by_namespace_.empty(); }

 private:
  using Verbs = uint32_t;
  [[nodiscard]] static constexpr Verbs bit(Verb verb) {
    return Verbs{1} << static_cast<unsigned>(verb);
  }
  [[nodiscard]] Verbs verbs_on(std::string_view namespace_id) const;
  void add(std::string_view namespace_id, Verbs verbs);

  Verbs everywhere_ = 0;
  std::vector<std::pair<std::string, Verbs>> by_namespace_;  // sorted
};

}  // namespace weir::catalog
