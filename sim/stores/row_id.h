// The identity of a ledger row: a cell, and the region that counts in it.

#pragma once

#include <compare>
#include <string>

#include "weir/ledger.h"
#include "weir/origin.h"

namespace weir::sim {

struct RowId {
  CellId cell;
  std::string region;
  friend auto operator<=>(const RowId&, const RowId&) = default;
};
[[nodiscard]] CellId cell_of(const LedgerRow& row);
[[nodiscard]] std::string tuple_of(const LedgerKey& key);
// Whether a lease covers a window of this duration: others count a region as present in exactly
// these windows.
[[nodiscard]] inline bool covers(WallTime leased_until, int64_t sequence, Millis duration) {
  return leased_until >= WallTime((sequence + 1) * duration);
}

}  // namespace weir::sim
