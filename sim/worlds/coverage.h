// States that a test suite must reach: a suite that never reaches one proves little about it.

#pragma once

#include <cstdint>
#include <string_view>

namespace weir::sim {

enum class Coverage : uint8_t {
  kDeniedBySiblingsOnly,
  kDegradedVerdict,
  kReadAcrossRollOver,
  kReplayAppliedButReplyLost,
  kBatchRefused,
  kMessageRepeated,
  kKilledWithUnackedCounts,
  kRestarted,
  kIsolatedNodeDecided,
  kDrained,
  kEmptyOriginRepaired,
  kOldSnapshotRepaired,
  kLaggingReplicaRepaired,
  kLateWriteRepaired,
  kRefusingOutageSurvived,
  kSilentOutageSurvived,
  kSlowReply,
  kDecidedWithClockSetBack,
  kLimitExceededInFlight,
  kTupleExpired,
  kDeniedByForeignOnly,
  kConcurrentLeases,
  kLateRow,
  kLeaseRenewed,
  kPublishedAgain,
  kLostRowsRepaired,
  kImportCut,
  kIsolatedRegionDecided,
  kRowsWaited,
  kStaleImport,
  kRowRejected,
  kBridgeReplaced,
  kBridgeMessageLost,
  kFullRead,
  // The following need the options that swarm.h draws.
  kKilledAfterAck,
  kBurst,
  kEvictedWithRegions,
  kBridgeKilled,
  kBridgePaused,
  kRegionCountsEvicted,
  kFeedGap,
  kFeedBeganAgain,
  kRegionWithoutOrigin,
  kClockHoursOff,
  kClockJump,
  kLocalAlgorithm,
  kExactByAllowance,
  kExactKnownDenial,
  kExactDegradedTold,
  kExactForeignCharged,
  kRelaxedWindow,
  kRelaxedRead,
  kRelaxedState,
  kMixedBatch,
  kCount,
};

// A sentence for reports.
[[nodiscard]] std::string_view to_string(Coverage state);

}  // namespace weir::sim
