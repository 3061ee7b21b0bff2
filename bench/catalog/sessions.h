// The cost of HTTP requests with and without a key of the catalog and overrides, without sockets: a
// session reads the bytes of a request and writes those of the answer.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weir::bench {

struct SessionCost {
  std::string kind;
  size_t answer_bytes = 0;
  std::vector<double> ns = {};  // of CPU time per request, in each round
};

// Each kind once per round, in turn.
[[nodiscard]] std::vector<SessionCost> measure_sessions(size_t overrides, size_t rounds);

}  // namespace weir::bench
