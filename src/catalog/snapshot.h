// What a process knows of the catalog at one moment, in the form in which requests look it up.
//
// A snapshot is immutable and shared. SnapshotBuilder applies changes and makes the next one; parts
// that did not change are shared between the two.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "catalog/catalog_row.h"
#include "catalog/changes.h"
#include "catalog/override_index.h"
#include "catalog/permissions.h"
#include "catalog/records.h"
#include "catalog/text_hash.h"

namespace weir::catalog {

// A map that is looked up by views.
template <typename Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

struct NamespaceView {
  Namespace record;
  LimitValues values;                              // of the record, else of the configuration
  std::shared_ptr<const OverrideIndex> overrides;  // null: none
  std::shared_ptr<const TextMap<Reset>> resets;    // by identifier; null: none
  // Overrides that were deleted lately, and until when something counts by their durations.
  std::shared_ptr<const OverrideIndex> ended;  // null: none
  WallTime ended_until{};
  // Whether requests are decided as they were sent: the namespace exists and has none of the above.
  bool is_plain = false;

  // What applied to an identifier so far, for set_override().
  [[nodiscard]] PriorOverride before_override(std::string_view identifier) const;
};

struct WorkspaceView {
  Workspace record;
  TextMap<std::shared_ptr<const NamespaceView>> by_name;
  TextMap<std::shared_ptr<const NamespaceView>> by_id;

  // By id or by name. Null: unknown. It may be deleted.
  [[nodiscard]] const NamespaceView* find(std::string_view name_or_id) const;
};

struct KeyView {
  Key record;
  PermissionSet permissions;
};

class Snapshot {
 public:
  // Null: unknown, or revoked. It may have expired.
  [[nodiscard]] const KeyView* find_key(const rules::KeyHash& hash) const;
  [[nodiscard]] const KeyView* find_key_by_id(std::string_view id) const;
  // Null: unknown or deleted. The default workspace always exists.
  [[nodiscard]] const WorkspaceView* find_workspace(std::string_view id) const;
  [[nodiscard]] const auto& keys() const { return keys_; }
  [[nodiscard]] const auto& workspaces() const { return workspaces_; }
  [[nodiscard]] uint64_t revision() const { return revision_; }

 private:
  friend class SnapshotBuilder;
  struct HashOfKey {
    [[nodiscard]] size_t operator()(const rules::KeyHash& hash) const;
  };

  uint64_t revision_ = 0;
  std::unordered_map<rules::KeyHash, std::shared_ptr<const KeyView>, HashOfKey> keys_;
  TextMap<std::shared_ptr<const WorkspaceView>> workspaces_;
};

// Namespaces of the default workspace with values from a file.
using ConfiguredNamespaces = std::map<std::string, LimitValues, std::less<>>;

// One thread at a time.
class SnapshotBuilder {
 public:
  SnapshotBuilder();

  // Rows may come again and in any order; of each id the newest revision counts.
  void apply(const CatalogRow& row);
  // `now`: the time of a change while requests are served; 1970: the first configuration.
  void configure(ConfiguredNamespaces configured, WallTime now = {});
  // The rows of earlier calls are forgotten.
  void clear();
  // Removes the resets that are kept until `now` or less, and what is known of deleted overrides
  // that no longer count. True: the next snapshot differs.
  bool forget_expired(WallTime now);
  // How many ids it remembers, for tests.
  [[nodiscard]] size_t known_ids() const { return revisions_.size(); }

  [[nodiscard]] std::shared_ptr<const Snapshot> build();

 private:
  struct NamespaceState {
    Namespace record;
    bool exists = false;  // as a record; otherwise only configured, or named by an override
    std::map<std::string, std::shared_ptr<const Override>> overrides;  // by id
    std::map<std::string, std::shared_ptr<const Override>> ended;      // deleted lately, by id
    std::map<std::string, Reset> resets;                               // by id
    bool overrides_changed = true;
    bool ended_changed = true;
    bool resets_changed = true;
  };
  void apply(const Workspace& workspace);
  void apply(const Key& key);
  void apply(const Namespace& ns);
  void apply(const Override& override);
  void apply(const Reset& reset);
  // Makes the view of a namespace again.
  void mark(const std::string& workspace, const std::string& namespace_id);
  [[nodiscard]] std::shared_ptr<const NamespaceView> view_of(NamespaceState& state,
                                                             const NamespaceView* before) const;
  // Removes those that do not count at `now`, and the oldest of too many. True: there were some.
  static bool drop_ended(NamespaceState& state, WallTime now);
  [[nodiscard]] LimitValues values_of(const Namespace& record) const;

  uint64_t revision_ = 0;
  std::unordered_map<std::string, uint64_t> revisions_;  // of the records, by id
  // Deleted overrides, by id, and when they were deleted.
  std::unordered_map<std::string, WallTime> deleted_;
  WallTime newest_{};  // the latest change of an override: a clock that needs no clock
  std::map<std::string, Workspace> workspaces_;
  std::map<std::string, std::shared_ptr<const KeyView>> keys_;  // by id
  // By workspace, then by id.
  std::map<std::string, std::map<std::string, NamespaceState>> namespaces_;
  ConfiguredNamespaces configured_;
  std::map<std::string, Namespace, std::less<>> file_changes_;  // only `since` and `past` are used
  std::set<std::pair<std::string, std::string>> changed_;       // workspace and id of namespaces
  bool keys_changed_ = true;
  std::set<std::string> workspaces_changed_;
  std::shared_ptr<const Snapshot> last_;
};

}  // namespace weir::catalog
