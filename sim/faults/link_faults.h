// Faults of the links between a node and its stores.

#pragma once

#include <cstdint>

#include "sim/range.h"
#include "weir/time.h"

namespace weir::sim {

enum class Connectivity : uint8_t {
  kUp,
  kRefused,  // every call fails at once
  kSilent,   // no message arrives and no call is answered
};

struct LinkFaults {
  Millis least_delay{0};
  Millis most_delay{20};      // each way, drawn for each message
  Millis slow{0};             // added to that, each way
  int64_t lose_permille = 0;  // of messages each way
  int64_t repeat_permille = 0;
  Connectivity connectivity = Connectivity::kUp;
};

struct LedgerFaults {
  Millis least_delay{0};
  Millis most_delay{20};      // each way, drawn for each message
  Millis slow{0};             // added to that, each way
  int64_t lose_permille = 0;  // of messages each way
  int64_t repeat_permille = 0;
  int64_t fail_permille = 0;   // of calls: a deadlock with another transaction
  int64_t stale_permille = 0;  // of reads: a lagging replica answers
  Range<Millis> stale{Millis(50), Millis(3000)};
  int64_t cut_permille = 0;  // of reads of feeds: the reply is incomplete
  bool read_only = false;    // every write fails
  bool full = false;         // every write of a new row fails
  Connectivity connectivity = Connectivity::kUp;
};

}  // namespace weir::sim
