// Heartbeats of the Redis origin: each node registers in the sorted set weir:nodes once a second
// under the time of the server, and reads the number of live nodes and its own rank.

#include <algorithm>
#include <boost/asio/post.hpp>
#include <charconv>

#include "origins/redis/redis_worker.h"

namespace weir::origins {

namespace asio = boost::asio;
using telemetry::OriginCommand;

namespace {

constexpr std::string_view kNodesKey = "weir:nodes";
constexpr Nanos kHeartbeatInterval = std::chrono::seconds(1);
constexpr uint64_t kHeartbeatsPerListing = 10;  // in case two nodes took the same rank
constexpr auto kShutdownTimeout = std::chrono::milliseconds(200);

}  // namespace

std::optional<WallTime> parse_time(const RedisReply& reply) {
  if (reply.type != RedisReply::Type::kList || reply.items.size() != 2) return std::nullopt;
  int64_t parts[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    const std::string_view text = reply.items[static_cast<size_t>(i)].text;
    if (std::from_chars(text.data(), text.data() + text.size(), parts[i]).ec != std::errc()) {
      return std::nullopt;
    }
  }
  return WallTime(Millis(parts[0] * 1000 + parts[1] / 1000));
}

// All nodes use the clock of the server, since their own clocks may differ.
void RedisOrigin::Worker::request_time(Instant now) {
  Pipeline pipeline;
  add(pipeline, OriginCommand::kNodes, {"TIME"});
  link.send(std::move(pipeline.text), pipeline.count,
            [this, now](std::optional<OriginError> failure, std::span<const RedisReply> replies) {
              if (failure) return;
              if (replies[0].type == RedisReply::Type::kError) {
                metrics.errors.add(error_of_reply(replies[0].text));
              }
              on_time(now, replies[0]);
              if (server_time_ahead) heartbeat_at = {};
            });
}

void RedisOrigin::Worker::on_time(Instant sent, const RedisReply& reply) {
  const Instant now = clock.now();
  last_latency = now.mono - sent.mono;
  const auto server_time = parse_time(reply);
  if (!server_time) return;
  const WallTime middle = sent.wall + (now.wall - sent.wall) / 2;
  metrics.clock_ahead.store((*server_time - middle).count(), std::memory_order_relaxed);
  const Nanos own_time = (sent.mono + last_latency / 2).time_since_epoch();
  server_time_ahead = server_time->time_since_epoch() - std::chrono::floor<Millis>(own_time);
}

void RedisOrigin::Worker::send_heartbeat(Instant now) {
  if (!link.ready() || !breaker.closed() || now.mono < heartbeat_at) return;
  heartbeat_at = now.mono + kHeartbeatInterval;
  if (!server_time_ahead) return request_time(now);
  const WallTime at(std::chrono::floor<Millis>(now.mono.time_since_epoch()) + *server_time_ahead);
  Pipeline pipeline;
  const auto command = [&](std::initializer_list<std::string_view> words) {
    add(pipeline, OriginCommand::kNodes, words);
  };
  const std::string live_since = millis_text(at - timeouts.node);
  command({"TIME"});
  command({"ZADD", kNodesKey, millis_text(at), name});
  command({"ZREMRANGEBYSCORE", kNodesKey, "-inf", millis_text(at - 10 * timeouts.node)});
  command({"ZCOUNT", kNodesKey, live_since, "+inf"});
  if (heartbeats_sent++ % kHeartbeatsPerListing == 0) {
    command({"ZRANGEBYSCORE", kNodesKey, live_since, "+inf"});
    repairs.drop_expired(now.wall);
  }
  link.send(std::move(pipeline.text), pipeline.count,
            [this, now](std::optional<OriginError> failure, std::span<const RedisReply> replies) {
              if (!failure) on_heartbeat(now, replies);
            });
}

void RedisOrigin::Worker::on_heartbeat(Instant sent, std::span<const RedisReply> replies) {
  on_time(sent, replies[0]);
  // If the server refused this heartbeat, it also refused those of the other nodes. The list is
  // stale, so all nodes keep the last one they read.
  if (replies[1].type != RedisReply::Type::kInteger) {
    heartbeats_sent = 0;
    const OriginError why = error_of_reply(replies[1].text);
    metrics.errors.add(why);
    note_refused_write(why, replies[1].text);
    if (why == OriginError::kReadOnly) {
      asio::post(io, [this, why] { link.reconnect(why); });
    }
    return;
  }
  note_accepted_write();
  if (!repairs.empty()) send_repairs();
  // The server did not know this node: it was flushed, and lost the cells, too.
  const bool is_new = replies[1].integer == 1;
  if (is_new && registered) {
    epoch.fetch_add(1, std::memory_order_relaxed);
    store_version();
  }
  registered = true;
  // After a pause without heartbeats the other nodes may register a little later than this one.
  const bool paused = is_new || sent.mono - acknowledged_at > 2 * kHeartbeatInterval;
  if (paused) shrink_allowed_at = sent.mono + timeouts.node;
  acknowledged_at = sent.mono;
  on_nodes(replies, sent.mono >= shrink_allowed_at);
  // After the number of nodes, which belongs to it.
  const int64_t sent_at = sent.mono.time_since_epoch().count();
  if (paused) heard_since.store(sent_at, std::memory_order_release);
  heard_at.store(sent_at, std::memory_order_release);
}

// As the handshake did; whether it succeeds shows the next one.
void RedisOrigin::Worker::store_version() {
  Pipeline pipeline;
  add(pipeline, OriginCommand::kNodes, {"SET", kVersionKey, kOriginVersion, "NX"});
  if (!region.empty()) add(pipeline, OriginCommand::kNodes, {"SET", kRegionKey, region, "NX"});
  link.send(std::move(pipeline.text), pipeline.count, [](auto, auto) {});
}

void RedisOrigin::Worker::on_nodes(std::span<const RedisReply> replies, bool settled) {
  if (replies[3].type != RedisReply::Type::kInteger) return;
  const auto count = static_cast<uint32_t>(std::clamp<int64_t>(replies[3].integer, 1, 10'000));
  const uint32_t known = metrics.nodes.load(std::memory_order_relaxed);
  // A node that joins or leaves changes the ranks of the others.
  if (count != known) heartbeats_sent = 0;
  if (!settled && count < known) return;
  metrics.nodes.store(count, std::memory_order_relaxed);
  if (replies.size() < 5 || replies[4].type != RedisReply::Type::kList) return;
  uint32_t before = 0;
  for (const RedisReply& other : replies[4].items) before += other.text < name ? 1 : 0;
  rank.store(before, std::memory_order_relaxed);
}

void RedisOrigin::Worker::shut_down() {
  if (!link.ready()) return end();
  shutdown_timer.expires_after(kShutdownTimeout);
  shutdown_timer.async_wait([this](const auto&) { end(); });
  Pipeline pipeline;
  add(pipeline, OriginCommand::kNodes, {"ZREM", kNodesKey, name});
  link.send(std::move(pipeline.text), pipeline.count,
            [this](auto, auto) { asio::post(io, [this] { end(); }); });
}

}  // namespace weir::origins
