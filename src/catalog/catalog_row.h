// Records as rows of a store.
//
// Every kind of record has the same columns: what it is called, whom it belongs to, and its other
// fields as lines of text that an operator can read. The id of a namespace, an override and a reset
// is derived from what it names, so two processes that create the same one write the same row.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "catalog/records.h"
#include "weir/error.h"

namespace weir::catalog {

struct CatalogRow {
  char kind = 0;  // w workspace, k key, n namespace, o override, r reset
  std::string id = {};
  std::string workspace = {};
  std::string parent = {};  // the namespace of an override or a reset
  std::string name = {};    // or the identifier
  std::string body = {};
  bool deleted = false;
  uint64_t revision = 0;  // of the change that wrote it
  friend bool operator==(const CatalogRow&, const CatalogRow&) = default;
};

inline constexpr size_t kMaxBodyBytes = 16'000;

using Record = std::variant<Workspace, Key, Namespace, OverrideRecord, Reset>;

[[nodiscard]] CatalogRow row_of(const Record& record);
// None: the row is of another version or was damaged.
[[nodiscard]] std::optional<Record> record_of(const CatalogRow& row);

[[nodiscard]] std::string namespace_id(std::string_view workspace, std::string_view name);
[[nodiscard]] std::string override_id(std::string_view namespace_id, std::string_view identifier);
[[nodiscard]] std::string reset_id(std::string_view namespace_id, std::string_view identifier);
// "key_" and letters and digits, derived from the hash of the key.
[[nodiscard]] std::string key_id(const rules::KeyHash& hash);
[[nodiscard]] std::string workspace_id(uint64_t random);

}  // namespace weir::catalog
