// The longest valid name, and one that is one byte too long.

#pragma once

#include <string>

#include "weir/request.h"

namespace weir::frontends {

inline const std::string kLongestName(kMaxNameBytes, 'x');
inline const std::string kTooLongName(kMaxNameBytes + 1, 'x');

}  // namespace weir::frontends
