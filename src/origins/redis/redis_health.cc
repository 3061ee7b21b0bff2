// The health of the Redis server as the origin sees it: circuit breaker, refused writes, latency.

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/mutex.h"
#include "origins/redis/redis_worker.h"

namespace weir::origins {

namespace asio = boost::asio;
using telemetry::OriginCommand;

namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr auto kFirstTick = std::chrono::milliseconds(5);
constexpr size_t kMostEarlyCalls = 4096;

// Whether the server answers reads and refuses every write.
bool is_write_refusal(OriginError error) {
  return error == OriginError::kOutOfMemory || error == OriginError::kReadOnly ||
         error == OriginError::kWritesRefused;
}

// Whether fewer calls would help. A server that refuses writes answers at once, and a key of the
// wrong type concerns one tuple.
bool trips_breaker(OriginError error) {
  return !is_write_refusal(error) && error != OriginError::kNoScript &&
         error != OriginError::kWrongType;
}

std::string_view remedy_for_refused_writes(OriginError error) {
  switch (error) {
    case OriginError::kOutOfMemory:
      return "raise maxmemory, or choose a maxmemory-policy that evicts";
    case OriginError::kReadOnly: return "it is a replica: give the address of the master";
    default:
      return "check that its replicas are connected (min-replicas-to-write) and that its disk is "
             "writable "
             "(stop-writes-on-bgsave-error)";
  }
}

// Whether the server changed its role or its permissions since the handshake.
bool needs_another_connection(OriginError error) {
  return error == OriginError::kReadOnly || error == OriginError::kRefused;
}

}  // namespace

Error to_error(OriginError error) {
  return {.code = error == OriginError::kTimeout ? ErrorCode::kTimeout : ErrorCode::kUnavailable,
          .retry = Retry::kMayHelp,
          .detail = "the origin failed: " + std::string(to_string(error)),
          .fix = "check that Redis is up and reachable"};
}

Error to_error(OriginError error, std::string_view answer, std::span<const Script> scripts) {
  Error with_answer = to_error(error);
  with_answer.detail = "the origin answered: " + std::string(answer);
  // The server does not say which command of a script it refused.
  if (error == OriginError::kRefused && answer.find("script") != std::string_view::npos) {
    with_answer.detail += "; the scripts of this call use " + commands_of(scripts);
  }
  return with_answer;
}

RedisOrigin::Worker::Worker(const Clock& the_clock, const RedisAddress& address, uint64_t seed,
                            RedisTimeouts the_timeouts, std::string the_region)
    : clock(the_clock),
      io(1),
      guard(asio::make_work_guard(io)),
      timeouts(the_timeouts),
      name(hex(seed)),
      region(std::move(the_region)),
      channel(bridge_channel(address.database)),
      link(io, the_clock, address, seed,
           [this](OriginError why) {
             metrics.errors.add(why);
             note_started();
             update_status();
           },
           {.stores_version = true, .region = region, .timeouts = the_timeouts}),
      tick_timer(io),
      shutdown_timer(io),
      subscription(io, the_clock, address, seed, the_timeouts,
                   [this](OriginError why) { metrics.errors.add(why); }) {}

void RedisOrigin::Worker::start() {
  link.start();
  tick();
}

void RedisOrigin::Worker::end() {
  if (std::exchange(ended, true)) return;
  tick_timer.cancel();
  shutdown_timer.cancel();
  link.stop();
  subscription.stop();
  guard.reset();
  io.stop();
}

bool RedisOrigin::Worker::check_reachable(const std::function<void(Error)>& reject) {
  if (reachable()) return true;
  const OriginError why = breaker.closed() ? OriginError::kUnreachable : OriginError::kCircuitOpen;
  metrics.errors.add(why);
  reject(to_error(why));
  return false;
}

void RedisOrigin::Worker::run_when_started(std::function<void()> call) {
  if (!starting || early_calls.size() >= kMostEarlyCalls) return call();
  early_calls.push_back(std::move(call));
}

void RedisOrigin::Worker::note_started() {
  starting = false;
  for (std::function<void()>& call : std::exchange(early_calls, {})) {
    asio::post(io, std::move(call));
  }
}

void RedisOrigin::Worker::note_call(MonoTime began, std::optional<OriginError> failure) {
  const MonoTime now = clock.now().mono;
  last_latency = now - began;
  breaker.record(now, !failure || !trips_breaker(*failure));
  if (failure) {
    metrics.errors.add(*failure);
  } else {
    metrics.latency.add(now - began);
  }
  // Posted: inside a reply handler the link iterates over its calls.
  if (failure && needs_another_connection(*failure)) {
    asio::post(io, [this, why = *failure] { link.reconnect(why); });
  }
  update_status();
}

// While the server refuses writes, new counts cannot reach the other nodes, so the origin reports
// Reach::kReadOnly. The next accepted heartbeat ends that.
void RedisOrigin::Worker::note_refused_write(OriginError why, std::string_view text) {
  if (!is_write_refusal(why)) return;
  if (text.ends_with('.')) text.remove_suffix(1);
  refusal = std::string(text) + "; " + std::string(remedy_for_refused_writes(why));
  update_status();
}

void RedisOrigin::Worker::note_accepted_write() {
  if (refusal.empty()) return;
  refusal.clear();
  update_status();
}

// Sends heartbeats, and probes while the breaker is open.
void RedisOrigin::Worker::tick() {
  update_status();
  const Instant now = clock.now();
  send_heartbeat(now);
  // The node has missed the messages before: what it knows may be old.
  if (subscription.tick(now.mono)) epoch.fetch_add(1, std::memory_order_relaxed);
  if (link.ready() && breaker.probe_due(now.mono)) {
    Pipeline ping;
    add(ping, OriginCommand::kPing, {"PING"});
    link.send(std::move(ping.text), ping.count,
              [this](std::optional<OriginError> failure, std::span<const RedisReply> replies) {
                if (!failure && replies[0].type != RedisReply::Type::kError) breaker.close();
                update_status();
              });
  }
  tick_timer.expires_after(starting ? kFirstTick : kTick);
  tick_timer.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) tick();
  });
}

// Publishes the state to the other threads, and resets what belongs to a connection after a
// reconnect.
void RedisOrigin::Worker::update_status() {
  const bool ready = link.ready();
  const uint64_t connection = link.connection_id();
  if (ready && std::exchange(last_ready_connection, connection) != connection) {
    metrics.connections.fetch_add(1, std::memory_order_relaxed);
    epoch.fetch_add(1, std::memory_order_relaxed);
    registered = false;
    server_time_ahead.reset();
    // At most one reconnect per heartbeat while the server is a replica.
    if (refusal.empty()) heartbeat_at = {};
    last_latency = Nanos(0);
  }
  if (starting && ready) note_started();
  const bool closed = breaker.closed();
  metrics.ready.store(ready, std::memory_order_relaxed);
  metrics.closed.store(closed, std::memory_order_relaxed);
  metrics.writable.store(refusal.empty(), std::memory_order_relaxed);
  const bool slow = std::max(last_latency, link.oldest_wait(clock.now().mono)) >= timeouts.slow;
  reach.store(starting            ? Reach::kPrompt
              : !ready || !closed ? Reach::kNone
              : !refusal.empty()  ? Reach::kReadOnly
              : slow              ? Reach::kSlow
                                  : Reach::kPrompt,
              std::memory_order_relaxed);
  const base::MutexLock lock(mutex);
  shown_error = link.last_error();
  shown_refusal = refusal;
}

}  // namespace weir::origins
