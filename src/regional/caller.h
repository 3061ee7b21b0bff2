// The executor of a call that waits for the origin, and its deadline. It is made once for the call
// and handed to everything that the call waits for, so that all of it shares one deadline.

#pragma once

#include "weir/executor.h"
#include "weir/time.h"

namespace weir::regional {

// The executor must live until the handlers of the call were called.
struct Caller {
  Executor* home = nullptr;
  MonoTime deadline{};

  [[nodiscard]] bool has_time(MonoTime now) const { return now < deadline; }
};

}  // namespace weir::regional
