// Short names for the public test doubles of time and work.

#pragma once

#include "weir/testing.h"

namespace weir::doubles {

using HandClock = test::ManualClock;
using HandExecutor = test::ManualExecutor;

}  // namespace weir::doubles
