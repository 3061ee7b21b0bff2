// A regional origin in memory: for limiters of one process that share a limit, for
// tests, and as the store behind the simulator's network.

#pragma once

#include <map>

#include "base/mutex.h"
#include "weir/clock.h"
#include "weir/origin.h"

namespace weir::origins {

// Safe from any thread; replies before the call returns.
class InProcessOrigin final : public RegionalOrigin {
  struct Cell {
    std::map<Component, Count> components;
    Count published = 0;
  };

 public:
  // What it held at some time.
  class Snapshot {
    friend class InProcessOrigin;
    std::map<CellId, Cell> cells_;
    std::multimap<WallTime, CellId> by_expiry_;
  };

  explicit InProcessOrigin(const Clock& clock) : clock_(clock) {}

  void read(std::vector<CellRead> cells, OriginReply reply) override;
  void replay(std::vector<CellReplay> cells, OriginReply reply) override;

  void retire(std::vector<CellRetirement> cells, RetirementReply reply) override;

  // The largest that was left stands.
  void note_published(std::vector<CellPublished> cells) override;

  // Loses everything, as a store without persistence does when it restarts.
  void forget_all();
  // Goes back to what it was, as a store does that starts from what it had saved.
  [[nodiscard]] Snapshot snapshot() const;
  void restore(Snapshot snapshot);

  // All components of a cell.
  [[nodiscard]] std::map<Component, Count> components(const CellId& cell) const;

 private:
  [[nodiscard]] CellTotals totals(const CellId& cell, const Component& mine) const
      WEIR_REQUIRES(mutex_);
  [[nodiscard]] Cell& cell_until(WallTime expires_at, const CellId& id) WEIR_REQUIRES(mutex_);
  void forget_expired(WallTime now) WEIR_REQUIRES(mutex_);

  const Clock& clock_;
  mutable base::StdMutex mutex_;
  std::map<CellId, Cell> cells_ WEIR_GUARDED_BY(mutex_);
  std::multimap<WallTime, CellId> by_expiry_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::origins
