#include "weir/redis.h"

#include <utility>

#include "library/store_options.h"
#include "origins/redis/redis_address.h"
#include "origins/redis/redis_origin.h"
#include "platform/own_thread.h"
#include "platform/thread_group.h"
#include "weir/clock.h"

namespace weir {
namespace {

using library::check_length;
using library::check_number;

std::optional<Error> error_in(const RedisOptions& options) {
  constexpr library::LengthRange kCredential{.most = 512};
  if (auto error = check_length("host", options.host, {.least = 1, .most = 253})) return error;
  if (auto error = check_number("port", options.port, {.low = 1, .high = 65535})) return error;
  if (auto error = check_length("user", options.user, kCredential)) return error;
  if (auto error = check_length("password", options.password, kCredential, library::Secret::kYes)) {
    return error;
  }
  if (!options.user.empty() && options.password.empty()) {
    return Error{.field = "password",
                 .detail = "password is empty, but a user is given",
                 .fix = "give the password of the user, or leave the user out"};
  }
  if (auto error = check_number("database", options.database, {.low = 0, .high = 1'000'000})) {
    return error;
  }
  if (auto error = check_length("region", options.region, {.most = 64})) return error;
  if (auto error = check_number("read_deadline", options.read_deadline.count(),
                                {.low = 1, .high = 10'000})) {
    return error;
  }
  return check_number("connect_wait", options.connect_wait.count(), {.low = 0, .high = 60'000});
}

}  // namespace

Result<RedisOptions> parse_redis_url(std::string_view url) {
  auto address = origins::parse_redis_address(url);
  if (!address) return address.error();
  return RedisOptions{.host = std::move(address->host),
                      .port = address->port,
                      .user = std::move(address->user),
                      .password = std::move(address->password),
                      .database = address->database};
}

Result<std::shared_ptr<RegionalOrigin>> redis_origin(const RedisOptions& options) {
  if (auto error = error_in(options)) return std::move(*error);
  auto origin = origins::make_redis_origin(
      system_clock(), {.address = {.host = options.host,
                                   .port = options.port,
                                   .user = options.user,
                                   .password = options.password,
                                   .database = options.database},
                       .region = options.region,
                       .timeouts = origins::RedisTimeouts::with_deadline(options.read_deadline)});
  origin->start();
  const MonoTime deadline = system_clock().now().mono + options.connect_wait;
  while (!accepts_writes(origin->reach()) && system_clock().now().mono < deadline) {
    platform::ThreadGroup::sleep(Millis(1));
    if (origin->metrics().errors.total(telemetry::OriginError::kRegion) == 0) continue;
    const std::string why = origin->last_error();
    origin->stop();
    return Error{.field = "region",
                 .detail = "the region of the Redis server differs: " + why,
                 .fix = "docs/ledger.md describes how to rename a region"};
  }
  return platform::destroyed_by_others<RegionalOrigin>(std::move(origin));
}

}  // namespace weir
