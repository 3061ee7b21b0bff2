#include "origins/subscriber.h"

#include <utility>

namespace weir::origins {

void Subscriber::end() {
  Handler former;  // destroyed after the lock: its destructor may do anything
  const base::MutexLock lock(mutex_);
  former = std::exchange(handler_, nullptr);
  queue_.clear();
  while (running_ && running_on_ != std::this_thread::get_id()) returned_.wait(mutex_);
}

bool Subscriber::ended() const {
  const base::MutexLock lock(mutex_);
  return handler_ == nullptr;
}

void Subscriber::enqueue(const BridgeMessage& message) {
  const base::MutexLock lock(mutex_);
  if (handler_) queue_.push_back(message);
}

void Subscriber::drain() {
  for (Delivery delivery = next(Start::kIfIdle); delivery.handler;) {
    (*delivery.handler)(std::move(delivery.message));
    delivery = {};  // before end() returns in another thread
    delivery = next(Start::kAfterTheLast);
  }
}

Subscriber::Delivery Subscriber::next(Start start) {
  const base::MutexLock lock(mutex_);
  if (start == Start::kIfIdle && running_) return {};
  if (std::exchange(running_, false)) returned_.notify_one();
  if (queue_.empty()) return {};
  Delivery delivery{.handler = handler_, .message = std::move(queue_.front())};
  queue_.pop_front();
  running_ = true;
  running_on_ = std::this_thread::get_id();
  return delivery;
}

Subscription Subscribers::add(BridgeMessageHandler handler) {
  const auto subscriber = std::make_shared<Subscriber>(std::move(handler));
  {
    const base::MutexLock lock(mutex_);
    std::erase_if(all_, [](const auto& each) { return each.expired(); });
    all_.push_back(subscriber);
  }
  return {subscriber.get(), [subscriber](void*) { subscriber->end(); }};
}

Subscribers::Receivers Subscribers::current() const {
  Receivers receivers;
  const base::MutexLock lock(mutex_);
  for (const auto& each : all_) {
    auto subscriber = each.lock();
    if (subscriber && !subscriber->ended()) receivers.push_back(std::move(subscriber));
  }
  return receivers;
}

Subscribers::Receivers Subscribers::enqueue(const BridgeMessage& message) const {
  Receivers receivers = current();
  for (const auto& subscriber : receivers) subscriber->enqueue(message);
  return receivers;
}

}  // namespace weir::origins
