// The part of the Redis origin that runs on its own thread.
//
// Three concerns share its connection: cell calls (redis_calls.cc), heartbeats that list the live
// nodes (redis_nodes.cc), and the health of the server (redis_health.cc).
//
// All methods run on the thread of `io`; other threads post to it, and read the atomics and the
// texts under `mutex`.

#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/breaker.h"
#include "base/mutex.h"
#include "origins/redis/redis_cells.h"
#include "origins/redis/redis_link.h"
#include "origins/redis/redis_origin.h"
#include "origins/redis/redis_repairs.h"
#include "platform/thread_group.h"
#include "telemetry/origin_metrics.h"

namespace weir::origins {

struct RedisOrigin::Worker {
  Worker(const Clock& the_clock, RedisAddress address, uint64_t seed, RedisTimeouts the_timeouts);

  void start();
  // Removes this node from the list of live nodes if the server answers soon, then ends.
  void shut_down();

  void read(const std::vector<CellRead>& cells, OriginReply reply);
  void replay(const std::vector<CellReplay>& cells, OriginReply reply);
  void retire(std::vector<CellRetirement> cells, RetirementReply reply);
  void note_published(const std::vector<CellPublished>& cells);

  // Commands in RESP; each is counted in the metrics.
  struct Pipeline {
    std::string text;
    size_t count = 0;
  };
  void add(Pipeline& pipeline, telemetry::OriginCommand kind,
           std::initializer_list<std::string_view> words);
  void add_expiry(Pipeline& pipeline, std::string_view key, WallTime expires_at);
  // The time to live of a cell in ms. A duration, since our clock may differ from the server's.
  [[nodiscard]] std::string ttl_text(WallTime expires_at) const;

  // One cell of a call. Its replies, in this order: the write, the expiry, the hash; the first two
  // only if they were sent.
  struct CellCall {
    std::string field = {};  // written or read by this node
    size_t first_reply = 0;
    size_t hash_reply = 0;
    Count total = 0;       // written
    bool expired = false;  // nothing was sent: the cell counts as acknowledged
    bool written = false;
    bool expiry_sent = false;  // false: the cell should still have the expiry of an earlier write
    std::string key = {};
    WallTime expires_at{};  // if known
  };
  struct Call {
    Pipeline pipeline;
    std::vector<CellCall> cells;
    [[nodiscard]] bool writes() const;
  };

  // Cell calls.
  void write_field(Pipeline& pipeline, CellCall& cell, telemetry::OriginCommand kind);
  void send(Call call, OriginReply reply);
  void send_published(Call call);
  enum class OnMissingScript : uint8_t { kRetry, kFail };
  void retire(std::vector<CellRetirement> cells, RetirementReply reply, OnMissingScript policy);
  void check_expiries(const Call& call, std::span<const RedisReply> replies);
  void send_repairs();
  [[nodiscard]] Result<std::vector<CellTotals>> totals(const Call& call,
                                                       std::span<const RedisReply> replies);
  void reset_after_reconnect();

  // Heartbeats.
  void send_heartbeat(Instant now);
  void request_time(Instant now);
  void on_time(Instant sent, const RedisReply& reply);
  void on_heartbeat(Instant sent, std::span<const RedisReply> replies);
  void on_nodes(std::span<const RedisReply> replies, bool settled);

  // Health.
  [[nodiscard]] bool reachable() const { return breaker.closed() && link.ready(); }
  // Rejects the call if the server is not reachable.
  [[nodiscard]] bool check_reachable(const std::function<void(Error)>& reject);
  void note_call(MonoTime began, std::optional<OriginError> failure);
  void note_refused_write(OriginError why, std::string_view text);
  void note_accepted_write();
  void tick();
  void update_status();
  void end();

  const Clock& clock;
  boost::asio::io_context io;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard;
  const RedisTimeouts timeouts;
  const std::string name;  // of this node
  const std::string retire_sha = sha_of_script(kRetireScript);
  const std::string restore_sha = sha_of_script(kRestoreScript);
  telemetry::OriginMetrics metrics;

  // On the thread of `io`.
  RedisLink link;
  boost::asio::steady_timer tick_timer, shutdown_timer;
  base::Breaker breaker;
  RedisRepairs repairs;
  bool ended = false;

  // What this connection has received; a server behind another connection may have none of it.
  uint64_t sent_on_connection = 0;
  std::unordered_set<std::string> expiries_sent;  // keys
  bool retire_script_sent = false;
  bool restore_script_sent = false;

  MonoTime heartbeat_at{};
  MonoTime acknowledged_at{};    // when the last acknowledged heartbeat was sent
  MonoTime shrink_allowed_at{};  // from then on a smaller number of nodes is accepted
  uint64_t heartbeats_sent = 0;  // since the node list was last requested
  bool registered = false;       // on this connection
  uint64_t last_ready_connection = 0;
  // From our monotonic clock to the server's clock; none: not requested yet on this connection. So
  // the origin does not depend on our wall clock.
  std::optional<Millis> server_time_ahead;
  Nanos last_latency{0};
  std::string refusal;  // why the server refuses writes; empty: it accepts them

  // Independent values: relaxed.
  std::atomic<uint32_t> rank{0};
  std::atomic<uint64_t> epoch{0};
  std::atomic<Reach> reach{Reach::kNone};
  mutable base::StdMutex mutex;
  std::string shown_error = "not connected yet";  // guarded by mutex
  std::string shown_refusal;                      // guarded by mutex

  platform::ThreadGroup thread;  // last, so that it ends before the members that it uses
};

// The error that a caller receives.
[[nodiscard]] Error to_error(OriginError error);

}  // namespace weir::origins
