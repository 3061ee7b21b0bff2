// The list of algorithms, for tests of their common contract.

#pragma once

#include "weir/request.h"

namespace weir::decide {

inline constexpr Algorithm kAllAlgorithms[] = {
    Algorithm::kSlidingWindow, Algorithm::kSlidingWindowStrict,
    Algorithm::kFixedWindow,   Algorithm::kSlidingLog,
    Algorithm::kGcra,          Algorithm::kTokenBucket};

}  // namespace weir::decide
