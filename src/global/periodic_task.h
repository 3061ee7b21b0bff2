// A call to a store that is repeated, one at a time, and whose reply is handled by the thread that
// runs the sync.
//
// Only from that thread.

#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "global/completion_queue.h"
#include "global/store_clock.h"
#include "weir/error.h"
#include "weir/time.h"

namespace weir::global {

class PeriodicTask {
 public:
  static constexpr Millis kDeadline{5000};  // for a reply of the ledger
  static constexpr Millis kOriginDeadline{
      1000};  // of the origin: as long as a bridge has its lease

  // With a clock, handlers get its time.
  explicit PeriodicTask(std::shared_ptr<CompletionQueue> completions,
                        const StoreClock* clock = nullptr)
      : completions_(std::move(completions)), clock_(clock) {}

  // Whether it is time, and no call is in flight.
  [[nodiscard]] bool is_due(MonoTime now) const { return !in_flight_ && now >= next; }
  [[nodiscard]] bool in_flight() const { return in_flight_; }
  // When the call in flight was made, or the last one.
  [[nodiscard]] MonoTime began() const { return began_; }
  // Gives up a call without a reply: a later one is ignored. True if there was one.
  bool give_up_late_call(MonoTime now) {
    if (!in_flight_ || now - began_ < deadline_) return false;
    cancel();
    return true;
  }
  void cancel() {
    in_flight_ = false;
    ++number_;
  }

  // The reply function of a call to the ledger that is made now. `handle` gets the time and the
  // result.
  template <typename Answer, typename Handle>
  [[nodiscard]] auto call(MonoTime now, Handle handle) {
    return call<Answer>(now, kDeadline, std::move(handle));
  }
  // The same for a call to the origin.
  template <typename Answer, typename Handle>
  [[nodiscard]] auto call_origin(MonoTime now, Handle handle) {
    return call<Answer>(now, kOriginDeadline, std::move(handle));
  }

  MonoTime next{};  // when to call again

 private:
  template <typename Answer, typename Handle>
  [[nodiscard]] auto call(MonoTime now, Nanos deadline, Handle handle) {
    const uint64_t number = ++number_;
    deadline_ = deadline;
    in_flight_ = true;
    began_ = now;
    return [this, number, handle = std::move(handle),
            weak = std::weak_ptr(completions_)](Result<Answer> answer) {
      const auto completions = weak.lock();
      if (!completions) return;
      auto shared = std::make_shared<Result<Answer>>(std::move(answer));
      completions->post([this, number, handle, shared](Instant when) {
        if (!in_flight_ || number_ != number) return;
        in_flight_ = false;
        handle(clock_ == nullptr ? when : clock_->time(when), *shared);
      });
    };
  }

  const std::shared_ptr<CompletionQueue> completions_;
  const StoreClock* const clock_;
  MonoTime began_{};
  Nanos deadline_ = kDeadline;  // of the call in flight
  bool in_flight_ = false;
  uint64_t number_ = 0;  // of the call in flight: a reply to another one is too late
};

}  // namespace weir::global
