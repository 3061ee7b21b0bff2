// Why a change of the catalog is refused. The HTTP API and the commands of `weir` ask the same.
//
// A limit that is accepted can be decided: every request that it applies to gets a verdict.

#pragma once

#include <optional>
#include <string_view>

#include "catalog/changes.h"
#include "catalog/records.h"
#include "catalog/snapshot.h"
#include "weir/error.h"

namespace weir::catalog {

// The errors name the field that is wrong. One without a field says that there is no place for
// more; it names what to remove.
[[nodiscard]] std::optional<Error> error_in_name(std::string_view field, std::string_view name);
[[nodiscard]] std::optional<Error> error_in(const LimitValues& values);
// `ns`: null if it will be created.
[[nodiscard]] std::optional<Error> error_in(const WorkspaceView& workspace, const NamespaceView* ns,
                                            const OverrideValues& values);

// Whether a workspace has a place for one more.
[[nodiscard]] std::optional<Error> refuse_namespace(const WorkspaceView& workspace);
[[nodiscard]] std::optional<Error> refuse_key(const Snapshot& snapshot, std::string_view workspace);

}  // namespace weir::catalog
