// The regional origin in Redis; redis_cells.h says how a cell looks there.
//
// Telling is HSET and hearing is HGETALL of the same cell, in one pipeline. All traffic goes
// through one connection in order, so that a component never falls because an older total
// overtook a newer one.
//
// Safe from any thread but where noted; replies come on the origin's own thread.

#pragma once

#include <memory>
#include <string>

#include "origins/redis/redis_link.h"
#include "weir/clock.h"
#include "weir/origin.h"

namespace weir::origins {

class RedisOrigin final : public RegionalOrigin {
 public:
  // `clock` must outlive the origin. `seed` names this node among those that share the server, and
  // makes its pauses differ from theirs.
  RedisOrigin(const Clock& clock, RedisAddress address, uint64_t seed);
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
  // Why it is not ready, in words; empty if it is.
  [[nodiscard]] std::string trouble() const;
  // Why it refuses writes, and what to do, in words; empty while it accepts them.
  [[nodiscard]] std::string refusal() const;

 private:
  struct Inside;
  const std::unique_ptr<Inside> inside_;
};

struct RedisOriginOptions {
  RedisAddress address = {};
  uint64_t seed = 0;  // 0: random
};

// Not started: start() connects. `clock` must outlive the origin.
[[nodiscard]] std::shared_ptr<RedisOrigin> make_redis_origin(const Clock& clock,
                                                             RedisOriginOptions options);

}  // namespace weir::origins
