// Upper bounds of the time from an accept in one region to its use in all others.

#pragma once

#include "weir/ledger.h"
#include "weir/time.h"

namespace weir::sim {

// Without faults.
struct Delays {
  Nanos publish{0};  // from an accept to its commit, if the publish rule requires a row
  Nanos import{0};   // from a commit until every process uses it
  Nanos notice{0};   // the last part of that: from the origin of a region to its processes
  [[nodiscard]] Nanos total() const { return publish + import; }
};

struct DelayInputs {
  Millis acked_within{0};
  Millis to_origin{0};  // the longest delay of a message, one way
  Millis to_ledger{0};
};
[[nodiscard]] Delays delays_of(const SyncRules& rules, const DelayInputs& inputs);

}  // namespace weir::sim
