// The contents of an in-process origin: cells, region counts, due tuples, and the lease of the
// bridge. A copy is a snapshot.
//
// One thread at a time. The caller deletes what has expired before it reads or writes.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/flat_map.h"
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
  [[nodiscard]] TupleCounts tuple(const std::string& name,
                                  const std::vector<int64_t>& sequences) const;
  // False: dropped, because the tuple is new, has no cells, and there are `max_tuples` (0: no
  // bound) already.
  [[nodiscard]] bool update(const TupleUpdate& update, WallTime now, size_t max_tuples);

  // See CellFloor. Ignores an expired cell.
  void raise_departed(const std::string& tuple, const CellFloor& floor, WallTime now);
  // Deletes the cells and the region counts of a tuple.
  void evict(const std::string& tuple);

  [[nodiscard]] BridgeGrant acquire(const std::string& holder, Millis lease, Instant now);
  void release(const std::string& holder);
  [[nodiscard]] bool save(const std::string& holder, const std::string& before, std::string state,
                          MonoTime now);

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
    [[nodiscard]] bool is_empty() const { return total == 0 && limit_seen == 0; }
  };
  struct Cell {
    base::FlatMap<Component, Part> parts;
    bool refused = false;  // by a step
  };
  struct Tuple {
    base::FlatMap<int64_t, Cell> cells;  // by window
    RegionCounts regions;
    std::optional<WallTime> regions_kept_until = {};  // none: there are no regions

    [[nodiscard]] bool has_regions() const { return regions_kept_until.has_value(); }
    [[nodiscard]] bool is_empty() const { return cells.empty() && !has_regions(); }
  };
  [[nodiscard]] const Tuple* find(const std::string& tuple) const;
  [[nodiscard]] const Cell* find(const CellId& cell) const;
  [[nodiscard]] Cell& open(Tuple& tuple, const CellId& cell, WallTime expires_at);
  [[nodiscard]] static CellTotals totals(const Tuple& tuple, int64_t sequence,
                                         const Component& mine);
  static void raise(Cell& cell, const Component& writer, const Part& by);
  void erase_cell(const CellId& cell);
  void forget_regions(Tuple& tuple);

  std::unordered_map<std::string, Tuple> tuples_;
  size_t with_regions_ = 0;  // of the tuples
  std::map<WallTime, std::vector<CellId>> cells_by_expiry_;
  std::map<WallTime, std::vector<std::string>> regions_by_expiry_;  // an entry may be too early
  std::string holder_;                                              // of the lease of the bridge
  MonoTime leased_until_{};
  std::string bridge_state_;
  uint64_t evicted_ = 0;
  std::multimap<WallTime, std::string> records_;
};

}  // namespace weir::origins
