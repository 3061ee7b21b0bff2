// The subscription to the messages of the bridge, on a connection of its own: a subscribed
// connection cannot send other commands. Without handlers there is no connection.
//
// A message is the number, a space, and the body. The channel carries the number of the database,
// since channels do not belong to a database.
//
// Lives on the thread of the io_context, except add().

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "origins/redis/redis_link.h"
#include "origins/subscriber.h"

namespace weir::origins {

[[nodiscard]] std::string bridge_channel(int database);
// Parses a message; false: it is not one.
[[nodiscard]] bool parse_message(std::string_view text, BridgeMessage& message);

class RedisSubscription {
 public:
  RedisSubscription(boost::asio::io_context& io, const Clock& clock, RedisAddress address,
                    uint64_t seed, RedisTimeouts timeouts, RedisLink::OnLost on_lost);

  // Safe from any thread; as BridgeStore::subscribe().
  [[nodiscard]] Subscription add(BridgeMessageHandler handler) {
    return subscribers_.add(std::move(handler));
  }

  // Connects if there is a handler, and disconnects if there is none; tick() does it, too.
  void update();
  // Disconnects for good.
  void stop();

  // Checks the handlers and the connection once in a while. True once for each new connection.
  [[nodiscard]] bool tick(MonoTime now);
  [[nodiscard]] bool ready() const { return link_ && link_->ready(); }

 private:
  void connect();
  void disconnect();
  void receive(std::string_view text);

  boost::asio::io_context& io_;
  const Clock& clock_;
  const RedisAddress address_;
  const uint64_t seed_;
  const RedisTimeouts timeouts_;
  const RedisLink::OnLost on_lost_;
  Subscribers subscribers_;
  std::unique_ptr<RedisLink> link_;
  bool stopped_ = false;
  uint64_t reported_connection_ = 0;
  MonoTime ping_at_{};
};

}  // namespace weir::origins
