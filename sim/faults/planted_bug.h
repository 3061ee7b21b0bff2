// Bugs that a test plants in the world around the engine, to prove that the checkers can
// fail: each breaks one promise that the engine relies on or makes.

#pragma once

#include <cstdint>

namespace weir::sim {

enum class PlantedBug : uint8_t {
  kNone,
  kOriginAdds,                // adds a total to the component instead of storing it
  kOriginHidesDroppedWrites,  // drops a write now and then, and reports it as there ever after
  kOriginHidesLosses,         // reports what it once acknowledged of a component, not what it has
  kOriginReadsStale,          // answers reads with what it had three seconds before
  kFalseReplayAcks,           // reports success now and then without sending
  kErrorsReadAsEmpty,         // reports an empty origin where it should report a failure
  kReconnectsHidden,          // does not say that the connection was made anew
  kSameIncarnation,           // a node is started again under the name it had, from 0
  kDrainCutShort,             // a node is stopped without having told everything
  kReplaysTooSeldom,          // a node runs its replay once a second
  kDoubleCharge,              // a node decides one in twenty requests twice
  // Between regions.
  kForeignPublished,       // rows hold what was heard from others, too
  kOwnRowAsForeign,        // our own row is added to what others count
  kChangesSummed,          // what is told again is added to what was told before
  kLeaseEndIgnored,        // a lease is not taken anew when it ends
  kRegionsUnderestimated,  // each region takes itself to be alone in the ledger
  kLimitsNotReceived,      // of two limits on one tuple each region goes by its own
  kFalseRowAcks,           // rows are taken to be written that are not
  kChangesDropped,         // what changed is not heard of, only what a read of everything shows
  kSyncsTooSeldom,         // a process shares every two seconds
};

}  // namespace weir::sim
