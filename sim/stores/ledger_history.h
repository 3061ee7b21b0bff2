// The rows that regions committed, and when, even if the ledger lost them since.

#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/stores/row_id.h"
#include "weir/time.h"

namespace weir::sim {

class LedgerHistory {
 public:
  // To be called for each commit, in order.
  void note(MonoTime at, const std::vector<LedgerRow>& rows);

  // The largest count of a row by then.
  [[nodiscard]] Count count_at(const RowId& id, MonoTime by) const;
  // The smallest limit of the row by then; 0: there was none.
  [[nodiscard]] Count limit_at(const RowId& id, MonoTime by) const;
  // The end of a region's lease on a tuple, as committed by then.
  [[nodiscard]] WallTime leased_until(const std::string& tuple, const std::string& region,
                                      MonoTime by) const;

 private:
  // The result of all commits up to one of them.
  struct RowEntry {
    MonoTime at{};
    Count count = 0;
    Count limit = 0;
  };
  struct LeaseEntry {
    MonoTime at{};
    WallTime until{};
  };
  std::map<RowId, std::vector<RowEntry>> rows_;
  std::map<std::pair<std::string, std::string>, std::vector<LeaseEntry>> leases_;  // tuple, region
};

}  // namespace weir::sim
