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

}  // namespace weir::sim
