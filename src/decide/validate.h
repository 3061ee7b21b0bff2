// Validates every field of a request, against both bounds, before anything is changed.

#pragma once

#include <memory>

#include "weir/error.h"
#include "weir/request.h"

namespace weir::decide {

// Whether the request has the most frequent valid form. False: it may be valid all the same.
[[nodiscard]] inline bool is_common_and_valid(const Request& request) {
  const auto within = [](uint64_t value, uint64_t low, uint64_t high) {
    return value - low <= high - low;
  };
  // If two numbers are below a power of two, so is their bitwise or.
  static_assert((kMaxNameBytes & (kMaxNameBytes - 1)) == 0);
  const bool names = ((request.ns.size() - 1) | (request.identifier.size() - 1)) < kMaxNameBytes &&
                     request.workspace.size() <= kMaxNameBytes;
  // Without branches: nearly always all conditions hold.
  return static_cast<int>(names) & static_cast<int>(within(request.limit, 1, kMaxLimit)) &
         static_cast<int>(within(static_cast<uint64_t>(request.duration.count()),
                                 kMinDuration.count(), kMaxDuration.count())) &
         static_cast<int>(request.cost <= kMaxLimit) &
         static_cast<int>(request.algorithm <= Algorithm::kFixedWindow) &
         static_cast<int>(!request.burst.has_value()) &
         static_cast<int>(!request.across_durations) &
         static_cast<int>(!request.on_origin_loss.has_value()) &
         static_cast<int>(!request.consistency.has_value()) &
         static_cast<int>(request.past == nullptr);
}

// Null if the request is valid. Allocates only for an error.
[[nodiscard]] std::unique_ptr<Error> find_error(const Request& request);

[[nodiscard]] inline std::unique_ptr<Error> validate(const Request& request) {
  return is_common_and_valid(request) ? nullptr : find_error(request);
}

// Null if there are as many verdicts as requests.
[[nodiscard]] std::unique_ptr<Error> validate_sizes(size_t requests, size_t verdicts);

// Null if a batch may have this many items.
[[nodiscard]] std::unique_ptr<Error> validate_batch_size(size_t items);

}  // namespace weir::decide
