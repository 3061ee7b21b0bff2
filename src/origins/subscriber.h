// The handler of one subscriber to the messages of a bridge. It receives them one at a time, in the
// order of enqueue().
//
// Safe from any thread. The handler runs without a lock, so it may call the store again.

#pragma once

#include <deque>
#include <memory>
#include <thread>

#include "base/mutex.h"
#include "weir/origin.h"

namespace weir::origins {

class Subscriber {
 public:
  // Replaces the handler; none: no messages. After the return the former handler is not called,
  // unless this is one of its calls.
  void set(BridgeMessageHandler handler);
  [[nodiscard]] bool has_handler() const;

  // Adds a message for drain(). Under the lock of the store, so that all subscribers have one
  // order.
  void enqueue(const BridgeMessage& message);
  // Delivers what was added. If another thread delivers now, that thread does it.
  void drain();

 private:
  using Handler = std::shared_ptr<const BridgeMessageHandler>;
  struct Delivery {
    Handler handler;
    BridgeMessage message;
  };
  enum class Start : uint8_t { kIfIdle, kAfterTheLast };
  // The next delivery; no handler: there is none.
  [[nodiscard]] Delivery next(Start start);

  mutable base::StdMutex mutex_;
  base::ConditionVariable returned_;  // the running call
  Handler handler_ WEIR_GUARDED_BY(mutex_);
  std::deque<BridgeMessage> queue_ WEIR_GUARDED_BY(mutex_);
  Handler running_ WEIR_GUARDED_BY(mutex_);  // its call has not returned
  decltype(std::this_thread::get_id()) running_on_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::origins
