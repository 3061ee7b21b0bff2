// The regional origin in Redis; redis_cells.h says how a cell looks there.
//
// Telling is HSET and hearing is HGETALL of the same cell, in one pipeline. All traffic goes
// through one connection in order, so that a component never falls because an older total
// overtook a newer one.
//
// Safe from any thread but where noted; replies come on the thread of run().

#pragma once

#include <memory>
#include <string>

#include "origins/redis/redis_link.h"
#include "weir/clock.h"
#include "weir/origin.h"

namespace weir::origins {

class RedisOrigin final : public RegionalOrigin {
 public:
  // `seed` names this process among those that share it, and keeps their pauses apart.
  RedisOrigin(const Clock& clock, RedisAddress address, uint64_t seed);
  ~RedisOrigin() override;

  // Carries messages until stop(), which may come from any thread; to be called once, and to
  // have returned before the end. Says goodbye to the other nodes if it can.
  void run();
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

}  // namespace weir::origins
