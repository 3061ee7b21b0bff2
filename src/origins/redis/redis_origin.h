// The regional origin in Redis; redis_cells.h and redis_tuples.h describe what it stores.
//
// A replay sends HSET and HGETALL for each cell in one pipeline. All calls use one connection, in
// order, so that an older total never overwrites a newer one. Messages of the bridge come over a
// second one, which exists only while there are handlers.
//
// Safe from any thread unless noted. Replies come on the thread of the origin.

#pragma once

#include <memory>
#include <string>

#include "origins/redis/redis_address.h"
#include "telemetry/origin_metrics.h"
#include "weir/clock.h"
#include "weir/origin.h"

namespace weir::origins {

class RedisOrigin final : public RegionalOrigin,
                          public StepStore,
                          public ExactStore,
                          public BridgeStore {
 public:
  // `clock` must outlive the origin. `seed` names this node among those that share the server, and
  // makes its pauses differ from theirs.
  // `region`: of this process, if it shares counts with other regions; else empty.
  RedisOrigin(const Clock& clock, RedisAddress address, uint64_t seed, RedisTimeouts timeouts = {},
              std::string region = {});
  ~RedisOrigin() override;

  // Once each, in this order, from one thread. start() starts the thread that connects and
  // exchanges messages. stop() removes this node from the list of live nodes if the server answers
  // soon, and joins the thread; the destructor calls it, too.
  void start();
  void stop();

  void read(std::vector<CellRead> cells, OriginReply reply) override;
  void replay(std::vector<CellReplay> cells, OriginReply reply) override;
  void retire(std::vector<CellRetirement> cells, RetirementReply reply) override;
  [[nodiscard]] Reach reach() const override;
  [[nodiscard]] uint32_t live_nodes() const override;
  [[nodiscard]] uint32_t rank() const override;
  // Also changes when the messages of the bridge may have been missed: after each subscription.
  [[nodiscard]] uint64_t epoch() const override;
  void step(std::vector<CellStep> steps, StepReply reply) override;
  [[nodiscard]] std::optional<Membership> membership() const override;
  [[nodiscard]] StepStore* step_store() override { return this; }
  void decide(std::vector<ExactCall> calls, ExactReply reply) override;
  [[nodiscard]] ExactStore* exact_store() override { return this; }
  [[nodiscard]] BridgeStore* bridge_store() override { return this; }

  // Calls run in their order. Those without a reply are dropped while the server is unreachable.
  void acquire(std::string holder, Millis lease, GrantReply reply) override;
  void release(std::string holder) override;
  void save(std::string holder, std::string before, std::string state, SavedReply reply) override;
  void read_due(WallTime from, WallTime by, size_t most, DueReply reply) override;
  void add_due(std::vector<DueTuple> entries) override;
  void remove_due(std::vector<DueTuple> entries) override;
  void read_tuples(std::vector<TupleRead> tuples, TupleReply reply) override;
  void update_tuples(std::vector<TupleUpdate> updates, TupleReply reply) override;
  void keep_record(std::string record, KeptReply reply) override;
  void read_records(RecordsReply reply) override;
  void notify(std::string body) override;
  [[nodiscard]] Subscription subscribe(BridgeMessageHandler handler) override;

  [[nodiscard]] const telemetry::OriginMetrics& metrics() const;
  // Why the origin is not ready; empty if it is.
  [[nodiscard]] std::string last_error() const;
  // Why the server refuses writes, and the remedy; empty while it accepts them.
  [[nodiscard]] std::string write_refusal() const;

 private:
  struct Worker;
  template <typename Reply, typename Call>
  void post(Reply reply, Call call);
  template <typename Call>
  void post(Call call);

  const std::unique_ptr<Worker> worker_;
};

struct RedisOriginOptions {
  RedisAddress address = {};
  uint64_t seed = 0;        // 0: random
  std::string region = {};  // see RedisOrigin
  RedisTimeouts timeouts = {};
};

// Not started: start() connects. `clock` must outlive the origin.
[[nodiscard]] std::shared_ptr<RedisOrigin> make_redis_origin(const Clock& clock,
                                                             RedisOriginOptions options);

}  // namespace weir::origins
