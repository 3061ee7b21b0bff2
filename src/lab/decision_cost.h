// The same traffic through the library: its decisions, and the time of one of them.

#pragma once

#include <optional>

#include "lab/comparison.h"

namespace weir::lab {

struct LibraryRun {
  Decisions decisions;  // of the first requests
  double nanos_per_decision = 0;
};

// Calls Limiter::check() for the first requests on one thread: validation, look-up of the key,
// decision, verdict. Nothing if the traffic is empty, or if its keys need so much memory that the
// library would not decide all of them by the algorithm.
[[nodiscard]] std::optional<LibraryRun> run_library(const Traffic& traffic, const Limit& limit,
                                                    Algorithm algorithm);

}  // namespace weir::lab
