// The list of algorithms, for tests of what all of them promise alike.

#pragma once

#include "weir/request.h"

namespace weir::limiter {

inline constexpr Algorithm kAllAlgorithms[] = {
    Algorithm::kSlidingWindow, Algorithm::kSlidingWindowStrict,
    Algorithm::kFixedWindow,   Algorithm::kSlidingLog,
    Algorithm::kGcra,          Algorithm::kTokenBucket};

}  // namespace weir::limiter
