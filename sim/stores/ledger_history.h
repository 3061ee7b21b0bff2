// What regions told each other through the ledger, and when, whatever the ledger lost since.

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
  // What was committed at this time, in order.
  void note(MonoTime at, const LedgerNews& news);

  // The most that a row held by then.
  [[nodiscard]] Count count_at(const RowId& id, MonoTime by) const;
  // The smallest limit that came with it by then; 0: there was none.
  [[nodiscard]] Count limit_at(const RowId& id, MonoTime by) const;
  // Until when a region had said by then that it counts on a tuple.
  [[nodiscard]] WallTime presence_until(const std::string& tuple, const std::string& region,
                                        MonoTime by) const;

 private:
  // What all commits up to one of them came to.
  struct RowEntry {
    MonoTime at{};
    Count count = 0;
    Count limit = 0;
  };
  struct PresenceEntry {
    MonoTime at{};
    WallTime until{};
  };
  std::map<RowId, std::vector<RowEntry>> rows_;
  std::map<std::pair<std::string, std::string>, std::vector<PresenceEntry>>
      presences_;  // tuple, region
};

}  // namespace weir::sim
