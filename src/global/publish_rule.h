// When a region must publish the count of a cell to the other regions.
//
// A limit can be exceeded only by counts that the region that admits last cannot see: counts in
// flight, and counts not published yet. This rule bounds the second part. With it, at the instant
// of every admission,
//
//   admitted <= (1 + slack) L + sum over the other regions of (allowance - 1)
//                             + the counts accepted in the last two delays,
//
// where the allowance is L x unpublished_permille / (regions - 1), at least 1. For any number of
// regions that is 1.35 L plus the counts in flight. docs/ledger.md has the proof.
//
// The bound holds only if the rule is evaluated whenever its answer may have changed: an admission
// that reaches publish_threshold(), a refusal, a change of another region's or a sibling's count, a
// lower limit, another number of regions, the end of a window. A lease covers whole windows, so it
// ends with one of them.
//
// Pure.

#pragma once

#include <algorithm>
#include <cstdint>

#include "base/mutation.h"
#include "base/wide.h"
#include "weir/ledger.h"

namespace weir::global {

enum class PublishReason : uint8_t {
  kNone,
  kPresence,    // the count used up the allowance, and the other regions do not know of this one
  kContended,   // other regions count here and could use the remaining limit without knowing
  kExhaustion,  // the limit is used up: other regions should know before they begin
  kRollOver,    // the window ended, and the next one still carries a part of it
};
inline constexpr size_t kPublishReasons = 5;

// The state of one cell, as its region knows it.
struct CellUsage {
  Count counted = 0;     // accepted in this region
  Count published = 0;   // of that, in the ledger
  Count limit = 1;       // the smallest seen
  Count remaining = 0;   // of the limit, now, by the known counts
  Count allowance = 1;   // the region may count less than this without a presence
  uint32_t regions = 1;  // that count here: this one and the others known
  bool leased = false;   // in this window: the other regions count this one as present
  bool refused = false;  // since the last evaluation
  bool refusal_published = false;
  bool over = false;       // the window has ended
  uint32_t doublings = 0;  // of the slack, by the row budget

  [[nodiscard]] Count unpublished() const { return base::saturating_sub(counted, published); }
};

inline constexpr Count kNeverPublish = ~Count{0};
inline constexpr uint32_t kMaxDoublings = 8;

// The ledger may have a lease that no limiter accepts.
[[nodiscard]] inline SyncRules with_valid_lease(SyncRules rules) {
  rules.lease = std::max(rules.lease, kMinLease);
  return rules;
}

[[nodiscard]] inline Count permille_of(Count limit, uint32_t permille) {
  return base::mul_div(limit, permille, 1000);
}

// How much a region may count before it must publish its presence. `doublings` is how often its row
// budget has doubled the allowance and the slack.
[[nodiscard]] inline Count unpublished_allowance(Count limit, const SyncRules& rules,
                                                 uint32_t regions, uint32_t doublings = 0) {
  const uint64_t others = std::max(regions, 2U) - 1;
  // Doubled before it is rounded up to 1: a limit of 2 would have a multiple of its share.
  const uint64_t permille = uint64_t{rules.unpublished_permille}
                            << std::min(doublings, kMaxDoublings);
  const Count allowance = base::mul_div(limit, permille, 1000) / others;
  return std::clamp<Count>(allowance, 1, std::max<Count>(1, limit));
}

[[nodiscard]] inline Count slack_of(const CellUsage& usage, const SyncRules& rules) {
  const Count usual = permille_of(usage.limit, rules.slack_permille);
  return std::min(usual << std::min(usage.doublings, kMaxDoublings), usage.limit);
}

// Whether the unpublished counts of all regions, if each had as much as this one, reach the amount.
[[nodiscard]] inline bool covers(const CellUsage& usage, Count amount) {
  const Count unpublished = usage.unpublished();
  return unpublished > 0 && unpublished * usage.regions >= amount;
}

[[nodiscard]] inline PublishReason publish_reason(const CellUsage& usage, const SyncRules& rules) {
  if (usage.unpublished() == 0 && usage.leased) return PublishReason::kNone;
  const bool others = usage.regions >= 2;
  const Count slack = slack_of(usage, rules);
  if (rules.policy == PublishPolicy::kFloor) {
    const bool fires =
        usage.unpublished() > 0 && usage.counted >= permille_of(usage.limit, rules.floor_permille);
    return fires ? PublishReason::kContended : PublishReason::kNone;
  }
  if (usage.over) {
    if (base::mutated(base::Mutation::kRollOverRemoved)) return PublishReason::kNone;
    return others && covers(usage, slack) ? PublishReason::kRollOver : PublishReason::kNone;
  }
  if (!usage.leased && usage.counted >= usage.allowance) return PublishReason::kPresence;
  if (others && covers(usage, usage.remaining + slack)) return PublishReason::kContended;
  if (!usage.refused || usage.unpublished() == 0) return PublishReason::kNone;
  if (!others) {
    // A sliding window that still carries the last one may deny with a count close to 0.
    const bool much = 2 * usage.counted >= usage.limit;
    const bool more = !usage.refusal_published || usage.counted >= 2 * usage.published;
    return much && more ? PublishReason::kExhaustion : PublishReason::kNone;
  }
  const bool worth = !usage.refusal_published || covers(usage, slack);
  return worth ? PublishReason::kExhaustion : PublishReason::kNone;
}

// The smallest count above the present one at which an admission gives publish_reason() a reason,
// if nothing else changes; kNeverPublish if none does. Valid only while there is no reason.
[[nodiscard]] inline Count publish_threshold(const CellUsage& usage, const SyncRules& rules) {
  const Count counted = usage.counted;
  if (rules.policy == PublishPolicy::kFloor) {
    return std::max(permille_of(usage.limit, rules.floor_permille),
                    std::max(counted, usage.published) + 1);
  }
  Count at = kNeverPublish;
  if (!usage.leased && !usage.over) at = std::max(usage.allowance, counted + 1);
  if (usage.regions < 2) return at;
  const uint64_t regions = usage.regions;
  const Count slack = slack_of(usage, rules);
  const Count last = std::max(counted, usage.published);
  // With d more, d less remains: regions (unpublished + d) >= remaining - d + slack.
  const Count wanted = (usage.over ? 0 : usage.remaining) + slack;
  const Count missing = wanted + regions * base::saturating_sub(usage.published, counted) -
                        std::min(wanted, regions * usage.unpublished());
  Count more = base::ceil_div(missing, usage.over ? regions : regions + 1);
  // Beyond the remaining limit, the remainder falls no further.
  if (!usage.over && more > usage.remaining) {
    more = base::saturating_sub(base::ceil_div(slack, regions) + usage.published, counted);
  }
  return std::min(at, std::max(counted + more, last + 1));
}

}  // namespace weir::global
