// When a region must tell the others what it counted: the rule a second time.
//
// Written from the statement of the bound, not from src/global/publish_rule.h, so that a rule that
// is missing there is missed here. Names are those of the statement: N regions, L the smallest
// limit seen on the tuple in this window or the last one, h what all others may hide, eps the
// slack, both in thousandths; of one cell, x what the region accepted, p what it published, e the
// usage, R = max(0, L - e), k the regions known to count here, this one included.
//
// Checkers put in what they computed from the truth, the ledger's history and what has reached a
// process: x, e and k at most what they are, p and L at least. So where a rule holds here, it holds
// for the process.
//
// Two differences to the statement, neither of which the proof of the bound rests on:
// - A first refusal at k = 1 is told only if x is half of L or more. A window that still weighs the
//   last one refuses from its start, with next to nothing in it; and what one region may hide while
//   it takes itself to be alone, a presence bounds.
// - A refusal counts as told once any process of the region has written more than half of x since.
//
// Products of thousandths are exact: counts and limits stay below 2^44.

#pragma once

#include <algorithm>
#include <cstdint>

#include "weir/ledger.h"

namespace weir::sim::spec {

struct Cell {
  Count x = 0;
  Count p = 0;
  Count L = 1;
  Count e = 0;
  uint64_t k = 1;

  [[nodiscard]] Count unpublished() const { return x > p ? x - p : 0; }
  [[nodiscard]] Count remaining() const { return L > e ? L - e : 0; }
};

// a = max(1, floor(h L / (N - 1))), N at least 2.
[[nodiscard]] inline Count may_hide(Count L, const SyncRules& rules, uint64_t N) {
  return std::max<Count>(1, L * rules.hidden_permille / (1000 * (std::max<uint64_t>(N, 2) - 1)));
}

// floor(eps L).
[[nodiscard]] inline Count slack_of(Count L, const SyncRules& rules) {
  return L * rules.slack_permille / 1000;
}

// x - p >= max(1, (amount + eps L) / k).
[[nodiscard]] inline bool outweighs(const Cell& cell, Count amount, const SyncRules& rules) {
  const Count unpublished = cell.unpublished();
  return unpublished >= 1 &&
         1000 * cell.k * unpublished >= 1000 * amount + rules.slack_permille * cell.L;
}

// While the region has no valid lease.
[[nodiscard]] inline bool presence_due(const Cell& cell, const SyncRules& rules, uint64_t N) {
  return cell.x >= may_hide(cell.L, rules, N);
}

[[nodiscard]] inline bool contended(const Cell& cell, const SyncRules& rules) {
  return cell.k >= 2 && outweighs(cell, cell.remaining(), rules);
}

// Of a window that is over, through the whole next one.
[[nodiscard]] inline bool rolled_over(const Cell& cell, const SyncRules& rules) {
  return cell.k >= 2 && outweighs(cell, 0, rules);
}

enum class Refusal : uint8_t { kFirst, kLater };

// After a refusal, the first of a window or a later one.
[[nodiscard]] inline bool exhausted(const Cell& cell, Refusal refusal, const SyncRules& rules) {
  if (cell.unpublished() == 0) return false;
  const bool first = refusal == Refusal::kFirst;
  if (cell.k >= 2) return first || outweighs(cell, 0, rules);
  return 2 * cell.x >= cell.L && (first || cell.x >= 2 * cell.p);
}

}  // namespace weir::sim::spec
