// The global ledger: the store through which regions share their counts.
//
// One row per cell and region, a grow-only counter again: a region writes only its
// own rows, as absolute totals, and what it heard from others it never writes.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weir/error.h"
#include "weir/origin.h"
#include "weir/request.h"
#include "weir/time.h"

namespace weir {

struct LedgerRow {
  CellId cell;
  std::string region;
  Count count = 0;
  Count limit_seen = 0;  // the smallest limit the region saw on the tuple
  WallTime expires_at = {};
};

// A position in the store's own order of changes.
struct LedgerCursor {
  int64_t position = 0;
};

struct LedgerChanges {
  std::vector<LedgerRow> rows;
  LedgerCursor next;
};

using PublishReply = std::function<void(Result<size_t>)>;  // rows committed
using ChangesReply = std::function<void(Result<LedgerChanges>)>;

// Safe from any thread; replies as a RegionalOrigin does.
class GlobalLedger {
 public:
  virtual ~GlobalLedger() = default;
  // Raises each row to at least `count`. All rows commit or none.
  virtual void publish(std::vector<LedgerRow> rows, PublishReply reply) = 0;
  // Rows changed after the cursor, possibly some from before it.
  virtual void changes_since(LedgerCursor cursor, ChangesReply reply) = 0;
};

// The ledger of a lone region: takes every row, tells of none.
[[nodiscard]] std::shared_ptr<GlobalLedger> make_null_ledger();

}  // namespace weir
