// The regional origin in Redis: processes that use the same server share their counts. Component
// `redis`, target weir::redis.
//
//   auto origin = weir::redis_origin({.host = "10.0.0.7"});
//   if (!origin) return fail(origin.error().detail);
//   auto limiter = weir::Limiter::create(weir::system_clock(), {.origin = *origin});

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "weir/error.h"
#include "weir/export.h"
#include "weir/origin.h"
#include "weir/time.h"

namespace weir {

struct RedisOptions {
  std::string host = "127.0.0.1";  // 1 to 253 bytes: a name or an address
  uint16_t port = 6379;            // 1 to 65535
  std::string user = {};           // 0 to 512 bytes; empty: the default user
  std::string password = {};       // 0 to 512 bytes; empty: no AUTH
  int database = 0;                // 0 to 1,000,000
  // With a ledger: Options::region, 0 to 64 bytes. The server stores it at its first use, and a
  // process of another region does not use the server. Empty: not checked.
  std::string region = {};
  // Options::read_deadline of the limiter: while the server needs longer, requests do not wait for
  // it. Default 300 ms, 1 ms to 10 s.
  Millis read_deadline{300};
  // How long redis_origin() waits for the server to answer before it returns. Default 1 s, 0 to
  // 60 s. With 0 the first requests are decided without the origin.
  Millis connect_wait{1000};
};

// Parses redis://[user:password@]host[:port][/database]; user and password may be
// percent-encoded. The error does not repeat the text, which may contain a password.
[[nodiscard]] WEIR_EXPORT Result<RedisOptions> parse_redis_url(std::string_view url);

// An origin that connects, and reconnects, on a thread of its own. Use one origin per limiter. The
// last owner that releases it ends the thread, after the node's name was removed from the server.
// An unreachable server is not an error here: Options::on_origin_loss applies until it answers. It
// follows weir::system_clock(). The error names the option, its value and its range, but never the
// password.
[[nodiscard]] WEIR_EXPORT Result<std::shared_ptr<RegionalOrigin>> redis_origin(
    const RedisOptions& options);

}  // namespace weir
