// What is known of the other regions as a whole.

#pragma once

#include <cstdint>

#include "weir/ledger.h"

namespace weir::limiter {

struct Regions {
  SyncRules rules;
  uint32_t count = 0;         // in the ledger; 0: nothing is known yet
  bool all_received = false;  // a read of everything came to its end: who is not known is not there
  uint64_t hidden_ppm = 0;    // what the others together may hide, in millionths of a limit
  uint64_t most_ppm = 0;      // what they may admit if nobody heard of anybody
};

}  // namespace weir::limiter
