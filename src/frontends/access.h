// Who a client is: the workspace and the rights of its key.
//
// A session keeps the hash of its key, and looks the rest up again when the catalog or the root key
// has changed. So a key that is revoked, replaced or expires ends for open connections, too.
//
// One thread at a time: each loop has a reader, each session an access.

#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "catalog/catalog.h"
#include "catalog/permissions.h"
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
                                 WallTime now);

  // The time of the last refresh().
  [[nodiscard]] WallTime now() const { return now_; }
  [[nodiscard]] bool is_root() const { return !hash_ || roots_ != nullptr; }
  [[nodiscard]] const catalog::WorkspaceView& workspace() const { return *workspace_; }
  [[nodiscard]] const catalog::PermissionSet& permissions() const { return *permissions_; }
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

 private:
  std::optional<rules::KeyHash> hash_;
  WallTime now_{};
  const rules::RootKeys* roots_ = nullptr;  // which had the key; null: it is no root key
  const void* roots_version_ = nullptr;     // when they had it
  uint64_t version_ = 0;
  // Of the snapshot with this version.
  const catalog::KeyView* key_ = nullptr;
  const catalog::WorkspaceView* workspace_ = nullptr;
  const catalog::PermissionSet* permissions_ = nullptr;
};

}  // namespace weir::frontends
