// The limits that were requested of each tuple in each region, and the usage of a tuple, for
// checkers of the publish rule.

#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "sim/checkers/oracle.h"

namespace weir::sim {

struct RequestedLimit {
  Millis duration{0};
  Algorithm algorithm = Algorithm::kSlidingWindow;
  Count smallest = 0;  // requested limit
};

// By region and tuple. All requests of a tuple have the same duration and algorithm.
using RequestedLimits = std::map<std::pair<int, std::string>, RequestedLimit>;

inline void record_requested(RequestedLimits& tuples, int region, const RequestRecord& record) {
  RequestedLimit& requested = tuples[{region, record.tuple}];
  requested = {.duration = record.duration,
               .algorithm = record.algorithm,
               .smallest = requested.smallest == 0 ? record.limit
                                                   : std::min(requested.smallest, record.limit)};
}

// The usage of two windows at a time in the second of them, or before it.
[[nodiscard]] inline Count usage_at(WallTime at, const RequestedLimit& requested, int64_t sequence,
                                    Count count, Count last) {
  if (requested.algorithm != Algorithm::kSlidingWindow) return count;
  const WallTime end((sequence + 1) * requested.duration);
  const Millis rest = std::clamp(Millis(end - at), Millis(0), requested.duration);
  return count +
         last * static_cast<Count>(rest.count()) / static_cast<Count>(requested.duration.count());
}

}  // namespace weir::sim
