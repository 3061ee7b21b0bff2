// What the ledger says of the other regions as a whole.

#pragma once

#include <cstdint>

#include "weir/ledger.h"

namespace weir::global {

// Written by RegionSync, read by its parts.
struct Regions {
  SyncRules rules;
  uint32_t count = 0;            // in the ledger; 0: unknown yet
  bool fully_read = false;       // a full read has finished: the known regions are all there are
  uint64_t unpublished_ppm = 0;  // of all others together, at most, in millionths of a limit
  uint64_t max_ppm = 0;          // that the others admit if no region knows of another
};

}  // namespace weir::global
