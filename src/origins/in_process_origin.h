// A regional origin in memory: for limiters of one process that share a limit, for tests, and for
// the simulator.

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
  // The contents at one moment.
  class Snapshot {
    friend class InProcessOrigin;
    std::map<CellId, Cell> cells_;
    std::multimap<WallTime, CellId> by_expiry_;
  };

  explicit InProcessOrigin(const Clock& clock) : clock_(clock) {}

  void read(std::vector<CellRead> cells, OriginReply reply) override;
  void replay(std::vector<CellReplay> cells, OriginReply reply) override;

  void retire(std::vector<CellRetirement> cells, RetirementReply reply) override;

  // Keeps the largest published count.
  void note_published(std::vector<CellPublished> cells) override;

  // Deletes everything, like a restart without persistence.
  void clear();
  // Goes back to an earlier state, like a restart from a snapshot.
  [[nodiscard]] Snapshot snapshot() const;
  void restore(Snapshot snapshot);

  // Returns all components of a cell.
  [[nodiscard]] std::map<Component, Count> components(const CellId& cell) const;

 private:
  [[nodiscard]] CellTotals totals(const CellId& cell, const Component& mine) const
      WEIR_REQUIRES(mutex_);
  [[nodiscard]] Cell& find_or_create(const CellId& id, WallTime expires_at) WEIR_REQUIRES(mutex_);
  void delete_expired(WallTime now) WEIR_REQUIRES(mutex_);

  const Clock& clock_;
  mutable base::StdMutex mutex_;
  std::map<CellId, Cell> cells_ WEIR_GUARDED_BY(mutex_);
  std::multimap<WallTime, CellId> by_expiry_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::origins
