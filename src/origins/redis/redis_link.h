// One connection to a Redis server that reconnects by itself.
//
// The link connects, authenticates, checks the version of the stored data and its
// region, and sends pipelines in
// order. It may also subscribe to a channel; then it may send nothing but PING. If the connection
// is lost or does not answer, all calls in flight fail, and the link reconnects with exponential
// backoff and jitter. It resolves the host name again each time. While it is not ready, calls fail
// at once: nothing is queued for a server that may not come back.
//
// All methods run on the thread of the io_context.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "origins/redis/redis_address.h"
#include "origins/redis/redis_command.h"
#include "origins/redis/redis_reply.h"
#include "weir/clock.h"
#include "weir/error.h"

namespace boost::asio {
class io_context;
}

namespace weir::origins {

// The version of the data that Weir stores in Redis, and its key. A server with another version is
// not used.
inline constexpr std::string_view kOriginVersion = "1";
inline constexpr std::string_view kVersionKey = "weir:version";
// The name of the region that uses the server, if it shares its counts with other regions. A
// process of another region does not use the server: each would count what the other has published
// a second time.
inline constexpr std::string_view kRegionKey = "weir:region";

class RedisLink {
 public:
  // Receives one reply per command, valid during the call, or the reason for the failure.
  using Done =
      std::function<void(std::optional<OriginError> failure, std::span<const RedisReply> replies)>;

  // Called each time a connection is lost or an attempt to connect fails.
  using OnLost = std::function<void(OriginError why)>;

  struct Options {
    bool stores_version = false;  // and the region, if the server has none
    std::string region = {};      // empty: no other region exists
    std::string channel = {};     // empty: no subscription
    // Receives each message, valid during the call.
    std::function<void(std::string_view message)> on_message = nullptr;
    RedisTimeouts timeouts = {};
  };

  RedisLink(boost::asio::io_context& io, const Clock& clock, RedisAddress address, uint64_t seed,
            OnLost on_lost, Options options);
  ~RedisLink();
  RedisLink(const RedisLink&) = delete;
  RedisLink& operator=(const RedisLink&) = delete;

  void start();
  void stop();

  // Connected, and subscribed if there is a channel.
  [[nodiscard]] bool ready() const;
  // Different for each connection.
  [[nodiscard]] uint64_t connection_id() const;
  // The text of the last failure; empty while ready.
  [[nodiscard]] const std::string& last_error() const;

  // The time since the oldest call in flight was sent.
  [[nodiscard]] Nanos oldest_wait(MonoTime now) const;

  // Sends `count` commands, encoded in RESP.
  void send(std::string commands, size_t count, Done done);

  // Closes the connection and opens another, because this server cannot be used.
  void reconnect(OriginError why);

 private:
  class Session;
  std::shared_ptr<Session> session_;
};

}  // namespace weir::origins
