// The contents of an in-process origin: cells, region counts, due tuples, and the lease of the
// bridge. A copy is a snapshot.
//
// One thread at a time. The caller deletes what has expired before it reads or writes.

#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "origins/due_set.h"
#include "origins/exact_tuples.h"
#include "origins/region_counts.h"
#include "weir/origin.h"

namespace weir::origins {

class InProcessState {
 public:
  void delete_expired(WallTime now);

  [[nodiscard]] CellTotals totals(const CellId& cell, const Component& mine) const;
  // Raises the component, and lowers its limit. Ignores an expired cell.
  void replay(const CellReplay& replay, WallTime now);
  // See StepStore.
  [[nodiscard]] StepTotals step(const CellStep& step, WallTime now);
  [[nodiscard]] bool retire(const CellRetirement& retirement);
  [[nodiscard]] std::map<Component, Count> components(const CellId& cell) const;

  [[nodiscard]] std::vector<RegionCount> regions(const std::string& tuple) const;
  [[nodiscard]] TupleCounts tuple(const std::string& tuple,
                                  const std::vector<int64_t>& sequences) const;
  // False: dropped, because the tuple is new, has no cells, and there are `max_tuples` (0: no
  // bound) already.
  [[nodiscard]] bool update(const TupleUpdate& update, WallTime now, size_t max_tuples);

  [[nodiscard]] bool has_cells(const std::string& tuple) const;
  // See CellFloor. Ignores an expired cell.
  void raise_departed(const std::string& tuple, const CellFloor& floor, WallTime now);
  // Deletes the cells and the region counts of a tuple.
  void evict(const std::string& tuple);

  [[nodiscard]] BridgeGrant acquire(const std::string& holder, Millis lease, Instant now);
  void release(const std::string& holder);
  [[nodiscard]] bool save(const std::string& holder, std::string state, MonoTime now);

  // Drops records that are older than kRecordsKept.
  void keep_record(std::string record, WallTime at);
  [[nodiscard]] std::vector<std::string> records() const;

  DueSet due;
  ExactTuples exact;
  uint64_t last_message = 0;

 private:
  struct Part {
    Count total = 0;
    Count limit_seen = 0;  // 0: unknown
  };
  struct Cell {
    std::map<Component, Part> parts;
    bool refused = false;  // by a step
  };
  [[nodiscard]] Cell& open(const CellId& cell, WallTime expires_at);
  [[nodiscard]] const Cell* find(const CellId& cell) const;
  void erase(const CellId& cell);

  struct Tuple {
    RegionCounts counts;
    WallTime kept_until{};
  };

  std::unordered_map<std::string, std::map<int64_t, Cell>> cells_;  // by tuple and window
  std::multimap<WallTime, CellId> cells_by_expiry_;
  std::unordered_map<std::string, Tuple> tuples_;
  std::multimap<WallTime, std::string> tuples_by_expiry_;  // an entry may be too early
  std::string holder_;                                     // of the lease of the bridge
  MonoTime leased_until_{};
  std::string bridge_state_;
  uint64_t evicted_ = 0;
  std::multimap<WallTime, std::string> records_;
};

}  // namespace weir::origins
