// When a region must tell the others what it counted in a cell.
//
// What the region that admits last cannot see is all that can exceed a limit: what was accepted
// while news travelled, and what was held back. This rule bounds the second part. With it, at
// the instant of every admission,
//
//   admitted <= (1 + slack) L + sum over the other regions of (hidden - 1)
//                             + what was accepted in the last two delays,
//
// where `hidden` is L x hidden_permille / (regions - 1), at least 1: for any number of regions
// 1.35 L beside what is under way. docs/ledger.md has the proof.
//
// It holds only if the rule is looked at whenever its answer may have changed: an admission that
// reaches publish_at(), a refusal, news of others, siblings that grew, the end of our lease, a
// lower limit, the end of a window. Pure.

#pragma once

#include <algorithm>
#include <cstdint>

#include "base/mutation.h"
#include "base/wide.h"
#include "weir/ledger.h"

namespace weir::limiter {

enum class Publish : uint8_t {
  kNothing,
  kPresence,    // enough to be worth knowing, and nobody knows that we are here
  kContended,   // others are here, and could use what remains in ignorance of this
  kExhaustion,  // it is full: others should know before they begin
  kRollOver,    // the window is over, and the next one still weighs it
};
inline constexpr size_t kPublishKinds = 5;

// A cell as its region knows it.
struct Holding {
  Count counted = 0;     // accepted in this region
  Count published = 0;   // of that, what the ledger has
  Count limit = 1;       // the smallest seen
  Count remaining = 0;   // of the limit, at this moment, as far as is known
  Count hidden = 1;      // what may be counted before others must know that we are here
  uint32_t regions = 1;  // that count here: this one, and the others known to
  bool leased = false;   // the others know that we are here
  bool refused = false;  // since this was last looked at
  bool refused_before = false;
  bool over = false;  // the window is over

  [[nodiscard]] Count unpublished() const { return base::saturating_sub(counted, published); }
};

inline constexpr Count kNeverPublish = ~Count{0};

[[nodiscard]] inline Count part_of(Count limit, uint32_t permille) {
  return base::mul_div(limit, permille, 1000);
}

// What a region may count before it must say that it is here. `doubled` is how often its budget
// of rows made it wait longer.
[[nodiscard]] inline Count hidden_of(Count limit, const SyncRules& rules, uint32_t regions,
                                     uint32_t doubled = 0) {
  const uint64_t others = std::max(regions, 2U) - 1;
  const Count usual = std::max<Count>(1, part_of(limit, rules.hidden_permille) / others);
  return std::min(usual << std::min(doubled, 20U), std::max<Count>(1, limit));
}

[[nodiscard]] inline Count slack_of(const Holding& holding, const SyncRules& rules) {
  return part_of(holding.limit, rules.slack_permille);
}

// As many times what is unpublished as there are regions covers what could be used.
[[nodiscard]] inline bool covers(const Holding& holding, Count amount) {
  const Count unpublished = holding.unpublished();
  return unpublished > 0 && unpublished * holding.regions >= amount;
}

[[nodiscard]] inline Publish rule_of(const Holding& holding, const SyncRules& rules) {
  if (holding.unpublished() == 0 && holding.leased) return Publish::kNothing;
  const bool others = holding.regions >= 2;
  const Count slack = slack_of(holding, rules);
  if (rules.policy == PublishPolicy::kFloor) {
    const bool fires = holding.unpublished() > 0 &&
                       holding.counted >= part_of(holding.limit, rules.floor_permille);
    return fires ? Publish::kContended : Publish::kNothing;
  }
  if (holding.over) {
    if (base::mutated(base::Mutation::kRollOverRemoved)) return Publish::kNothing;
    return others && covers(holding, slack) ? Publish::kRollOver : Publish::kNothing;
  }
  if (!holding.leased && holding.counted >= holding.hidden) return Publish::kPresence;
  if (others && covers(holding, holding.remaining + slack)) return Publish::kContended;
  if (!holding.refused || holding.unpublished() == 0) return Publish::kNothing;
  if (!others) {
    // A window that still weighs the last one refuses from its start, with next to nothing in it.
    const bool much = 2 * holding.counted >= holding.limit;
    const bool more = !holding.refused_before || holding.counted >= 2 * holding.published;
    return much && more ? Publish::kExhaustion : Publish::kNothing;
  }
  const bool worth = !holding.refused_before || covers(holding, slack);
  return worth ? Publish::kExhaustion : Publish::kNothing;
}

// The smallest count above what is counted now at which an admission makes rule_of() say yes, if
// nothing else changes; kNeverPublish if none does. Only while it says no.
[[nodiscard]] inline Count publish_at(const Holding& holding, const SyncRules& rules) {
  const Count counted = holding.counted;
  if (rules.policy == PublishPolicy::kFloor) {
    return std::max(part_of(holding.limit, rules.floor_permille),
                    std::max(counted, holding.published) + 1);
  }
  Count at = kNeverPublish;
  if (!holding.leased && !holding.over) at = std::max(holding.hidden, counted + 1);
  if (holding.regions < 2) return at;
  const uint64_t regions = holding.regions;
  const Count slack = slack_of(holding, rules);
  const Count last = std::max(counted, holding.published);
  // With d more, d less remains: regions (unpublished + d) >= remaining - d + slack.
  const Count wanted = (holding.over ? 0 : holding.remaining) + slack;
  const Count missing = wanted + regions * base::saturating_sub(holding.published, counted) -
                        std::min(wanted, regions * holding.unpublished());
  Count more = base::ceil_div(missing, holding.over ? regions : regions + 1);
  // Beyond what remains nothing is left to fall.
  if (!holding.over && more > holding.remaining) {
    more = base::saturating_sub(base::ceil_div(slack, regions) + holding.published, counted);
  }
  return std::min(at, std::max(counted + more, last + 1));
}

}  // namespace weir::limiter
