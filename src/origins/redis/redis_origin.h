// The regional origin in Redis; redis_cells.h describes the representation of a cell.
//
// A replay sends HSET and HGETALL for each cell in one pipeline. All traffic uses one connection,
// in order, so that an older total never overwrites a newer one.
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

class RedisOrigin final : public RegionalOrigin {
 public:
  // `clock` must outlive the origin. `seed` names this node among those that share the server, and
  // makes its pauses differ from theirs.
  RedisOrigin(const Clock& clock, RedisAddress address, uint64_t seed, RedisTimeouts timeouts = {});
  ~RedisOrigin() override;

  // Once each, in this order, from one thread. start() starts the thread that connects and
  // exchanges messages. stop() removes this node from the list of live nodes if the server answers
  // soon, and joins the thread; the destructor calls it, too.
  void start();
  void stop();

  void read(std::vector<CellRead> cells, OriginReply reply) override;
  void replay(std::vector<CellReplay> cells, OriginReply reply) override;
  void retire(std::vector<CellRetirement> cells, RetirementReply reply) override;
  void note_published(std::vector<CellPublished> cells) override;
  [[nodiscard]] Reach reach() const override;
  [[nodiscard]] uint32_t live_nodes() const override;
  [[nodiscard]] uint32_t rank() const override;
  [[nodiscard]] uint64_t epoch() const override;

  [[nodiscard]] const telemetry::OriginMetrics& metrics() const;
  // Why the origin is not ready; empty if it is.
  [[nodiscard]] std::string last_error() const;
  // Why the server refuses writes, and the remedy; empty while it accepts them.
  [[nodiscard]] std::string write_refusal() const;

 private:
  struct Worker;
  const std::unique_ptr<Worker> worker_;
};

struct RedisOriginOptions {
  RedisAddress address = {};
  uint64_t seed = 0;  // 0: random
};

// Not started: start() connects. `clock` must outlive the origin.
[[nodiscard]] std::shared_ptr<RedisOrigin> make_redis_origin(const Clock& clock,
                                                             RedisOriginOptions options);

}  // namespace weir::origins
