// The changes that administrators make, as rows to write. The HTTP API and the commands of `weir`
// share them.
//
// Pure: who may make a change is decided by the caller.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog_store.h"
#include "catalog/records.h"
#include "weir/error.h"

namespace weir::catalog {

// Who makes a change, and when.
struct Author {
  std::string_view actor;  // as in AuditEntry
  WallTime now{};
};

[[nodiscard]] CatalogWrite create_workspace(const Author& author, std::string_view name,
                                            uint64_t random);
[[nodiscard]] CatalogWrite delete_workspace(const Author& author, const Workspace& workspace);

[[nodiscard]] Namespace new_namespace(std::string_view workspace, std::string_view name,
                                      WallTime now);
// The same for one that was deleted: it keeps the durations by which its requests were counted.
[[nodiscard]] Namespace new_namespace(const Namespace& deleted, WallTime now);
// Replaces the values. `applied`: the duration that applied so far, of the record or a file.
void replace_values(Namespace& ns, const std::optional<Millis>& applied, const LimitValues& values,
                    WallTime now);
// Creates the namespace or replaces its values.
[[nodiscard]] CatalogWrite set_namespace(const Author& author, const Namespace& ns,
                                         std::string_view action);
[[nodiscard]] CatalogWrite delete_namespace(const Author& author, const Namespace& ns);

struct OverrideValues {
  std::string_view identifier;
  Count limit = 0;
  Millis duration{};
  std::optional<Count> burst{};
};
// What applied before an override is set.
struct PriorOverride {
  const Override* same = nullptr;    // of this very identifier; it may be deleted
  const Override* weaker = nullptr;  // that matches it
};
[[nodiscard]] CatalogWrite set_override(const Author& author, const Namespace& ns,
                                        const OverrideValues& values,
                                        const PriorOverride& prior = {});
[[nodiscard]] CatalogWrite delete_override(const Author& author, const Namespace& ns,
                                           const Override& override);

// `random`: bits that no client can guess.
[[nodiscard]] CatalogWrite reset_identifier(const Author& author, const Namespace& ns,
                                            std::string_view identifier, uint64_t random);

// A key and the only copy of its text.
struct NewKey {
  Key key;
  std::string secret;
  CatalogWrite write;
};
struct KeyValues {
  std::string_view workspace;
  std::string_view name;
  std::vector<std::string> permissions = {};
  std::optional<WallTime> expires{};
  std::optional<Count> per_second{};
};
// What a key may have at most: no more than the key that makes it.
struct KeyBounds {
  std::optional<WallTime> expires{};
  std::optional<Count> per_second{};
};
void apply_bounds(KeyValues& values, const KeyBounds& bounds);
using KeyBits = std::array<uint64_t, 3>;  // random
[[nodiscard]] NewKey create_key(const Author& author, const KeyValues& values, const KeyBits& bits);
[[nodiscard]] CatalogWrite revoke_key(const Author& author, const Key& key);

// A new key with the same rights, within the bounds. The old one ends after `grace`. Both are
// written together; that fails if the old one was changed or revoked meanwhile.
struct Rotation {
  NewKey fresh;
  CatalogWrite old;
};
[[nodiscard]] Rotation rotate_key(const Author& author, const Key& key, Millis grace,
                                  const KeyBits& bits, const KeyBounds& bounds = {});
// Such a key has no rights left to give to another one.
[[nodiscard]] inline bool is_expired(const Key& key, WallTime now) {
  return key.expires && *key.expires <= now;
}

}  // namespace weir::catalog
