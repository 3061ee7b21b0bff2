#include "sim/checkers/delays.h"

#include <algorithm>

#include "sim/nodes/node.h"

namespace weir::sim {

// The last process of a region that replays to the origin reads the counts of all, so one process
// knows enough to apply the publish rule. A process that publishes after a sibling waits one round
// and reads the origin first; a process with a row of the same cell in flight waits for its reply.
Delays delays_of(const SyncRules& rules, const DelayInputs& inputs) {
  const auto period = [](Millis every) { return every + every / 5 + kIteration; };
  const Millis known = inputs.acked_within + 2 * inputs.to_origin + kIteration;
  const Millis landed = 2 * inputs.to_ledger + kIteration;
  const Millis head_start = period(rules.publish_every) + std::max(rules.publish_every, landed);
  const Millis round =
      head_start + 2 * period(rules.publish_every) + 2 * inputs.to_origin + kIteration;
  return {.publish = known + landed + round + inputs.to_ledger,
          .import = period(rules.import_every) + 2 * inputs.to_ledger + kIteration};
}

}  // namespace weir::sim
