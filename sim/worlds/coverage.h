// Interesting states that a run has been in: a suite that never reaches one proves little.

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
  kConcurrentPresence,
  kLateRow,
  kLeaseRenewed,
  kPublishedAgain,
  kLostRowsRepaired,
  kImportCut,
  kIsolatedRegionDecided,
  kRowsWaited,
  kStaleImport,
  kRowRejected,
  // From here on only under pressure: see swarm.h.
  kKilledAfterAck,
  kEvictedWithRegions,
  kRemoteRowsDropped,
  kClockHoursOff,
  kClockJump,
  kLocalAlgorithm,
  kCount,
};

// As a person is told.
[[nodiscard]] std::string_view to_string(Coverage state);

}  // namespace weir::sim
