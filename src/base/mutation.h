// Bugs that a test can plant in the engine, to prove that the tests detect them.
//
// Each is a mistake that is easy to make and that a distributed limiter must not make. The line
// that would be wrong calls mutated(). In the library nothing is planted, and the compiler removes
// the call. WEIR_MUTATIONS is defined for sim/worlds/mutation_test.cc and tests/schedule, for which
// the engine is compiled again: never link the two together.
//
// This header is in base because every module above may contain a planted bug.

#pragma once

#include <cstdint>

#ifdef WEIR_MUTATIONS
#include <array>
#include <atomic>
#endif

namespace weir::base {

enum class Mutation : uint8_t {
  kNone,
  // Merging.
  kAddInsteadOfMax,    // a count that is received again is added to the earlier one
  kTatMergedByMax,     // of two concurrent admissions only the later arrival time is charged
  kImportTakenForAll,  // a row of one region replaces the counts of the others
  kLateIntoNext,       // a count received late is added to the window that has begun since
  // Replay and publish.
  kForeignPublished,        // foreign counts are published as own counts
  kOwnRowAsForeign,         // the own row is imported as the row of another region
  kVerdictPublished,        // a region that denies publishes the limit instead of its count
  kTentativeAcked,          // the tentative cost of a batch, which may be refunded, is reported
  kPublishedBeforeCommit,   // a row counts as written once it was sent
  kLossNotRepaired,         // the origin has lost acknowledged counts, and they are not replayed
  kGenerationKept,          // a tuple that was removed and recreated keeps its old generation
  kOwnRowReplaces,          // an older own row replaces the count that is known to be written
  kFailedRefusalForgotten,  // a denial whose row could not be written is not published again
  kFoldLost,  // the origin drops the counts of departed nodes instead of adding them up
  // Freshness.
  kFreshByFailedRead,
  kFreshByAcknowledgement,  // a replay marks a tuple fresh although its answer is not merged
  kNextWindowDropped,       // a row of a window that has only begun in another region is dropped
  // Allowances and steps.
  kAllowanceWithoutExpiry,     // a process uses its allowance although its last read is old
  kAloneBeforeHeartbeat,       // a process that has heard of no other believes that it is alone
  kRefusalsPrivate,            // a process does not learn of requests that others were refused
  kAllowanceOfAnotherLimit,    // the allowance is not computed again when the limit changes
  kAllowanceOfWholeRemainder,  // each process holds its share of the remaining limit, not a quarter
  kStepAdds,                   // a step that arrives twice is counted twice
  kStepIgnoresForeign,         // a step grants what other regions have used
  kStepIgnoresLast,            // a step grants what the last window still uses
  kStepForgetsSiblingsLast,    // a step does not tell the known siblings of the last window
  kUncertainIgnored,           // what a step may have granted counts as that of siblings, too
  kReplayLowersGrant,          // a replay sends less than a step was granted
  kLateAsLocal,                // a late answer is decided as if the origin were lost
  kLateForgetsOwnLast,         // the bound of a late answer ignores the own last window
  kDeadlinePerAnswer,          // a request waits for each answer as long as for the first
  kRelaxedUnread,              // a relaxed request never reads the origin
  kRelaxedTold,                // the origin is told of relaxed admissions on a state
  kRelaxedShared,              // other regions are told of them
  kConsistencyOfFirst,         // the items of a batch have the consistency of its first
  // Tuples whose whole state the origin keeps.
  kToldChargedAgain,     // what a process told before is charged with every call
  kLateChargeClipped,    // what is told late is charged only as far as it fits
  kForeignChargedAgain,  // the usage of other regions is charged with every call
  kForeignNotCharged,    // the usage of other regions is never told to the origin, nor charged here
  kForeignCutToABurst,   // of much news at once only one burst is charged
  kUsageOfStepsOnly,     // what a process admits by its allowance is not counted for other regions
  kUsageWindowShort,     // the windows for other regions are shorter than a cost counts
  kFirstChargeWithoutLast,     // a new ring or log is not charged for the last window
  kAnswerOfAnotherGeneration,  // an answer is taken for that to a tuple that was created since
  // Changed algorithms and durations.
  kConvertedFromOpen,  // of two tuples that took over each other's usage, one tells it again
  kConvertedWithoutUnreported,  // what the process admitted since the last answer is not taken over
  kTakenOverAgain,              // a take-over that is repeated charges all of the usage again
  // The publish rule.
  kRuleOnRequestsOnly,  // received counts and the passing of time do not trigger the rule
  kRegionsUnderestimated,
  kLargerLimitInRule,  // of two limits on one tuple
  kLastLimitIgnored,   // a smaller limit that others requested in the previous window
  kRollOverRemoved,    // unpublished counts of the previous window are never published
  // The bridge.
  kBridgeCursorEarly,   // the position of a feed is saved although rows were not applied
  kFeedGapSkipped,      // a batch that is missing from a feed is ignored
  kUnheldNotEvaluated,  // the rule is not evaluated for tuples that no process holds
  kDueRemovedAlways,    // a tuple that became due again while it was published is forgotten
  kLeaseWithinCell,     // a lease may end within a window
  kLeaseOfNextFromNow,  // the lease in a row of the next window does not begin with that window
  kContendedFirst,      // contended rows go before all others
  kWaitingNotExported,  // the exported bound does not count rows that wait
  kOwnRowFresh,         // a row of the own region makes a tuple fresh
  // Charging.
  kRejectedConsumes,
  kFailedBatchConsumes,
  kOneTooMany,  // the usage is compared with the limit as if it were one less
  // Threads.
  kCreatedTwice,     // create() does not look the tuple up again under the lock
  kMarkedCleanLast,  // a replay reads the count before it marks the tuple clean
  kCount,
};

#ifdef WEIR_MUTATIONS
// Set it before any engine runs.
inline Mutation planted = Mutation::kNone;
// The lines that were reached since the last reset_reached(): what they belong to was at work.
inline std::array<std::atomic<bool>, static_cast<size_t>(Mutation::kCount)> reached{};
inline void reset_reached() {
  for (auto& line : reached) line.store(false, std::memory_order_relaxed);
}
[[nodiscard]] inline bool mutated(Mutation mutation) {
  auto& line = reached[static_cast<size_t>(mutation)];
  if (!line.load(std::memory_order_relaxed)) line.store(true, std::memory_order_relaxed);
  return planted == mutation;
}
#else
[[nodiscard]] constexpr bool mutated(Mutation) {
  return false;
}
#endif

}  // namespace weir::base
