// The publish rule, written a second time.
//
// Derived from the statement of the bound, not from the engine's implementation, so that a rule
// that is missing there is detected here. Names are those of the statement: N regions; L the
// smallest limit seen on the tuple in this window or the last one; h the share that all other
// regions may leave unpublished; eps the slack, both in thousandths; of one cell, x the accepted
// count of the region, p its published count, e the usage, R = max(0, L - e), k the regions known
// to count in the cell, this one included. A region counts in each window that its lease covers to
// the end, and in each in which it has a count.
//
// Checkers compute the inputs from the oracle, the ledger's history and the data at the origin: x,
// e and k are at most their true values, p and L at least. So where a rule holds here, it holds for
// the region.
//
// Two differences to the statement; the proof of the bound needs neither:
// - A first denial at k = 1 is published only if x is half of L or more. A window that still
//   weighs the last one denies from its start, with a small count; and a presence bounds the
//   unpublished count of a region that believes to be alone.
// - A denial counts as published once any process of the region has published more than half of x
//   since.
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
[[nodiscard]] inline Count max_unpublished(Count L, const SyncRules& rules, uint64_t N) {
  return std::max<Count>(1,
                         L * rules.unpublished_permille / (1000 * (std::max<uint64_t>(N, 2) - 1)));
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

// While the lease of the region does not cover the window.
[[nodiscard]] inline bool presence_due(const Cell& cell, const SyncRules& rules, uint64_t N) {
  return cell.x >= max_unpublished(cell.L, rules, N);
}

[[nodiscard]] inline bool contended(const Cell& cell, const SyncRules& rules) {
  return cell.k >= 2 && outweighs(cell, cell.remaining(), rules);
}

// Of a window that is over, during the whole next one.
[[nodiscard]] inline bool rolled_over(const Cell& cell, const SyncRules& rules) {
  return cell.k >= 2 && outweighs(cell, 0, rules);
}

enum class Denial : uint8_t { kFirst, kLater };

// After a denial, the first of a region in a window or a later one.
[[nodiscard]] inline bool exhausted(const Cell& cell, Denial denial, const SyncRules& rules) {
  if (cell.unpublished() == 0) return false;
  const bool first = denial == Denial::kFirst;
  if (cell.k >= 2) return first || outweighs(cell, 0, rules);
  return 2 * cell.x >= cell.L && (first || cell.x >= 2 * cell.p);
}

}  // namespace weir::sim::spec
