// Every field of a request, both bounds, before anything is touched.

#pragma once

#include <memory>

#include "weir/error.h"
#include "weir/request.h"

namespace weir::limiter {

// Whether the request is of the most frequent valid form. False says nothing.
[[nodiscard]] inline bool plainly_valid(const Request& request) {
  const auto within = [](uint64_t value, uint64_t low, uint64_t high) {
    return value - low <= high - low;
  };
  // Of numbers below a power of two, all bits together are below it as well.
  static_assert((kMaxNameBytes & (kMaxNameBytes - 1)) == 0);
  const bool names = ((request.ns.size() - 1) | (request.identifier.size() - 1)) < kMaxNameBytes &&
                     request.workspace.size() <= kMaxNameBytes;
  // Without branches: all of it is nearly always true.
  return static_cast<int>(names) &
         static_cast<int>(within(static_cast<uint64_t>(request.limit), 1, kMaxLimit)) &
         static_cast<int>(within(static_cast<uint64_t>(request.duration.count()),
                                 kMinDuration.count(), kMaxDuration.count())) &
         static_cast<int>(static_cast<uint64_t>(request.cost) <= kMaxLimit) &
         static_cast<int>(request.algorithm <= Algorithm::kFixedWindow) &
         static_cast<int>(!request.burst.has_value()) &
         static_cast<int>(!request.across_durations) &
         static_cast<int>(!request.on_origin_loss.has_value());
}

// Null if the request is valid. Allocates only for an error.
[[nodiscard]] std::unique_ptr<Error> find_error(const Request& request);

[[nodiscard]] inline std::unique_ptr<Error> validate(const Request& request) {
  return plainly_valid(request) ? nullptr : find_error(request);
}

// Null if there is room for one verdict per request, and for no more.
[[nodiscard]] std::unique_ptr<Error> validate_room(size_t requests, size_t verdicts);

// Null if a batch may have this many items.
[[nodiscard]] std::unique_ptr<Error> validate_batch_size(size_t items);

}  // namespace weir::limiter
