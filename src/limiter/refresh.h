// Reading the origin before a decision: one read per tuple in flight, and whoever needs
// the same meanwhile waits for it, on whatever executor it lives.
//
// A flight ends once: with the reply, an error, or its deadline, whichever takes it out
// of the map first, under the lock under which waiters join. So a waiter either joins a
// flight that has not ended, or begins another; nobody is left behind. A reply that
// comes after the deadline still teaches what it knows.
//
// Safe from any thread. No lock is held across the port.

#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "limiter/freshness.h"
#include "limiter/judge.h"
#include "limiter/store.h"
#include "weir/executor.h"
#include "weir/origin.h"

namespace weir::limiter {

// What to read for one case. A tuple this process does not hold is read all the same,
// and forgotten: a peek leaves no trace.
struct Wanted {
  const RequestContext* context = nullptr;
  ReadRequirement requirement = ReadRequirement::kCold;
};

// What a read told of one tuple.
struct Received {
  bool read = false;    // the origin answered
  bool learnt = false;  // the tuple in the table knows it now
  algorithms::WindowCounts counts{};
};

class Refresh : public std::enable_shared_from_this<Refresh> {
 public:
  explicit Refresh(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  // Reads what is wanted, then calls `done` on `home` with one Heard for each, in order.
  void read(Instant now, const std::vector<Wanted>& wanted, Executor& home,
            UniqueFunction<void(const std::vector<Received>&)> done);

 private:
  struct Waiter;
  struct Flight;
  using FlightPtr = std::shared_ptr<Flight>;
  static constexpr size_t kShards = 16;
  struct Shard {
    base::Mutex mutex;
    std::unordered_map<std::string, FlightPtr> flights;  // guarded by mutex
  };

  [[nodiscard]] Shard& shard_of(const Flight& flight);
  [[nodiscard]] uint64_t generation_of(const memory::TupleKey& key) const;
  void land(const std::vector<FlightPtr>& flights, Result<std::vector<CellTotals>> totals);
  void fail(const std::vector<FlightPtr>& flights, MonoTime now);
  [[nodiscard]] bool learn(const Flight& flight, const CellTotals* totals) const;
  void end(const FlightPtr& flight, const Received& received);

  const std::shared_ptr<Store> store_;
  std::array<Shard, kShards> shards_;
};

}  // namespace weir::limiter
