// The port through which work is put off: to later, or to another thread.

#pragma once

#include <functional>

#include "weir/time.h"

namespace weir {

using Task = std::function<void()>;

// Runs tasks one at a time, in the order posted. Safe to post from any thread; a
// task posted is run exactly once unless the executor is destroyed first.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void post(Task task) = 0;
  virtual void post_at(MonoTime when, Task task) = 0;
};

}  // namespace weir
