// Faults of the links between a node and its stores.

#pragma once

#include <cstdint>

#include "sim/range.h"
#include "weir/time.h"

namespace weir::sim {

enum class Connectivity : uint8_t {
  kUp,
  kRefused,  // every call fails at once
  kSilent,   // nothing arrives, nothing is answered
};

struct LinkFaults {
  Millis least_delay{0};
  Millis most_delay{20};      // each way, drawn anew for each message
  Millis slow{0};             // on top of that, each way
  int64_t lose_permille = 0;  // of messages each way
  int64_t repeat_permille = 0;
  Connectivity connectivity = Connectivity::kUp;
};

struct LedgerFaults {
  Millis least_delay{0};
  Millis most_delay{20};      // each way, drawn anew for each message
  Millis slow{0};             // on top of that, each way
  int64_t lose_permille = 0;  // of messages each way
  int64_t repeat_permille = 0;
  int64_t fail_permille = 0;   // as one that met another transaction
  int64_t stale_permille = 0;  // of reads: answered by a replica that lags
  Range<Millis> stale{Millis(50), Millis(3000)};
  int64_t cut_permille = 0;  // of reads of what changed
  Millis late_commit{0};     // at most, from the stamp of a row to when others see it
  bool read_only = false;    // nothing can be written
  bool full = false;         // nothing new can be
  Connectivity connectivity = Connectivity::kUp;
};

}  // namespace weir::sim
