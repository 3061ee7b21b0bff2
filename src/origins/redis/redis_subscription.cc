#include "origins/redis/redis_subscription.h"

#include <charconv>
#include <utility>

namespace weir::origins {
namespace {

constexpr Nanos kPingInterval = std::chrono::seconds(1);

}  // namespace

std::string bridge_channel(int database) {
  return "weir:bridge:" + std::to_string(database);
}

bool parse_message(std::string_view text, BridgeMessage& message) {
  const char* const end = text.data() + text.size();
  const auto [number_end, error] = std::from_chars(text.data(), end, message.number);
  if (error != std::errc() || number_end == end || *number_end != ' ') return false;
  message.body.assign(number_end + 1, end);
  return true;
}

RedisSubscription::RedisSubscription(boost::asio::io_context& io, const Clock& clock,
                                     RedisAddress address, uint64_t seed, RedisTimeouts timeouts,
                                     RedisLink::OnLost on_lost)
    : io_(io),
      clock_(clock),
      address_(std::move(address)),
      seed_(seed),
      timeouts_(timeouts),
      on_lost_(std::move(on_lost)) {}

void RedisSubscription::update() {
  if (subscribers_.empty() || stopped_) {
    disconnect();
  } else {
    connect();
  }
}

void RedisSubscription::stop() {
  stopped_ = true;
  disconnect();
}

void RedisSubscription::connect() {
  if (link_) return;
  link_ = std::make_unique<RedisLink>(
      io_, clock_, address_, seed_ + 1, on_lost_,
      RedisLink::Options{.channel = bridge_channel(address_.database),
                         .on_message = [this](std::string_view text) { receive(text); },
                         .timeouts = timeouts_});
  reported_connection_ = 0;
  link_->start();
}

void RedisSubscription::disconnect() {
  if (!link_) return;
  link_->stop();
  link_.reset();
}

void RedisSubscription::receive(std::string_view text) {
  BridgeMessage message;
  if (!parse_message(text, message)) return;
  for (const auto& subscriber : subscribers_.enqueue(message)) subscriber->drain();
}

bool RedisSubscription::tick(MonoTime now) {
  update();
  if (!ready()) return false;
  if (now >= ping_at_) {
    ping_at_ = now + kPingInterval;
    std::string ping;
    append_command(ping, {"PING"});
    link_->send(std::move(ping), 1, [](auto, auto) {});  // the link ends itself without a reply
  }
  return std::exchange(reported_connection_, link_->connection_id()) != link_->connection_id();
}

}  // namespace weir::origins
