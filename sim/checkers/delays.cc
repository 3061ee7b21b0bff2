#include "sim/checkers/delays.h"

#include <algorithm>

#include "sim/nodes/node.h"

namespace weir::sim {

// Publishing: the last process of a region that replays to the origin reads the counts of all, so
// one process knows enough to apply the publish rule, and replays once more to say that the tuple
// is due. The bridge reads the due tuples every publish interval, then their counts, reserves
// numbers for its batches, and commits. A round begins when the one before has ended.
//
// Importing: every import interval the bridge renews its lease, reads the feeds, and updates the
// origin; then it sends a message to all processes, which merge it at their next iteration.
Delays delays_of(const SyncRules& rules, const DelayInputs& inputs) {
  const auto period = [](Millis every) { return every + every / 5 + kIteration; };
  const Millis origin_call = 2 * inputs.to_origin + kIteration;
  const Millis ledger_call = 2 * inputs.to_ledger + kIteration;
  const Millis due = 2 * (inputs.acked_within + origin_call);
  const Millis round = 3 * origin_call + ledger_call;
  const Millis publish_round = round + origin_call;
  const Millis notice = 2 * inputs.to_origin + 2 * kIteration;
  return {.publish = due + std::max(period(rules.publish_every), publish_round) + publish_round,
          .import = std::max(period(rules.import_every), round) + round + notice,
          .notice = notice};
}

}  // namespace weir::sim
