// Names at the bound of their length, one on each side of it.

#pragma once

#include <string>

#include "weir/request.h"

namespace weir::frontends {

inline const std::string kLongestName(kMaxNameBytes, 'x');
inline const std::string kTooLongName(kMaxNameBytes + 1, 'x');

}  // namespace weir::frontends
