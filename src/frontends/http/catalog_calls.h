// The calls of catalog_api.h by what they concern.

#pragma once

#include <span>

#include "frontends/http/catalog_api.h"

namespace weir::frontends {

[[nodiscard]] std::span<const CatalogOperation> override_calls();
[[nodiscard]] std::span<const CatalogOperation> namespace_calls();
[[nodiscard]] std::span<const CatalogOperation> key_calls();
[[nodiscard]] std::span<const CatalogOperation> workspace_calls();
[[nodiscard]] std::span<const CatalogOperation> audit_calls();

}  // namespace weir::frontends
