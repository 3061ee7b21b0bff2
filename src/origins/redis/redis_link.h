// One connection to a Redis server, kept up for ever.
//
// Connects, says who it is, sends pipelines in order, and when the connection is lost or
// stuck fails what was under way and connects again, with pauses that grow and are never
// the same for two nodes; names are resolved anew each time. While it is not ready, sending
// fails at once: nothing waits in a queue for a server that may not come back.
//
// Lives on its io_context.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "origins/redis/redis_address.h"
#include "origins/redis/redis_reply.h"
#include "telemetry/origin_metrics.h"
#include "weir/clock.h"
#include "weir/error.h"

namespace boost::asio {
class io_context;
}

namespace weir::origins {

using telemetry::OriginError;

// What an error that a server answered with means.
[[nodiscard]] OriginError error_of_reply(std::string_view error);

class RedisLink {
 public:
  // One reply for each command, valid while the call lasts; or why there is none.
  using Done =
      std::function<void(std::optional<OriginError> failure, std::span<const RedisReply> replies)>;

  // Told why each time a connection is lost or not made.
  using Lost = std::function<void(OriginError why)>;

  RedisLink(boost::asio::io_context& io, const Clock& clock, RedisAddress address, uint64_t seed,
            Lost lost);
  ~RedisLink();
  RedisLink(const RedisLink&) = delete;
  RedisLink& operator=(const RedisLink&) = delete;

  void start();
  void stop();

  [[nodiscard]] bool ready() const;
  // Another number for each connection that was made.
  [[nodiscard]] uint64_t connection() const;
  // What it last failed with, in words; empty while ready.
  [[nodiscard]] const std::string& trouble() const;

  // How long the call that has waited longest has been waiting.
  [[nodiscard]] Nanos waiting(MonoTime now) const;

  // `commands` in RESP, one behind the other.
  void send(std::string commands, size_t count, Done done);

  // Drops the connection and makes another: the server is not one to write to.
  void reconnect(OriginError why);

 private:
  class Wire;
  std::shared_ptr<Wire> wire_;
};

// Appends a command in RESP.
void append_command(std::string& out, std::span<const std::string_view> words);
inline void append_command(std::string& out, std::initializer_list<std::string_view> words) {
  append_command(out, std::span(words.begin(), words.size()));
}

}  // namespace weir::origins
