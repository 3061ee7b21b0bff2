// What regions told each other through the ledger, and when, whatever the ledger lost since.

#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/row_place.h"
#include "weir/time.h"

namespace weir::sim {

class LedgerHistory {
 public:
  // What was committed at this time, in order.
  void note(MonoTime at, const LedgerNews& news);

  // The most that a row held by then.
  [[nodiscard]] Count had(const RowPlace& place, MonoTime by) const;
  // The smallest limit that came with it by then; 0: there was none.
  [[nodiscard]] Count limit_acked(const RowPlace& place, MonoTime by) const;
  // Until when a region had said by then that it counts on a tuple.
  [[nodiscard]] WallTime said_until(const std::string& tuple, const std::string& region,
                                    MonoTime by) const;

 private:
  // What all commits up to one of them came to.
  struct Wrote {
    MonoTime at{};
    Count count = 0;
    Count limit = 0;
  };
  struct Said {
    MonoTime at{};
    WallTime until{};
  };
  std::map<RowPlace, std::vector<Wrote>> wrote_;
  std::map<std::pair<std::string, std::string>, std::vector<Said>> said_;  // tuple, region
};

}  // namespace weir::sim
