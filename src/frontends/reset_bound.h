// How many resets a namespace keeps.

#pragma once

#include <string>
#include <string_view>

#include "catalog/snapshot.h"

namespace weir::frontends {

// Why there is no place for the reset of an identifier beside `more` others; empty: there is. A
// reset replaces an earlier one of the same identifier.
[[nodiscard]] inline std::string reset_refusal(const catalog::NamespaceView& ns,
                                               std::string_view identifier, size_t more = 0) {
  if (!ns.resets || ns.resets->size() + more < catalog::kMaxResets) return {};
  if (ns.resets->contains(identifier)) return {};
  return "the namespace \"" + ns.record.name + "\" keeps " + std::to_string(ns.resets->size()) +
         " resets, and at most " + std::to_string(catalog::kMaxResets) +
         " identifiers can be reset: use another namespace, or wait until the oldest are 61 days "
         "old";
}

}  // namespace weir::frontends
