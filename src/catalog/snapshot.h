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
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

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
  size_t override_count = 0;  // in all namespaces

  // By id or by name. Null: unknown. It may be deleted.
  [[nodiscard]] const NamespaceView* find(std::string_view name_or_id) const;
};

struct KeyView {
  Key record;
  PermissionSet permissions;
};

// All keys that were not revoked. Snapshots between two changes of keys share it.
class KeyTable {
 public:
  [[nodiscard]] const KeyView* find(const rules::KeyHash& hash) const;
  [[nodiscard]] const KeyView* find_by_id(std::string_view id) const;
  // Sorted by id.
  [[nodiscard]] std::span<const KeyView* const> of(std::string_view workspace) const;
  void add(const std::shared_ptr<const KeyView>& key);

 private:
  struct HashOfKey {
    [[nodiscard]] size_t operator()(const rules::KeyHash& hash) const;
  };

  TextMap<std::shared_ptr<const KeyView>> by_id_;
  std::unordered_map<rules::KeyHash, const KeyView*, HashOfKey> by_hash_;
  TextMap<std::vector<const KeyView*>> by_workspace_;
};

class Snapshot {
 public:
  // Null: unknown, or revoked. It may have expired.
  [[nodiscard]] const KeyView* find_key(const rules::KeyHash& hash) const {
    return keys_->find(hash);
  }
  [[nodiscard]] const KeyView* find_key_by_id(std::string_view id) const {
    return keys_->find_by_id(id);
  }
  // Sorted by id.
  [[nodiscard]] std::span<const KeyView* const> keys_of(std::string_view workspace) const {
    return keys_->of(workspace);
  }
  // Null: unknown or deleted. The default workspace always exists.
  [[nodiscard]] const WorkspaceView* find_workspace(std::string_view id) const;
  [[nodiscard]] const auto& workspaces() const { return workspaces_; }
  [[nodiscard]] uint64_t revision() const { return revision_; }

 private:
  friend class SnapshotBuilder;

  uint64_t revision_ = 0;
  std::shared_ptr<const KeyTable> keys_ = std::make_shared<KeyTable>();
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
  // The namespaces of configure(), for a builder that reads all rows again.
  void take_configuration(SnapshotBuilder& other);
  // Removes the resets that are kept until `now` or less, and what is known of deleted overrides
  // that no longer count. True: the next snapshot differs.
  bool forget_expired(WallTime now);
  // How many ids it remembers, for tests.
  [[nodiscard]] size_t known_ids() const {
    return revisions_.size() + deleted_.size() + override_count_;
  }

  [[nodiscard]] std::shared_ptr<const Snapshot> build();

 private:
  struct KnownOverride {
    std::shared_ptr<const Override> values;
    uint64_t revision = 0;
  };
  // A set, because the values have the id: a catalog may have a million overrides.
  struct ById {
    using is_transparent = void;
    [[nodiscard]] static std::string_view id_of(const KnownOverride& each) {
      return each.values->id;
    }
    [[nodiscard]] static std::string_view id_of(std::string_view id) { return id; }
    template <typename A, typename B>
    [[nodiscard]] bool operator()(const A& a, const B& b) const {
      return id_of(a) < id_of(b);
    }
  };
  using Overrides = std::set<KnownOverride, ById>;
  struct NamespaceState {
    Namespace record;
    bool exists = false;  // as a record; otherwise only configured, or named by an override
    Overrides overrides;
    Overrides ended;                      // deleted lately
    std::map<std::string, Reset> resets;  // by id
    bool overrides_changed = true;
    bool ended_changed = true;
    bool resets_changed = true;
  };
  void apply(const Workspace& workspace);
  void apply(const Key& key);
  void apply(const Namespace& ns);
  void apply(const Reset& reset);
  // Ignores a row that is older than what it knows of the override.
  void apply(OverrideRecord&& record, uint64_t revision);
  // Makes the view of a namespace again.
  void mark(const std::string& workspace, const std::string& namespace_id);
  [[nodiscard]] std::shared_ptr<const NamespaceView> view_of(NamespaceState& state,
                                                             const NamespaceView* before) const;
  // Removes those that do not count at `now`, and the oldest of too many. True: there were some.
  static bool drop_ended(NamespaceState& state, WallTime now);
  [[nodiscard]] LimitValues values_of(const Namespace& record) const;

  uint64_t revision_ = 0;
  std::unordered_map<std::string, uint64_t> revisions_;  // of all but overrides, by id
  struct Deletion {
    WallTime at{};
    uint64_t revision = 0;
  };
  TextMap<Deletion> deleted_;  // overrides, by id
  TextMap<WallTime> revoked_;  // keys, by id, and since when it is known
  size_t override_count_ = 0;
  WallTime newest_{};  // the latest change of an override: a clock that needs no clock
  std::map<std::string, Workspace> workspaces_;
  std::map<std::string, std::shared_ptr<const KeyView>> keys_;  // by id
  // By workspace, then by id.
  std::map<std::string, std::map<std::string, NamespaceState>> namespaces_;
  ConfiguredNamespaces configured_;
  std::map<std::string, Namespace, std::less<>> file_changes_;  // only `since` and `past` are used
  std::set<std::pair<std::string, std::string>> changed_;       // workspace and id of namespaces
  const NamespaceState* last_marked_ = nullptr;                 // since the last build
  bool keys_changed_ = true;
  std::set<std::string> workspaces_changed_;
  std::shared_ptr<const Snapshot> last_;
};

}  // namespace weir::catalog
