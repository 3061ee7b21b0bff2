// Replies that wait for the thread that asked: what a store answers, on whatever thread, is dealt
// with by the one that runs the work, at its next turn. So that work needs no locks.

#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "weir/time.h"

namespace weir::limiter {

class Inbox {
 public:
  using Letter = std::function<void(Instant now)>;

  // From any thread.
  void put(Letter letter) {
    const std::lock_guard lock(mutex_);
    letters_.push_back(std::move(letter));
  }

  void open(Instant now) {
    std::vector<Letter> letters;
    {
      const std::lock_guard lock(mutex_);
      letters.swap(letters_);
    }
    for (const Letter& letter : letters) letter(now);
  }

 private:
  base::Mutex mutex_;
  std::vector<Letter> letters_;  // guarded by mutex_
};

}  // namespace weir::limiter
