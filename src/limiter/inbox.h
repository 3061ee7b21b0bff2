// Replies that wait for the thread that asked: what a store answers, on whatever thread, is dealt
// with by the one that runs the work, at its next turn. So that work needs no locks.

#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "base/mutex.h"
#include "weir/time.h"

namespace weir::limiter {

class CompletionQueue {
 public:
  using Completion = std::function<void(Instant now)>;

  // From any thread.
  void put(Completion completion) {
    const base::MutexLock lock(mutex_);
    completions_.push_back(std::move(completion));
  }

  void open(Instant now) {
    std::vector<Completion> completions;
    {
      const base::MutexLock lock(mutex_);
      completions.swap(completions_);
    }
    for (const Completion& completion : completions) completion(now);
  }

 private:
  base::Mutex mutex_;
  std::vector<Completion> completions_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::limiter
