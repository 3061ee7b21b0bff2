// WEIR.RESET resets the count of a tuple; DEL and UNLINK reset keys of CL.THROTTLE.
//
// A count of this process alone is removed. A count that other processes have, too, is reset
// through the catalog: its identifier gets another identity on all of them (resolve.h).

#pragma once

#include <span>
#include <vector>

#include "catalog/catalog_store.h"
#include "catalog/changes.h"
#include "frontends/access.h"
#include "frontends/resp/limit_commands.h"
#include "frontends/service.h"

namespace weir::frontends {

struct ResetTarget {
  Request request = {};
  std::string_view identifier = {};            // as it was sent
  const catalog::NamespaceView* ns = nullptr;  // null: not in the catalog
};

// WEIR.RESET namespace identifier duration_ms [ALGORITHM name]
[[nodiscard]] RespError read_reset(Arguments arguments, std::vector<ResetTarget>& targets);
// DEL key ..., UNLINK key ... The targets point into `hashed`.
[[nodiscard]] RespError read_del(Arguments arguments, std::vector<ResetTarget>& targets,
                                 std::vector<HashedKey>& hashed);

struct ResetOutcome {
  RespError error = {};
  int64_t count = 0;  // counts of this process that there were, and shared ones
  // Of the shared ones. They are reset when these are written.
  std::vector<catalog::CatalogWrite> writes = {};
};
// The targets are resolved. An error may come after some were reset: a repetition is harmless.
[[nodiscard]] ResetOutcome reset_counts(Instant now, std::span<const ResetTarget> targets,
                                        const Access& access, Service& service);

}  // namespace weir::frontends
