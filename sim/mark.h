// Interesting states that a run has been in: a suite that never reaches one proves little.

#pragma once

#include <cstdint>
#include <string_view>

namespace weir::sim {

enum class Mark : uint8_t {
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
  kEmptyOriginHealed,
  kOldSnapshotHealed,
  kLaggingReplicaHealed,
  kLateWriteHealed,
  kRefusingOutageSurvived,
  kSilentOutageSurvived,
  kSlowReply,
  kDecidedWithClockSetBack,
  kLimitExceededInFlight,
  kTupleForgotten,
  kDeniedByForeignOnly,
  kPresenceCrossed,
  kLateRow,
  kLeaseRenewed,
  kPublishedAgain,
  kLostRowsHealed,
  kImportCut,
  kRegionAloneWentOn,
  kRowsWaited,
  kStaleImport,
  kRowBlamed,
  // From here on only under pressure: see swarm.h.
  kKilledAfterTelling,
  kEvictedAmongRegions,
  kNoRoomForRows,
  kClockHoursOff,
  kLeapOfClocks,
  kLocalAlgorithm,
  kCount,
};

// As a person is told.
[[nodiscard]] std::string_view to_string(Mark mark);

}  // namespace weir::sim
