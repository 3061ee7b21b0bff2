// The records of the catalog: workspaces, keys, namespaces with their default limits, overrides,
// resets, and the entries of the audit log.
//
// A record that was deleted stays for a while, so that every process learns of it.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rules/root_keys.h"
#include "weir/request.h"
#include "weir/time.h"

namespace weir::catalog {

// The workspace of the root key. It has no record, and its tuples have an empty workspace.
inline constexpr std::string_view kDefaultWorkspace = "ws_default";
// The workspace of a tuple.
[[nodiscard]] inline std::string_view tuple_workspace(std::string_view workspace_id) {
  return workspace_id == kDefaultWorkspace ? std::string_view() : workspace_id;
}

// How the ids of namespaces begin; names must not.
inline constexpr std::string_view kNamespaceIds = "rlns_";
// Requests and calls create no more than this in a workspace. Deleted ones count: they are kept.
inline constexpr size_t kMaxNamespaces = 10'000;
// Calls create no more than these. Servers that write at the same time may exceed them a little.
inline constexpr size_t kMaxKeys = 10'000;  // that were not revoked
inline constexpr size_t kMaxOverrides = 1'000'000;

struct Workspace {
  std::string id = {};
  std::string name = {};
  bool deleted = false;
  friend bool operator==(const Workspace&, const Workspace&) = default;
};

struct Key {
  std::string id = {};
  std::string workspace = {};  // its id, as in all records
  std::string name = {};
  rules::KeyHash hash{};
  std::string start = {};  // the first characters, to recognize it
  std::vector<std::string> permissions = {};
  WallTime created{};
  std::optional<WallTime> expires{};
  std::optional<Count> per_second{};  // requests to the service with this key; none: no limit
  bool revoked = false;
  friend bool operator==(const Key&, const Key&) = default;
};

// What replaces the values of a request; a field that is not set leaves the value of the request.
struct LimitValues {
  std::optional<Count> limit{};
  std::optional<Millis> duration{};
  std::optional<Algorithm> algorithm{};
  std::optional<Count> burst{};
  std::optional<Consistency> consistency{};
  [[nodiscard]] bool empty() const { return *this == LimitValues{}; }
  friend bool operator==(const LimitValues&, const LimitValues&) = default;
};

// A duration that was in force until that time. What was counted by it may still count.
struct PastDuration {
  Millis duration{};
  WallTime until{};
  friend bool operator==(const PastDuration&, const PastDuration&) = default;
};
// A record keeps the latest of them.
inline constexpr size_t kMostPast = 6;
// By this time after the end of `counts_for`, nothing of a past duration counts: in two windows, on
// servers whose clocks differ or that learned of the change late.
inline constexpr Millis kPastSlack{15'000};
[[nodiscard]] inline WallTime counts_until(WallTime changed, Millis counts_for) {
  return changed + 2 * counts_for + kPastSlack;
}

// For how long a cost counts, at most: a backlog that a burst allows drains by the limit.
[[nodiscard]] inline Millis counts_for(Millis duration, Count limit, std::optional<Count> burst) {
  if (limit == 0 || burst.value_or(limit) <= limit) return duration;
  const auto times = static_cast<int64_t>(std::min<Count>(*burst / limit + 1, 1 << 20));
  return std::min(kMaxDuration, times * duration);
}

struct Namespace {
  std::string id = {};
  std::string workspace = {};
  std::string name = {};
  LimitValues values = {};
  WallTime created{};
  bool deleted = false;
  WallTime since{};  // when its duration was set or removed; 1970: unknown
  std::vector<PastDuration> past = {};
  friend bool operator==(const Namespace&, const Namespace&) = default;
};

// The id of an override, without an allocation: a catalog has many of them.
class OverrideId {
 public:
  static constexpr size_t kMaxBytes = 30;
  OverrideId() = default;
  // Of a longer text it has the first bytes.
  OverrideId(std::string_view text)  // NOLINT(google-explicit-constructor): it is a text
      : size_(static_cast<uint8_t>(std::min(text.size(), kMaxBytes))) {
    std::memcpy(bytes_.data(), text.data(), size_);
  }
  OverrideId(const std::string& text)  // NOLINT(google-explicit-constructor)
      : OverrideId(std::string_view(text)) {}
  [[nodiscard]] std::string_view text() const { return {bytes_.data(), size_}; }
  operator std::string_view() const { return text(); }  // NOLINT(google-explicit-constructor)
  friend bool operator==(const OverrideId&, const OverrideId&) = default;

 private:
  std::array<char, kMaxBytes> bytes_{};
  uint8_t size_ = 0;
};

// First what a request needs, in one cache line, and the rest in the next one.
struct alignas(64) Override {
  std::string identifier = {};  // '*' matches any bytes, also none
  Count limit = 0;              // 0: denies everything
  Millis duration{};
  std::optional<Count> burst{};
  OverrideId id = {};
  bool deleted = false;
  WallTime since{};  // when its duration was set, or when it was deleted; 1970: unknown
  std::vector<PastDuration> past = {};
  friend bool operator==(const Override&, const Override&) = default;
};
static_assert(sizeof(Override) == 128);

// An override and where it applies, which all overrides of a namespace have in common.
struct OverrideRecord {
  std::string workspace = {};
  std::string namespace_id = {};
  Override values = {};
  friend bool operator==(const OverrideRecord&, const OverrideRecord&) = default;
};

// How long a reset is kept: the longest window, twice, and a day.
inline constexpr Millis kResetKept = 2 * kMaxDuration + Millis(86'400'000);

// Of a namespace. Servers that write at the same time may exceed it a little.
inline constexpr size_t kMaxResets = 100'000;
// Of shared counts in one command.
inline constexpr size_t kMaxResetsAtOnce = 100;

// Forgets what an identifier has consumed: its tuples have another identity from then on.
struct Reset {
  std::string id = {};
  std::string workspace = {};
  std::string namespace_id = {};
  std::string identifier = {};
  uint64_t epoch = 0;
  WallTime kept_until{};  // its last tuple has expired by then
  friend bool operator==(const Reset&, const Reset&) = default;
};

// Where a page of the audit log begins: at the entry before this one.
struct AuditPosition {
  uint64_t revision = uint64_t{1} << 62;  // before the newest
  uint64_t position = 0;
};

// What an administrator did.
struct AuditEntry {
  uint64_t revision = 0;
  uint64_t position = 0;  // grows with the entries of a revision
  WallTime at{};
  std::string workspace = {};
  std::string actor = {};   // the id of a key, "root" or "cli"
  std::string action = {};  // "override.set"
  std::string target = {};  // the id of the record
  std::string detail = {};  // in words, without secrets
  friend bool operator==(const AuditEntry&, const AuditEntry&) = default;
};

}  // namespace weir::catalog
