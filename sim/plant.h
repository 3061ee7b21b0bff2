// Bugs that a test plants in the world around the engine, to prove that the checkers can
// fail: each breaks one promise that the engine relies on or makes.

#pragma once

#include <cstdint>

namespace weir::sim {

enum class Plant : uint8_t {
  kNone,
  kOriginAdds,           // adds a total to the component instead of storing it
  kOriginDropsAndHides,  // drops a write now and then, and reports it as there ever after
  kOriginHidesFalls,     // reports what it once acknowledged of a component, not what it has
  kOriginReadsStale,     // answers reads with what it had three seconds before
  kLinkPretends,         // reports success now and then without sending
  kLinkFailsAsEmpty,     // reports an empty origin where it should report a failure
  kLinkHidesEpochs,      // does not say that the connection was made anew
  kSameIncarnation,      // a node is started again under the name it had, from 0
  kDrainCutShort,        // a node is stopped without having told everything
  kTellsTooSeldom,       // a node runs its replay once a second
  kDoubleCharge,         // a node decides one in twenty requests twice
  // Between regions.
  kForeignPublished,       // rows hold what was heard from others, too
  kOwnRowAsForeign,        // our own row is added to what others count
  kNewsSummed,             // what is told again is added to what was told before
  kLeaseForgotten,         // a lease is not taken anew when it ends
  kRegionsUnderestimated,  // each region takes itself to be alone in the ledger
  kLimitsNotReceived,      // of two limits on one tuple each region goes by its own
  kRowsPretended,          // rows are taken to be written that are not
  kNewsDropped,            // what changed is not heard of, only what a read of everything shows
  kSharesTooSeldom,        // a process shares every two seconds
};

}  // namespace weir::sim
