// Replies that wait for the thread that runs the sync. A store replies on any thread; the next run
// of the sync handles the reply. So the handlers need no locks.

#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "base/mutex.h"
#include "weir/time.h"

namespace weir::global {

class CompletionQueue {
 public:
  using Completion = std::function<void(Instant now)>;

  // From any thread.
  void post(Completion completion) {
    const base::MutexLock lock(mutex_);
    completions_.push_back(std::move(completion));
  }

  // Runs all posted completions, in order. False: there were none.
  bool run_all(Instant now) {
    std::vector<Completion> completions;
    {
      const base::MutexLock lock(mutex_);
      completions.swap(completions_);
    }
    for (const Completion& completion : completions) completion(now);
    return !completions.empty();
  }

 private:
  base::Mutex mutex_;
  std::vector<Completion> completions_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::global
