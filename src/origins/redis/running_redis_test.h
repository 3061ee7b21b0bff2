// A started origin on a real redis-server, and builders for its requests.

#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "origins/redis/redis_cells.h"
#include "origins/redis/redis_origin.h"
#include "origins/redis/redis_subscription.h"
#include "tests/servers/await.h"
#include "tests/servers/redis_server.h"

namespace weir::origins {

using servers::await;
using servers::RedisServer;
using telemetry::OriginCommand;
using telemetry::OriginError;

// The system clock with an offset of its wall time.
struct RealClock final : Clock {
  RealClock() = default;
  explicit RealClock(Millis by) : offset(by) {}
  [[nodiscard]] Instant now() const override {
    Instant now = system_clock().now();
    now.wall += offset;
    return now;
  }
  void advance(Millis) {}
  Millis offset{0};
};

// On a busy machine a call may take seconds. Then a test must neither fail nor lose its connection.
inline constexpr RedisTimeouts kPatient{
    .connect = Millis(600'000), .reply = Millis(600'000), .node = RedisTimeouts().node};
// For tests of timeouts.
inline constexpr RedisTimeouts kImpatient{};

// Starts the origin, and stops it at the end.
class RunningOrigin {
 public:
  RunningOrigin(const Clock& clock, uint16_t port, RedisAddress address = {}, uint64_t seed = 1,
                RedisTimeouts timeouts = kPatient)
      : origin_(std::make_shared<RedisOrigin>(clock, with_port(std::move(address), port), seed,
                                              timeouts)) {
    origin_->start();
  }
  ~RunningOrigin() { origin_->stop(); }
  RunningOrigin(const RunningOrigin&) = delete;
  RunningOrigin& operator=(const RunningOrigin&) = delete;

  [[nodiscard]] const std::shared_ptr<RedisOrigin>& origin() const { return origin_; }
  RedisOrigin* operator->() const { return origin_.get(); }

  void await_ready() const {
    await([this] { return origin_->metrics().ready.load(); });
  }

  // Blocking calls.
  [[nodiscard]] Result<std::vector<CellTotals>> read(const std::vector<CellRead>& cells) const {
    return wait<std::vector<CellTotals>>(
        [&](OriginReply reply) { origin_->read(cells, std::move(reply)); });
  }
  [[nodiscard]] Result<std::vector<CellTotals>> replay(const std::vector<CellReplay>& cells) const {
    return wait<std::vector<CellTotals>>(
        [&](OriginReply reply) { origin_->replay(cells, std::move(reply)); });
  }
  [[nodiscard]] Result<size_t> retire(const std::vector<CellRetirement>& cells) const {
    return wait<size_t>([&](RetirementReply reply) { origin_->retire(cells, std::move(reply)); });
  }

  [[nodiscard]] Result<BridgeGrant> acquire(const std::string& holder, Millis lease) const {
    return wait<BridgeGrant>(
        [&](GrantReply reply) { origin_->acquire(holder, lease, std::move(reply)); });
  }
  [[nodiscard]] Result<bool> save(const std::string& holder, const std::string& state,
                                  const std::string& before = {}) const {
    return wait<bool>(
        [&](SavedReply reply) { origin_->save(holder, before, state, std::move(reply)); });
  }
  [[nodiscard]] Result<std::vector<DueTuple>> read_due(WallTime by, size_t most = 1000,
                                                       WallTime from = {}) const {
    return wait<std::vector<DueTuple>>(
        [&](DueReply reply) { origin_->read_due(from, by, most, std::move(reply)); });
  }
  [[nodiscard]] Result<std::vector<TupleCounts>> read_tuples(
      const std::vector<TupleRead>& tuples) const {
    return wait<std::vector<TupleCounts>>(
        [&](TupleReply reply) { origin_->read_tuples(tuples, std::move(reply)); });
  }
  [[nodiscard]] Result<std::vector<TupleCounts>> update_tuples(
      const std::vector<TupleUpdate>& updates) const {
    return wait<std::vector<TupleCounts>>(
        [&](TupleReply reply) { origin_->update_tuples(updates, std::move(reply)); });
  }
  [[nodiscard]] Result<std::vector<StepTotals>> step(const std::vector<CellStep>& steps) const {
    return wait<std::vector<StepTotals>>(
        [&](StepReply reply) { origin_->step(steps, std::move(reply)); });
  }
  [[nodiscard]] Result<std::vector<ExactAnswer>> decide(const std::vector<ExactCall>& calls) const {
    return wait<std::vector<ExactAnswer>>(
        [&](ExactReply reply) { origin_->decide(calls, std::move(reply)); });
  }
  [[nodiscard]] Result<bool> keep_record(const std::string& record) const {
    return wait<bool>([&](KeptReply reply) { origin_->keep_record(record, std::move(reply)); });
  }
  [[nodiscard]] Result<std::vector<std::string>> read_records() const {
    return wait<std::vector<std::string>>(
        [&](RecordsReply reply) { origin_->read_records(std::move(reply)); });
  }

 private:
  static RedisAddress with_port(RedisAddress address, uint16_t port) {
    address.port = port;
    return address;
  }
  template <typename Answer, typename Call>
  static Result<Answer> wait(const Call& call) {
    std::mutex mutex;
    std::condition_variable replied;
    std::optional<Result<Answer>> received;
    call([&](Result<Answer> answer) {
      const std::lock_guard lock(mutex);
      received = std::move(answer);
      replied.notify_one();
    });
    std::unique_lock lock(mutex);
    replied.wait(lock, [&] { return received.has_value(); });
    return std::move(*received);
  }

  std::shared_ptr<RedisOrigin> origin_;
};

inline constexpr Component kNode{.incarnation = 0xabc, .generation = 1};
inline constexpr Component kSibling{.incarnation = 0xdef, .generation = 1};

inline constexpr Millis kLease{60'000};  // of the bridge

// The wall time in so many ms.
inline WallTime in(int64_t ms) {
  return system_clock().now().wall + Millis(ms);
}

inline CellReplay replay_of(const std::string& tuple, Count total, Component writer = kNode) {
  return {.cell = {tuple, 5}, .writer = writer, .total = total, .expires_at = in(60'000)};
}
inline CellRead read_of(const std::string& tuple, Component reader = kNode) {
  return {.cell = {tuple, 5}, .reader = reader};
}

// The number after the first ':' of an answer.
inline int64_t number_in(const std::string& answer) {
  return std::stoll(answer.substr(answer.find(':') + 1));
}

// When a key expires, by the clock of the server; before 1970: it does not exist or has no expiry.
inline WallTime expiry(const RedisServer& server, const std::string& key) {
  return WallTime(Millis(number_in(server.ask("PEXPIRETIME " + key))));
}

// How long the origin keeps a key after its last use.
inline constexpr Millis kExpiryMargin{5000};

// Connections that receive the messages of the bridge.
inline size_t subscribers(const RedisServer& server, int database = 0) {
  const std::string channel = bridge_channel(database);
  const std::string answer = server.ask("PUBSUB NUMSUB " + channel);
  const size_t at = answer.find(channel);
  return at == std::string::npos
             ? 0
             : static_cast<size_t>(number_in(answer.substr(at + channel.size())));
}

}  // namespace weir::origins
