// Who a client is: the workspace and the rights of its key.
//
// A session keeps the hash of its key, and looks the rest up again when the catalog or the root key
// has changed. So a key that is revoked, replaced or expires ends for open connections, too.
//
// One thread at a time: each loop has a reader, each session an access.

#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "catalog/catalog.h"
#include "catalog/permissions.h"
#include "frontends/session.h"
#include "rules/root_keys.h"
#include "weir/time.h"

namespace weir::frontends {

// The newest snapshot that a loop has seen. What it returns is valid until the next call.
class CatalogReader {
 public:
  [[nodiscard]] const catalog::Snapshot& read(const catalog::Catalog& catalog) {
    const uint64_t version = catalog.version();
    if (version != version_) [[unlikely]] {
      snapshot_ = catalog.snapshot();
      version_ = version;
    }
    return *snapshot_;
  }
  [[nodiscard]] uint64_t version() const { return version_; }
  // Keeps what was returned last.
  [[nodiscard]] std::shared_ptr<const catalog::Snapshot> pin() const { return snapshot_; }

 private:
  std::shared_ptr<const catalog::Snapshot> snapshot_;
  uint64_t version_ = 0;
};

enum class KeyState : uint8_t {
  kValid,
  kUnknown,   // or revoked, or expired
  kNoAnswer,  // the catalog does not answer, and the key is not known
};

class Access {
 public:
  // A client that needs no key: all rights in the default workspace.
  void become_root() { *this = Access(); }
  // A client with this key: a root key if it is one of `roots`, which must outlive this.
  void become(const rules::KeyHash& hash, const rules::RootKeys& roots) {
    *this = Access();
    hash_ = hash;
    roots_version_ = roots.version();
    if (roots.contains(hash)) roots_ = &roots;
  }

  // Before each use of the rest. An access that is not valid has no rights.
  [[nodiscard]] KeyState refresh(const catalog::Catalog& catalog, CatalogReader& reader,
                                 WallTime now) {
    now_ = now;
    const uint64_t version = catalog.version();
    if (version == version_ && version == reader.version() && is_steady()) [[likely]]
      return KeyState::kValid;
    return look_up(catalog, reader);
  }

  // Of the key that it became last; none: it needs no key.
  [[nodiscard]] const std::optional<rules::KeyHash>& hash() const { return hash_; }
  // The time of the last refresh().
  [[nodiscard]] WallTime now() const { return now_; }
  [[nodiscard]] bool is_root() const { return !hash_ || roots_ != nullptr; }
  [[nodiscard]] const catalog::WorkspaceView& workspace() const { return *workspace_; }
  // Of the tuples.
  [[nodiscard]] std::string_view tuple_workspace() const { return tuple_workspace_; }
  [[nodiscard]] const catalog::PermissionSet& permissions() const { return *permissions_; }
  [[nodiscard]] Client client() const;
  // For the audit log: the id of the key, or "root".
  [[nodiscard]] std::string_view actor() const {
    return key_ == nullptr ? std::string_view("root") : std::string_view(key_->record.id);
  }
  [[nodiscard]] std::optional<WallTime> expires() const {
    return key_ == nullptr ? std::nullopt : key_->record.expires;
  }
  // Requests per second to the service with this key; none: no limit.
  [[nodiscard]] std::optional<Count> per_second() const {
    return key_ == nullptr ? std::nullopt : key_->record.per_second;
  }

  // The namespace of the last request: the next one most likely names the same.
  void remember(std::string_view name, const catalog::NamespaceView* ns) {
    if (name.size() > last_name_.size()) return;
    std::memcpy(last_name_.data(), name.data(), name.size());
    last_bytes_ = name.size();
    last_ns_ = ns;
    last_is_plain_ = ns == nullptr || ns->is_plain;
  }
  // Whether it was this one.
  [[nodiscard]] bool is_last(std::string_view name) const {
    return name.size() == last_bytes_ &&
           std::memcmp(name.data(), last_name_.data(), last_bytes_) == 0;
  }
  // Null: the catalog has no store, and the snapshot no namespace of this name.
  [[nodiscard]] const catalog::NamespaceView* last() const { return last_ns_; }
  // Whether it leaves requests as they were sent.
  [[nodiscard]] bool last_is_plain() const { return last_is_plain_; }

 private:
  // Whether a key that was valid with this snapshot still is.
  [[nodiscard]] bool is_steady() const {
    if (!hash_) return true;
    if (roots_ != nullptr) return roots_->version() == roots_version_;
    return key_ != nullptr && workspace_ != nullptr && !key_->record.expires;
  }
  [[nodiscard]] KeyState look_up(const catalog::Catalog& catalog, CatalogReader& reader);

  std::optional<rules::KeyHash> hash_;
  WallTime now_{};
  const rules::RootKeys* roots_ = nullptr;  // which had the key; null: it is no root key
  const void* roots_version_ = nullptr;     // when they had it
  uint64_t version_ = 0;
  // Of the snapshot with this version.
  const catalog::KeyView* key_ = nullptr;
  const catalog::WorkspaceView* workspace_ = nullptr;
  const catalog::PermissionSet* permissions_ = nullptr;
  std::string_view tuple_workspace_{};
  const catalog::NamespaceView* last_ns_ = nullptr;
  size_t last_bytes_ = SIZE_MAX;  // no name has so many
  std::array<char, 32> last_name_{};
  bool last_is_plain_ = false;
};

}  // namespace weir::frontends
