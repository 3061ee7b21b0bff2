// Runs tasks on the thread of a loop.
//
// A request that waits for the origin posts a task for its deadline, so there are many of them, and
// nearly all in the order of their times. They share one timer.

#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "weir/clock.h"
#include "weir/executor.h"

namespace weir::frontends {

// post() and post_at(): any thread.
class LoopExecutor final : public Executor {
 public:
  // `clock` must outlive it.
  LoopExecutor(boost::asio::io_context& io, const Clock& clock)
      : io_(io), clock_(clock), timer_(io) {}

  void post(Task task) override { boost::asio::post(io_, std::move(task)); }

  void post_at(MonoTime when, Task task) override {
    const base::MutexLock lock(mutex_);
    if (in_order_.empty() || when >= in_order_.back().first) {
      in_order_.emplace_back(when, std::move(task));
    } else {
      others_.emplace(when, std::move(task));
    }
    if (when < wakes_at_) wake_at(when);
  }

 private:
  void wake_at(MonoTime when) WEIR_REQUIRES(mutex_) {
    wakes_at_ = when;
    timer_.expires_after(when - clock_.now().mono);
    timer_.async_wait([this](const boost::system::error_code& cancelled) {
      if (!cancelled) run_due();
    });
  }

  void run_due() {
    std::vector<Task> due;
    {
      const base::MutexLock lock(mutex_);
      const MonoTime now = clock_.now().mono;
      while (!in_order_.empty() && in_order_.front().first <= now) {
        due.push_back(std::move(in_order_.front().second));
        in_order_.pop_front();
      }
      while (!others_.empty() && others_.begin()->first <= now) {
        due.push_back(std::move(others_.begin()->second));
        others_.erase(others_.begin());
      }
      wakes_at_ = kNever;
      MonoTime next = in_order_.empty() ? kNever : in_order_.front().first;
      if (!others_.empty()) next = std::min(next, others_.begin()->first);
      if (next != kNever) wake_at(next);
    }
    for (Task& task : due) task();
  }

  static constexpr MonoTime kNever = MonoTime::max();

  boost::asio::io_context& io_;
  const Clock& clock_;
  base::StdMutex mutex_;
  boost::asio::steady_timer timer_ WEIR_GUARDED_BY(mutex_);
  MonoTime wakes_at_ WEIR_GUARDED_BY(mutex_) = kNever;
  std::deque<std::pair<MonoTime, Task>> in_order_ WEIR_GUARDED_BY(mutex_);
  std::multimap<MonoTime, Task> others_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::frontends
