// Which requests of a step an origin grants. The Lua script of the Redis origin has the same rule.
//
// Pure.

#pragma once

#include <algorithm>
#include <vector>

#include "base/mutation.h"
#include "base/wide.h"
#include "weir/origin.h"

namespace weir::origins {

struct StepGrant {
  Count total = 0;  // what the writer's component must be raised to
  bool refused = false;
  std::vector<bool> granted;
};

// `current` and `last`: the counts of the two windows, as the writer reads them.
[[nodiscard]] inline StepGrant grant(const CellStep& step, const CellTotals& current,
                                     const CellTotals& last) {
  const Count foreign = base::mutated(base::Mutation::kStepIgnoresForeign) ? 0 : step.foreign;
  const Count others = base::saturating_add(std::max(current.siblings, step.siblings), foreign);
  const Count last_total = base::saturating_add(
      base::saturating_add(std::max(last.siblings, step.siblings_last), step.foreign_last),
      std::max(last.mine, step.own_last));
  const Count told =
      base::mutated(base::Mutation::kStepAdds) ? std::max(step.own, current.mine) : step.own;
  StepGrant result{.total = told, .granted = {}};
  for (const StepAsk& ask : step.asks) {
    const Count carried = base::mutated(base::Mutation::kStepIgnoresLast)
                              ? 0
                              : base::mul_div(last_total, static_cast<uint64_t>(ask.rest.count()),
                                              static_cast<uint64_t>(step.duration.count()));
    const Count used = base::saturating_add(base::saturating_add(others, carried), result.total);
    const bool fits = base::saturating_add(used, ask.cost) <= ask.limit;
    result.granted.push_back(fits);
    if (fits) result.total += ask.cost;
    result.refused = result.refused || !fits;
  }
  return result;
}

}  // namespace weir::origins
