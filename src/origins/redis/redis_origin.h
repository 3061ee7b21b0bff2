// The regional origin in Redis.
//
// A cell is a small hash: a field for each component, its total as the value, under a key
// made of a hash of the tuple and the window's sequence; the hash is in braces, so that all
// cells of a tuple share a slot of a cluster. Telling is HSET and hearing is HGETALL of the
// same cell, in one pipeline. All traffic goes through one connection in order, so that a
// component never falls because an older total overtook a newer one.
//
// What stands there is not trusted: values that are no count are counted and ignored, sums
// saturate. Safe from any thread but where noted; replies come on the thread of run().

#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "origins/redis/redis_link.h"
#include "weir/clock.h"
#include "weir/origin.h"

namespace weir::origins {

// Totals since the start, and what is so now.
struct RedisOriginStats {
  uint64_t reads = 0;    // cells
  uint64_t replays = 0;  // cells
  uint64_t commands = 0;
  uint64_t failures = 0;      // calls
  uint64_t circuit_open = 0;  // calls not made because most had failed
  uint64_t absurd = 0;        // values at the origin that were no count
  uint64_t nodes = 1;         // that share it now
  bool ready = false;
  bool closed = true;  // the breaker
};

class RedisOrigin final : public RegionalOrigin {
 public:
  // `seed` names this process among those that share it, and keeps their pauses apart.
  RedisOrigin(const Clock& clock, RedisAddress address, uint64_t seed);
  ~RedisOrigin() override;

  // Carries messages until stop(), which may come from any thread; to be called once, and to
  // have returned before the end.
  void run();
  void stop();

  void read(std::vector<CellRead> cells, OriginReply reply) override;
  void replay(std::vector<CellReplay> cells, OriginReply reply) override;
  [[nodiscard]] uint32_t live_nodes() const override;
  [[nodiscard]] uint64_t epoch() const override;

  [[nodiscard]] RedisOriginStats stats() const;
  // Why it is not ready, in words; empty if it is.
  [[nodiscard]] std::string trouble() const;

 private:
  struct Inside;
  const std::unique_ptr<Inside> inside_;
};

// The key of a cell, and the field of a component in it.
[[nodiscard]] std::string redis_key(const CellId& cell);
[[nodiscard]] std::string redis_field(const Component& component);

}  // namespace weir::origins
