// What was asked of each tuple in each region, and what a tuple's windows come to: for checkers
// that hold cells against the publish rule.

#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "sim/truth.h"

namespace weir::sim {

struct Asked {
  Millis duration{0};
  Algorithm algorithm = Algorithm::kSlidingWindow;
  Count smallest = 0;  // limit
};

// By region and tuple. All requests on a tuple of the world are of one duration and algorithm.
using AskedTuples = std::map<std::pair<int, std::string>, Asked>;

inline void note_asked(AskedTuples& tuples, int region, const Answered& answered) {
  Asked& asked = tuples[{region, answered.tuple}];
  asked = {
      .duration = answered.duration,
      .algorithm = answered.algorithm,
      .smallest = asked.smallest == 0 ? answered.limit : std::min(asked.smallest, answered.limit)};
}

// What two windows come to at a time in the second of them, or before it.
[[nodiscard]] inline Count usage_at(WallTime at, const Asked& asked, int64_t sequence, Count count,
                                    Count last) {
  if (asked.algorithm != Algorithm::kSlidingWindow) return count;
  const WallTime end((sequence + 1) * asked.duration);
  const Millis rest = std::clamp(Millis(end - at), Millis(0), asked.duration);
  return count +
         last * static_cast<Count>(rest.count()) / static_cast<Count>(asked.duration.count());
}

}  // namespace weir::sim
