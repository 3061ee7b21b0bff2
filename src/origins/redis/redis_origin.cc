#include "origins/redis/redis_origin.h"

#include <openssl/sha.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <mutex>
#include <unordered_set>

#include "base/wide.h"
#include "origins/redis/breaker.h"

namespace weir::origins {

namespace asio = boost::asio;

namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
// Nodes say once a second that they live; who was not heard of for three is not counted.
constexpr std::string_view kNodesKey = "weir:nodes";
constexpr Nanos kHeartbeat = std::chrono::seconds(1);
constexpr Millis kAlive{3000};
// A cell outlives its last use by this, so that clocks may differ a little.
constexpr Millis kExpiryMargin{5000};
constexpr size_t kMostRemembered = 1 << 20;

// No component can have counted more: a limit and what batches held of it.
constexpr Count kMostPlausible = Count{1} << 44;

std::string hex(uint64_t value) {
  char text[16];
  return {text, std::to_chars(text, text + sizeof text, value, 16).ptr};
}

Error error_of(RedisFailure failure) {
  return {.code = failure == RedisFailure::kTimeout ? ErrorCode::kTimeout : ErrorCode::kUnavailable,
          .retry = Retry::kMayHelp,
          .detail = "the origin failed: " + std::string(to_string(failure)),
          .fix = "see whether Redis is up and can be reached"};
}

}  // namespace

std::string redis_key(const CellId& cell) {
  constexpr size_t kHashBytes = 16;
  constexpr std::string_view kDigits = "0123456789abcdef";
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(cell.tuple.data()), cell.tuple.size(), hash);
  std::string key = "weir:{";
  for (size_t i = 0; i < kHashBytes; ++i) {
    key += kDigits[hash[i] >> 4];
    key += kDigits[hash[i] & 15];
  }
  return key + "}:" + std::to_string(cell.sequence);
}

std::string redis_field(const Component& component) {
  return hex(component.incarnation) + "." + hex(component.generation);
}

struct RedisOrigin::Inside {
  Inside(const Clock& the_clock, RedisAddress address, uint64_t seed)
      : clock(the_clock),
        io(1),
        guard(asio::make_work_guard(io)),
        name(hex(seed)),
        link(io, the_clock, std::move(address), seed),
        probe(io) {}

  // One cell's part of a call: which field is ours, and which of the replies is its hash.
  struct Place {
    std::string field = {};
    size_t reply = 0;
    std::optional<CellTotals> known{};  // without asking
  };
  struct Call {
    std::string commands;
    size_t count = 0;
    std::vector<Place> places;
  };

  [[nodiscard]] bool asks(const OriginReply& reply);
  void send(Call call, OriginReply reply);
  // A server behind another connection may know nothing of what was sent before.
  void remember_expiries_of(uint64_t connection) {
    if (connection == expiries_of && expiry_sent.size() < kMostRemembered) return;
    expiries_of = connection;
    expiry_sent.clear();
  }
  void look_after();
  void beat(Instant now);
  void publish();
  [[nodiscard]] Result<std::vector<CellTotals>> totals(const Call& call,
                                                       std::span<const RedisReply> replies);
  [[nodiscard]] CellTotals totals_of(const RedisReply& hash, std::string_view field);

  const Clock& clock;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> guard;

  const std::string name;

  // On the thread of run().
  RedisLink link;
  asio::steady_timer probe;
  Breaker breaker;
  std::unordered_set<std::string> expiry_sent;  // keys
  uint64_t expiries_of = 0;                     // the connection they were sent on
  MonoTime beat_at{};

  // Single numbers: relaxed.
  std::atomic<uint64_t> reads{0}, replays{0}, commands{0}, failures{0}, circuit_open{0}, absurd{0};
  std::atomic<uint32_t> nodes{1};
  std::atomic<uint64_t> last_ready{0};  // the connection
  std::atomic<bool> is_ready{false}, is_closed{true};
  mutable std::mutex mutex;
  std::string trouble = "not connected yet";  // guarded by mutex
};

RedisOrigin::RedisOrigin(const Clock& clock, RedisAddress address, uint64_t seed)
    : inside_(std::make_unique<Inside>(clock, std::move(address), seed)) {}

RedisOrigin::~RedisOrigin() = default;

void RedisOrigin::run() {
  asio::post(inside_->io, [inside = inside_.get()] {
    inside->link.start();
    inside->look_after();
  });
  inside_->io.run();
}

void RedisOrigin::stop() {
  asio::post(inside_->io, [inside = inside_.get()] {
    inside->probe.cancel();
    inside->link.stop();
    inside->guard.reset();
    inside->io.stop();
  });
}

void RedisOrigin::read(std::vector<CellRead> cells, OriginReply reply) {
  Inside::Call call;
  for (const CellRead& cell : cells) {
    append_command(call.commands, {"HGETALL", redis_key(cell.cell)});
    call.places.push_back({.field = redis_field(cell.reader), .reply = call.count++});
  }
  inside_->reads.fetch_add(cells.size(), std::memory_order_relaxed);
  asio::post(inside_->io,
             [inside = inside_.get(), call = std::move(call), reply = std::move(reply)]() mutable {
               if (inside->asks(reply)) inside->send(std::move(call), std::move(reply));
             });
}

void RedisOrigin::replay(std::vector<CellReplay> cells, OriginReply reply) {
  inside_->replays.fetch_add(cells.size(), std::memory_order_relaxed);
  asio::post(inside_->io, [inside = inside_.get(), cells = std::move(cells),
                           reply = std::move(reply)]() mutable {
    if (!inside->asks(reply)) return;
    const WallTime now = inside->clock.now().wall;
    Inside::Call call;
    inside->remember_expiries_of(inside->link.connection());
    for (const CellReplay& cell : cells) {
      // A window that is over needs no telling: as good as told.
      if (cell.expires_at <= now) {
        call.places.push_back({.known = CellTotals{.mine = cell.total}});
        continue;
      }
      const std::string key = redis_key(cell.cell);
      std::string field = redis_field(cell.writer);
      if (cell.total > 0) {
        append_command(call.commands, {"HSET", key, field, std::to_string(cell.total)});
        ++call.count;
        if (inside->expiry_sent.insert(key).second) {
          const int64_t at = (cell.expires_at + kExpiryMargin).time_since_epoch().count();
          append_command(call.commands, {"PEXPIREAT", key, std::to_string(at)});
          ++call.count;
        }
      }
      append_command(call.commands, {"HGETALL", key});
      call.places.push_back({.field = std::move(field), .reply = call.count++});
    }
    inside->send(std::move(call), std::move(reply));
  });
}

// Whether it makes sense to ask; if not, the reply says so at once.
bool RedisOrigin::Inside::asks(const OriginReply& reply) {
  if (breaker.closed() && link.ready()) return true;
  (breaker.closed() ? failures : circuit_open).fetch_add(1, std::memory_order_relaxed);
  reply(error_of(RedisFailure::kUnreachable));
  return false;
}

void RedisOrigin::Inside::send(Call call, OriginReply reply) {
  if (call.count == 0) return reply(totals(call, {}));
  commands.fetch_add(call.count, std::memory_order_relaxed);
  std::string sent = std::move(call.commands);
  const size_t count = call.count;
  link.send(std::move(sent), count,
            [this, call = std::move(call), reply = std::move(reply)](
                RedisFailure failure, std::span<const RedisReply> replies) {
              Result<std::vector<CellTotals>> heard =
                  failure == RedisFailure::kNone
                      ? totals(call, replies)
                      : Result<std::vector<CellTotals>>(error_of(failure));
              breaker.note(clock.now().mono, heard.ok());
              if (!heard) failures.fetch_add(1, std::memory_order_relaxed);
              publish();
              reply(std::move(heard));
            });
}

Result<std::vector<CellTotals>> RedisOrigin::Inside::totals(const Call& call,
                                                            std::span<const RedisReply> replies) {
  for (const RedisReply& reply : replies) {
    if (reply.type != RedisReply::Type::kError) continue;
    const RedisFailure failure = failure_of(reply.text);
    if (failure == RedisFailure::kReadOnly) {
      // Not from within the reply: the link is in the middle of its list.
      asio::post(io, [this] { link.reconnect(RedisFailure::kReadOnly); });
    }
    Error error = error_of(failure);
    error.detail = "the origin answered: " + std::string(reply.text);
    return error;
  }
  std::vector<CellTotals> all;
  for (const Place& place : call.places) {
    if (place.known) {
      all.push_back(*place.known);
    } else if (replies[place.reply].type == RedisReply::Type::kList) {
      all.push_back(totals_of(replies[place.reply], place.field));
    } else {
      return error_of(RedisFailure::kOther);
    }
  }
  return all;
}

CellTotals RedisOrigin::Inside::totals_of(const RedisReply& hash, std::string_view field) {
  CellTotals totals;
  for (size_t i = 0; i + 1 < hash.items.size(); i += 2) {
    const std::string_view text = hash.items[i + 1].text;
    Count count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size() || text.empty() ||
        count > kMostPlausible) {
      absurd.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    Count& part = hash.items[i].text == field ? totals.mine : totals.siblings;
    part = base::saturating_add(part, count);
  }
  return totals;
}

// Says that this node lives, and hears how many do.
void RedisOrigin::Inside::beat(Instant now) {
  if (!link.ready() || !breaker.closed() || now.mono < beat_at) return;
  beat_at = now.mono + kHeartbeat;
  const auto stamp = [](WallTime time) { return std::to_string(time.time_since_epoch().count()); };
  std::string calls;
  append_command(calls, {"ZADD", kNodesKey, stamp(now.wall), name});
  append_command(calls, {"ZREMRANGEBYSCORE", kNodesKey, "-inf", stamp(now.wall - 10 * kAlive)});
  append_command(calls, {"ZCOUNT", kNodesKey, stamp(now.wall - kAlive), "+inf"});
  commands.fetch_add(3, std::memory_order_relaxed);
  link.send(std::move(calls), 3, [this](RedisFailure failure, std::span<const RedisReply> replies) {
    if (failure != RedisFailure::kNone) return;
    if (replies[2].type != RedisReply::Type::kInteger) return;
    const int64_t count = std::clamp<int64_t>(replies[2].integer, 1, 10'000);
    nodes.store(static_cast<uint32_t>(count), std::memory_order_relaxed);
  });
}

// Says that it lives, and probes while the breaker is open.
void RedisOrigin::Inside::look_after() {
  publish();
  const Instant now = clock.now();
  beat(now);
  if (link.ready() && breaker.probe_due(now.mono)) {
    std::string ping;
    append_command(ping, {"PING"});
    link.send(std::move(ping), 1,
              [this](RedisFailure failure, std::span<const RedisReply> replies) {
                if (failure == RedisFailure::kNone && replies[0].type != RedisReply::Type::kError) {
                  breaker.close();
                }
              });
  }
  probe.expires_after(kTick);
  probe.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) look_after();
  });
}

void RedisOrigin::Inside::publish() {
  is_ready.store(link.ready(), std::memory_order_relaxed);
  if (link.ready()) last_ready.store(link.connection(), std::memory_order_relaxed);
  is_closed.store(breaker.closed(), std::memory_order_relaxed);
  const std::lock_guard lock(mutex);
  trouble = link.trouble();
}

uint32_t RedisOrigin::live_nodes() const {
  return inside_->nodes.load(std::memory_order_relaxed);
}

uint64_t RedisOrigin::epoch() const {
  return inside_->last_ready.load(std::memory_order_relaxed);
}

RedisOriginStats RedisOrigin::stats() const {
  const auto get = [](const auto& value) { return value.load(std::memory_order_relaxed); };
  return {.reads = get(inside_->reads),
          .replays = get(inside_->replays),
          .commands = get(inside_->commands),
          .failures = get(inside_->failures),
          .circuit_open = get(inside_->circuit_open),
          .absurd = get(inside_->absurd),
          .nodes = get(inside_->nodes),
          .ready = get(inside_->is_ready),
          .closed = get(inside_->is_closed)};
}

std::string RedisOrigin::trouble() const {
  const std::lock_guard lock(inside_->mutex);
  return inside_->trouble;
}

}  // namespace weir::origins
