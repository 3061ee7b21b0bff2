// Bugs that a test plants around the engine, to prove that the checkers can fail. Each breaks one
// contract that the engine relies on or offers. A fleet supports those of links and stores.
// base/mutation.h has the bugs of the engine itself.

#pragma once

#include <cstdint>

namespace weir::sim {

enum class PlantedBug : uint8_t {
  kNone,
  kOriginAdds,                // adds a total to the component instead of storing it
  kOriginHidesDroppedWrites,  // drops a write now and then, and reports it as stored ever after
  kOriginHidesLosses,         // reports the largest count that it ever acknowledged
  kOriginReadsStale,          // answers reads with a state three seconds old
  kFalseReplayAcks,           // a link acknowledges a replay now and then without sending it
  kErrorsReadAsEmpty,         // a link answers with empty totals where it should fail
  kReconnectsHidden,          // a link does not report that it reconnected
  kSameIncarnation,           // a restarted node reuses its incarnation and starts from 0
  kDrainCutShort,             // a draining node ends before all counts are acknowledged
  kReplaysTooSeldom,          // a node replays once a second
  kDoubleCharge,              // a node decides one in twenty requests twice
  // Between regions.
  kForeignPublished,       // rows also contain the counts of other regions
  kOwnRowAsForeign,        // a region's own row is added to its foreign counts
  kChangesSummed,          // a changed row is added to its earlier value
  kLeaseEndIgnored,        // a lease is not renewed when it ends
  kLeasesShortened,        // the lease of a row ends before the window that it must cover
  kRegionsUnderestimated,  // each region believes that it is alone in the ledger
  kLimitsNotReceived,      // each region uses its own limit, not the smaller one of another
  kFalseRowAcks,           // a process takes rows for committed that are not
  kChangesDropped,         // imports deliver no changes; only full reads do
  kSyncsTooSeldom,         // a process syncs every two seconds
  // At the origin, for the bridge.
  kForeignLowered,  // a count of a region replaces a larger one
};

}  // namespace weir::sim
