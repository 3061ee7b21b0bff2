// Short names for the public test doubles of time and work.

#pragma once

#include "weir/testing.h"

namespace weir::doubles {

using ManualClock = test::ManualClock;
using ManualExecutor = test::ManualExecutor;

}  // namespace weir::doubles
