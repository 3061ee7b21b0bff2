// The handlers of the messages of a bridge. Each receives all messages since it was added, one at a
// time, in the order of enqueue().
//
// Safe from any thread. Handlers run without a lock, so they may call the store again.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "weir/origin.h"

namespace weir::origins {

// One handler.
class Subscriber {
 public:
  explicit Subscriber(BridgeMessageHandler handler)
      : handler_(std::make_shared<const BridgeMessageHandler>(std::move(handler))) {}

  // After the return the handler is not called, unless this is one of its calls.
  void end();
  [[nodiscard]] bool ended() const;

  // Adds a message for drain().
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
  base::ConditionVariable returned_;         // the running call
  Handler handler_ WEIR_GUARDED_BY(mutex_);  // null: it has ended
  std::deque<BridgeMessage> queue_ WEIR_GUARDED_BY(mutex_);
  bool running_ WEIR_GUARDED_BY(mutex_) = false;  // a call has not returned
  decltype(std::this_thread::get_id()) running_on_ WEIR_GUARDED_BY(mutex_);
};

// All handlers of a store.
class Subscribers {
 public:
  // As BridgeStore::subscribe(). The result may outlive this object.
  [[nodiscard]] Subscription add(BridgeMessageHandler handler);
  [[nodiscard]] bool empty() const { return current().empty(); }

  // Adds a message for each handler, and returns those whose drain() must follow. Under the lock of
  // the store, so that all handlers have one order.
  using Receivers = std::vector<std::shared_ptr<Subscriber>>;
  [[nodiscard]] Receivers enqueue(const BridgeMessage& message) const;

 private:
  [[nodiscard]] Receivers current() const;

  mutable base::StdMutex mutex_;
  std::vector<std::weak_ptr<Subscriber>> all_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::origins
