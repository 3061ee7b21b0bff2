// Reads the origin before a decision: at most one read per tuple is in flight, and requests that
// need the same counts meanwhile wait for it, each on its own executor.
//
// Each request waits until its own deadline. A read is in the map until its reply or an error
// comes, nobody waits for it any more, or it is older than the read deadline. It is removed under
// the lock under which waiters join. So a waiter either joins a read that has not ended or starts
// another; no waiter is lost. A reply is merged however late.
//
// Safe from any thread. Holds no lock while it calls the origin.

#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "algorithms/windows.h"
#include "base/atomic.h"
#include "base/mutex.h"
#include "memory/tuple_key.h"
#include "memory/tuple_store.h"
#include "regional/caller.h"
#include "regional/freshness.h"
#include "regional/merger.h"
#include "regional/region_state.h"
#include "telemetry/limiter_counters.h"
#include "weir/origin.h"

namespace weir::regional {

// One tuple to read. A tuple that is not in the table is read, too, but not created.
struct ReadRequest {
  const memory::TupleKey* key = nullptr;
  Millis duration{0};
  ReadRequirement requirement = ReadRequirement::kCold;
};

struct ReadResult {
  bool answered = false;              // by the origin, before the deadline
  bool merged = false;                // into the tuple in the table
  algorithms::WindowCounts counts{};  // of the whole region
  // Of all regions; null without a ledger.
  std::shared_ptr<const std::vector<RegionCount>> regions = nullptr;
};

class Refresh : public std::enable_shared_from_this<Refresh> {
 public:
  Refresh(std::shared_ptr<memory::TupleStore> tuples, std::shared_ptr<RegionState> region,
          std::shared_ptr<const Merger> merger,
          std::shared_ptr<telemetry::LimiterCounters> counters)
      : tuples_(std::move(tuples)),
        region_(std::move(region)),
        merger_(std::move(merger)),
        counters_(std::move(counters)) {}

  // Reads all requested tuples, then calls `done` on the caller's executor with one result for
  // each, in order.
  void read(Instant now, const std::vector<ReadRequest>& requests, const Caller& caller,
            UniqueFunction<void(const std::vector<ReadResult>&)> done);

 private:
  struct Waiter;
  struct Subscription;
  struct Flight;
  using WaiterPtr = std::shared_ptr<Waiter>;
  using FlightPtr = std::shared_ptr<Flight>;
  static constexpr size_t kShards = 16;
  struct Shard {
    base::Mutex mutex;
    std::unordered_map<std::string, FlightPtr> flights WEIR_GUARDED_BY(mutex);
  };

  [[nodiscard]] Shard& shard_of(const Flight& flight);
  void note_state(Flight& flight) const;
  void on_reply(const std::vector<FlightPtr>& flights, Result<std::vector<CellTotals>> totals);
  void expire(const WaiterPtr& waiter, const std::vector<FlightPtr>& flights, MonoTime deadline);
  void fail(const FlightPtr& flight);
  void note_failure(const Flight& flight, MonoTime now) const;
  [[nodiscard]] bool merge(const Flight& flight, const CellTotals* totals) const;
  static bool remove(Shard& shard, const FlightPtr& flight) WEIR_REQUIRES(shard.mutex);
  [[nodiscard]] std::deque<Subscription> end(const FlightPtr& flight);
  static void answer(const Subscription& subscription, const ReadResult& result);
  static void end_part(const WaiterPtr& waiter);

  const std::shared_ptr<memory::TupleStore> tuples_;
  const std::shared_ptr<RegionState> region_;
  const std::shared_ptr<const Merger> merger_;
  const std::shared_ptr<telemetry::LimiterCounters> counters_;
  std::array<Shard, kShards> shards_;
};

}  // namespace weir::regional
