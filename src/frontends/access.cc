#include "frontends/access.h"

#include <functional>

namespace weir::frontends {

Client Access::client() const {
  if (is_root()) return {.trust = Trust::kRoot};
  const std::hash<std::string_view> number_of;
  return {.trust = Trust::kAuthenticated,
          .key = number_of(key_->record.id),
          .workspace = number_of(key_->record.workspace)};
}

KeyState Access::look_up(const catalog::Catalog& catalog, CatalogReader& reader) {
  static const catalog::PermissionSet all = catalog::PermissionSet::all();
  static const catalog::PermissionSet none;
  const catalog::Snapshot& snapshot = reader.read(catalog);
  if (version_ != reader.version()) [[unlikely]] {
    version_ = reader.version();
    key_ = is_root() ? nullptr : snapshot.find_key(*hash_);
    workspace_ = snapshot.find_workspace(
        key_ == nullptr ? catalog::kDefaultWorkspace : std::string_view(key_->record.workspace));
    permissions_ = is_root() ? &all : key_ != nullptr ? &key_->permissions : &none;
    tuple_workspace_ = workspace_ == nullptr ? std::string_view()
                                             : catalog::tuple_workspace(workspace_->record.id);
    last_bytes_ = SIZE_MAX;
  }
  const auto refused = [&](KeyState state) {
    permissions_ = &none;
    version_ = 0;  // the next call looks the rights up again: the key may be valid then
    return state;
  };
  if (!hash_) return KeyState::kValid;
  if (roots_ != nullptr) {
    if (roots_->version() == roots_version_) [[likely]]
      return KeyState::kValid;
    if (!roots_->contains(*hash_)) return refused(KeyState::kUnknown);
    roots_version_ = roots_->version();
    return KeyState::kValid;
  }
  if (key_ != nullptr && workspace_ != nullptr) {
    const bool expired = key_->record.expires && *key_->record.expires <= now_;
    return expired ? refused(KeyState::kUnknown) : KeyState::kValid;
  }
  const catalog::CatalogState state = catalog.state();
  const bool complete =
      state == catalog::CatalogState::kReady || state == catalog::CatalogState::kNone;
  return refused(complete ? KeyState::kUnknown : KeyState::kNoAnswer);
}

}  // namespace weir::frontends
