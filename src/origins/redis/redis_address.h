// The address of a Redis server and its URL form.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "weir/error.h"
#include "weir/time.h"

namespace weir::origins {

struct RedisAddress {
  std::string host = "127.0.0.1";
  uint16_t port = 6379;
  std::string user = {};
  std::string password = {};
  int database = 0;
};

// How long the origin waits for the server and for other nodes.
struct RedisTimeouts {
  Millis connect{1000};  // with the handshake
  Millis reply{2000};    // after that the link replaces the connection
  Millis node{3000};     // a node without a heartbeat for so long is not live
  Millis slow{300};      // requests do not wait for a server that needs so long

  // Of requests that wait at most this long.
  [[nodiscard]] static RedisTimeouts with_deadline(Millis read_deadline) {
    RedisTimeouts timeouts{.slow = read_deadline};
    timeouts.reply = std::max(timeouts.reply, 2 * read_deadline);
    return timeouts;
  }
};

// Parses redis://[user:password@]host[:port][/database]. User and password may be percent-encoded;
// an IPv6 host stands in brackets. If the encoding of user or password is wrong, `field` of the
// error names it. No error repeats the text, since the text may contain a password.
[[nodiscard]] Result<RedisAddress> parse_redis_address(std::string_view text);

// The URL without user and password, for logs.
[[nodiscard]] std::string to_string(const RedisAddress& address);

}  // namespace weir::origins
