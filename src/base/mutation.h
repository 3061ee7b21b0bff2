// Bugs that one can plant in the engine, to prove that the tests would find them.
//
// Each names a mistake that is easy to make and that a limiter of this kind must not make; the
// line that would be wrong asks whether it is. In the library nothing is planted, and the
// compiler removes the question. WEIR_MUTATIONS is defined for sim/mutation_test.cc and
// tests/schedule, for which the engine is compiled again: never link the two together.
//
// In this room because it is below every one in which something can be wrong.

#pragma once

#include <cstdint>

namespace weir::base {

enum class Mutation : uint8_t {
  kNone,
  // Merging.
  kAddInsteadOfMax,    // a count heard again is added to what was heard before
  kTatMergedByMax,     // of two admissions at once the later arrival time stands for both
  kImportTakenForAll,  // a row of one region replaces what was heard of the others
  kLateIntoNext,       // what is heard late of a window counts in the one that has begun
  // Telling.
  kForeignPublished,        // what others count is told as if it were ours
  kOwnRowAsForeign,         // our own row is taken for another region's
  kVerdictPublished,        // a region that refuses tells the limit, not its count
  kTentativeAcked,          // the cost of a batch under way, which may yet be taken back
  kPublishedBeforeCommit,   // a row counts as written once it was sent
  kLossNotRepaired,         // the origin has less than it acknowledged, and is not told again
  kGenerationKept,          // a tuple forgotten and made anew tells from 0 under its old name
  kOwnRowReplaces,          // an older row of our own takes the place of what we know is written
  kFailedRefusalForgotten,  // a refusal whose row could not be written is not told again
  kFoldLost,                // the origin forgets who leaves it, instead of adding up their counts
  // Knowing.
  kFreshByFailedRead,
  kFreshByAcknowledgement,  // a replay makes fresh although what it read back is not used
  kNextWindowDropped,       // a row of a window that has begun elsewhere only is not kept
  // The publish rule.
  kRuleOnRequestsOnly,  // what is heard, and time, do not have it looked at
  kLeaseEndNotWatched,
  kRegionsUnderestimated,
  kLargerLimitInRule,  // of two limits on one tuple
  kLastLimitIgnored,   // a smaller limit that others asked with in the last window
  kRollOverRemoved,    // what the last window held back stays held back
  // Charging.
  kRejectedConsumes,
  kFailedBatchConsumes,
  kOneTooMany,  // what is used is compared with the limit as if there were one less
  // Threads.
  kCreatedTwice,     // whoever creates a tuple does not look again once it holds the lock
  kMarkedCleanLast,  // a replay reads the count first, and then marks the tuple clean
  kCount,
};

#ifdef WEIR_MUTATIONS
// Before any engine runs, by whoever runs them.
inline Mutation planted = Mutation::kNone;
[[nodiscard]] inline bool mutated(Mutation mutation) {
  return planted == mutation;
}
#else
[[nodiscard]] constexpr bool mutated(Mutation) {
  return false;
}
#endif

}  // namespace weir::base
