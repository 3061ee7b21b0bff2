// The part of the Redis origin that runs on its own thread.
//
// These concerns share its connection: cell calls (redis_calls.cc), scripts
// (redis_script_calls.cc), steps (redis_steps.cc), exact decisions (redis_exact.cc), the store of
// the bridge (redis_bridge.cc, redis_tuple_calls.cc), heartbeats that list the live nodes
// (redis_nodes.cc), and the health of the server (redis_health.cc). Messages of the bridge have a
// connection of their own (redis_subscription.h).
//
// All methods run on the thread of `io`; other threads post to it, and read the atomics and the
// texts under `mutex`.

#pragma once

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/breaker.h"
#include "base/mutex.h"
#include "origins/redis/redis_cells.h"
#include "origins/redis/redis_known_cells.h"
#include "origins/redis/redis_link.h"
#include "origins/redis/redis_origin.h"
#include "origins/redis/redis_repairs.h"
#include "origins/redis/redis_scripts.h"
#include "origins/redis/redis_subscription.h"
#include "platform/thread_group.h"
#include "telemetry/origin_metrics.h"

namespace weir::origins {

// Parses the reply to TIME: seconds and microseconds.
[[nodiscard]] std::optional<WallTime> parse_time(const RedisReply& reply);

struct RedisOrigin::Worker {
  Worker(const Clock& the_clock, const RedisAddress& address, uint64_t seed,
         RedisTimeouts the_timeouts, std::string the_region);

  void start();
  // Removes this node from the list of live nodes if the server answers soon, then ends.
  void shut_down();

  void read(const std::vector<CellRead>& cells, OriginReply reply);
  void replay(const std::vector<CellReplay>& cells, OriginReply reply);
  void retire(const std::vector<CellRetirement>& cells, RetirementReply reply);
  void step(std::vector<CellStep> steps, StepReply reply);
  void decide(std::vector<ExactCall> calls, ExactReply reply);

  void acquire(const std::string& holder, Millis lease, GrantReply reply);
  void release(const std::string& holder);
  void save(const std::string& holder, const std::string& before, const std::string& state,
            SavedReply reply);
  void read_due(WallTime from, WallTime by, size_t most, DueReply reply);
  void add_due(const std::vector<DueTuple>& entries);
  void remove_due(const std::vector<DueTuple>& entries);
  void keep_record(const std::string& record, KeptReply reply);
  void read_records(RecordsReply reply);
  // The time by the clock of the server, which all nodes share; by our own until it is known.
  [[nodiscard]] WallTime server_time() const;
  void read_tuples(std::vector<TupleRead> tuples, TupleReply reply);
  void update_tuples(std::vector<TupleUpdate> updates, TupleReply reply);
  void notify(const std::string& body);

  // Commands in RESP; each is counted in the metrics.
  struct Pipeline {
    std::string text;
    size_t count = 0;
  };
  void add(Pipeline& pipeline, telemetry::OriginCommand kind,
           std::span<const std::string_view> words);
  void add(Pipeline& pipeline, telemetry::OriginCommand kind,
           std::initializer_list<std::string_view> words) {
    add(pipeline, kind, std::span(words.begin(), words.size()));
  }
  // Keeps a cell, and raises its departed component. Needs the script kRestore.
  void add_restore(Pipeline& pipeline, const RedisRepairs::Repair& repair);
  // The time to live of a cell in ms. A duration, since our clock may differ from the server's.
  [[nodiscard]] std::string ttl_text(WallTime expires_at) const;
  [[nodiscard]] static std::string ttl_text(WallTime expires_at, WallTime now);

  // One cell of a call. Its replies, in this order: the write, the expiry, the hash; the first two
  // only if they were sent.
  struct CellCall {
    std::string field = {};  // written or read by this node
    size_t first_reply = 0;
    size_t hash_reply = 0;
    Count total = 0;       // written
    Count limit_seen = 0;  // written if known
    bool expired = false;  // nothing was sent: the cell counts as acknowledged
    bool written = false;
    bool by_step = false;      // a step without requests wrote and read it
    bool expiry_sent = false;  // false: the cell should still have the expiry of an earlier write
    std::string key = {};
    WallTime expires_at{};                               // if known
    std::optional<size_t> regions_reply = std::nullopt;  // of the region counts, if requested
  };
  struct Call {
    Pipeline pipeline;
    std::vector<CellCall> cells;
    std::optional<size_t> due_reply = std::nullopt;  // the first of the last replies
    [[nodiscard]] bool writes() const;
    // The first error that is not about a single cell.
    [[nodiscard]] const RedisReply* error_in(std::span<const RedisReply> replies) const;
  };

  // Cell calls.
  void write_cell(Pipeline& pipeline, CellCall& cell);
  void send(Call call, OriginReply reply);
  void check_expiries(const Call& call, std::span<const RedisReply> replies);
  // Of a cell that was read. One that has expired needs no repair.
  void observe_departed(const std::string& key, Count departed, WallTime expires_at);
  void send_repairs();
  [[nodiscard]] Result<std::vector<CellTotals>> totals(const Call& call,
                                                       std::span<const RedisReply> replies);
  void reset_after_reconnect();

  // Scripts.
  using Replies = std::span<const RedisReply>;
  struct ScriptCall {
    Pipeline commands;
    std::vector<Script> scripts = {};           // that the commands use
    size_t optional = 0;                        // so many of the last commands may fail
    std::function<void(Result<Replies>)> done;  // one reply per command, valid during the call
  };
  enum class OnMissingScript : uint8_t { kRetry, kFail };
  void call_scripts(ScriptCall call) {
    call_scripts(std::make_shared<const ScriptCall>(std::move(call)), OnMissingScript::kRetry);
  }
  void call_scripts(const std::shared_ptr<const ScriptCall>& call, OnMissingScript policy);
  void add_script(Pipeline& pipeline, telemetry::OriginCommand kind, Script script,
                  std::span<const std::string_view> keys, std::span<const std::string_view> values);
  void add_script(Pipeline& pipeline, telemetry::OriginCommand kind, Script script,
                  std::initializer_list<std::string_view> keys,
                  std::initializer_list<std::string_view> values) {
    add_script(pipeline, kind, script, std::span(keys.begin(), keys.size()),
               std::span(values.begin(), values.size()));
  }
  // Adds SCRIPT LOAD, unless this connection has sent it.
  void load_script(Pipeline& pipeline, Script script);

  // Steps. The reply of the script: requests granted, the component, the cell, the last window.
  static constexpr size_t kStepReplies = 4;
  static constexpr size_t kStepCell = 2;
  void add_step(Pipeline& commands, const CellStep& step);
  [[nodiscard]] StepTotals step_totals(const CellStep& step, const RedisReply& reply);
  void note_stepped(const CellStep& step, Count total);
  // Whether a write of this total would take back what a step has granted.
  [[nodiscard]] bool is_below_step(const std::string& key, const std::string& field, Count total);

  // Exact decisions.
  struct ExactCalls;
  [[nodiscard]] Script add_exact(Pipeline& commands, const ExactCall& call);
  void decide_next(const std::shared_ptr<ExactCalls>& calls);

  // Region counts.
  // Uses the script kAddDue.
  void add_due_commands(Pipeline& pipeline, std::span<const DueTuple> entries);
  void add_update(Pipeline& commands, const TupleUpdate& update);
  void add_floor(Pipeline& commands, const std::string& prefix, const CellFloor& floor);
  [[nodiscard]] std::vector<RegionCount> regions_of(const RedisReply& hash);
  [[nodiscard]] TupleCounts counts_of(const std::vector<int64_t>& sequences, Replies hashes);
  struct TupleReads;
  struct TupleUpdates;
  void read_next(const std::shared_ptr<TupleReads>& reads);
  void update_next(const std::shared_ptr<TupleUpdates>& updates);

  // Heartbeats.
  void send_heartbeat(Instant now);
  void request_time(Instant now);
  void on_time(Instant sent, const RedisReply& reply);
  void on_heartbeat(Instant sent, std::span<const RedisReply> replies);
  void store_version();
  void on_nodes(std::span<const RedisReply> replies, bool settled);

  // Health.
  [[nodiscard]] bool reachable() const { return breaker.closed() && link.ready(); }
  // Runs a call that needs the server, after the first attempt to connect: a process that has just
  // started does not know what the others have counted.
  void run_when_started(std::function<void()> call);
  void note_started();
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
  const std::string name;     // of this node
  const std::string region;   // empty: no other region exists
  const std::string channel;  // of the messages of the bridge
  telemetry::OriginMetrics metrics;

  // On the thread of `io`.
  RedisLink link;
  boost::asio::steady_timer tick_timer, shutdown_timer;
  base::Breaker breaker;
  RedisRepairs repairs;
  RedisSubscription subscription;
  bool ended = false;

  // What this connection has received; a server behind another connection may have none of it.
  uint64_t sent_on_connection = 0;
  RedisKnownCells known_cells;
  std::array<bool, static_cast<size_t>(Script::kCount)> scripts_sent{};

  // Totals set by recent steps: a replay that was collected before must not lower them. By a hash
  // of key and field.
  struct Stepped {
    Count total = 0;
    MonoTime until{};
  };
  std::unordered_map<uint64_t, Stepped> stepped;
  std::deque<std::pair<MonoTime, uint64_t>> step_ends;  // in order

  MonoTime heartbeat_at{};
  MonoTime acknowledged_at{};    // when the last acknowledged heartbeat was sent
  MonoTime shrink_allowed_at{};  // from then on a smaller number of nodes is accepted
  uint64_t heartbeats_sent = 0;  // since the node list was last requested
  bool registered = false;       // on this connection
  uint64_t last_ready_connection = 0;
  // From our monotonic clock to the server's clock; none: not requested yet on this connection. So
  // the origin does not depend on our wall clock.
  std::optional<Millis> server_time_ahead;
  bool starting = true;  // the first attempt to connect has not ended
  std::vector<std::function<void()>> early_calls;
  Nanos last_latency{0};
  std::string refusal;  // why the server refuses writes; empty: it accepts them

  // Independent values: relaxed.
  std::atomic<uint32_t> rank{0};
  std::atomic<int64_t> heard_since{0};  // Membership, in ns; 0: never
  std::atomic<int64_t> heard_at{0};
  std::atomic<uint64_t> epoch{0};
  std::atomic<Reach> reach{Reach::kPrompt};
  mutable base::StdMutex mutex;
  std::string shown_error = "not connected yet";  // guarded by mutex
  std::string shown_refusal;                      // guarded by mutex

  platform::ThreadGroup thread;  // last, so that it ends before the members that it uses
};

// The error that a caller receives.
[[nodiscard]] Error to_error(OriginError error);
// With the answer of the server to a call that may use scripts.
[[nodiscard]] Error to_error(OriginError error, std::string_view answer,
                             std::span<const Script> scripts);

}  // namespace weir::origins
