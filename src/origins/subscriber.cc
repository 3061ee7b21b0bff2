#include "origins/subscriber.h"

#include <utility>

namespace weir::origins {

void Subscriber::set(BridgeMessageHandler handler) {
  Handler next;
  if (handler) next = std::make_shared<const BridgeMessageHandler>(std::move(handler));
  Handler former;  // destroyed after the lock: its destructor may do anything
  const base::MutexLock lock(mutex_);
  former = std::exchange(handler_, std::move(next));
  queue_.clear();
  while (former && running_ == former && running_on_ != std::this_thread::get_id()) {
    returned_.wait(mutex_);
  }
  returned_.notify_one();  // another thread may wait for the same call
}

bool Subscriber::has_handler() const {
  const base::MutexLock lock(mutex_);
  return handler_ != nullptr;
}

void Subscriber::enqueue(const BridgeMessage& message) {
  const base::MutexLock lock(mutex_);
  if (handler_) queue_.push_back(message);
}

void Subscriber::drain() {
  for (Delivery delivery = next(Start::kIfIdle); delivery.handler;
       delivery = next(Start::kAfterTheLast)) {
    (*delivery.handler)(std::move(delivery.message));
  }
}

Subscriber::Delivery Subscriber::next(Start start) {
  Handler former;  // destroyed after the lock
  const base::MutexLock lock(mutex_);
  if (start == Start::kIfIdle && running_) return {};
  former = std::exchange(running_, nullptr);
  if (former) returned_.notify_one();
  if (queue_.empty()) return {};
  Delivery delivery{.handler = handler_, .message = std::move(queue_.front())};
  queue_.pop_front();
  running_ = handler_;
  running_on_ = std::this_thread::get_id();
  return delivery;
}

}  // namespace weir::origins
