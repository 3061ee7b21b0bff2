// The data of a region's bridge at a simulated origin, with their history: the counts of all
// regions by tuple, the tuples that are due, the smallest limit of each cell, the lease of the
// bridge and its saved state.
//
// A model of its own beside that of the in-process origin, because faults need it to go back in
// time and to evict single keys, and checkers need to know what it had at any time.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/faults/planted_bug.h"
#include "sim/random.h"
#include "sim/stores/timed_map.h"
#include "weir/clock.h"
#include "weir/origin.h"

namespace weir::sim {

// The counts of all regions on one tuple.
struct RegionCounts {
  std::vector<RegionCount> counts;
  WallTime kept_until{};
  friend bool operator==(const RegionCounts&, const RegionCounts&) = default;

  // The count of a region in a window; null: there is none.
  [[nodiscard]] const RegionCount* find(const std::string& region, int64_t sequence) const;
  // The end of the longest lease of a region.
  [[nodiscard]] WallTime leased_until(const std::string& region) const;
};

// Belongs to the timeline.
class BridgeData {
 public:
  // Keys are kept this much longer than they are needed.
  BridgeData(const Clock& clock, Millis expiry_margin, PlantedBug planted_bug)
      : clock_(clock), expiry_margin_(expiry_margin), planted_bug_(planted_bug) {}

  // See BridgeStore.
  [[nodiscard]] BridgeGrant acquire(const std::string& holder, Millis lease);
  void release(const std::string& holder);
  [[nodiscard]] bool save(const std::string& holder, const std::string& before,
                          const std::string& state);
  [[nodiscard]] std::vector<DueTuple> read_due(WallTime from, WallTime by, size_t most) const;
  void add_due(const DueTuple& entry);
  void remove_due(const DueTuple& entry);
  void raise(const TupleUpdate& update);
  void keep_record(const std::string& record);
  [[nodiscard]] std::vector<std::string> records() const;
  [[nodiscard]] uint64_t next_message();
  // What a replay says about publishing.
  void note_replay(const CellReplay& replay);

  // None that has expired.
  [[nodiscard]] std::vector<RegionCount> counts(const std::string& tuple) const;
  [[nodiscard]] Count limit_seen(const CellId& cell) const;  // 0: unknown

  // Faults.
  void forget_all();
  void go_back(MonoTime then);
  // Evicts the counts of one tuple, as a store does that has no memory left. False: there are none.
  bool evict_one(Random& random);

  // For checkers; expired counts included.
  [[nodiscard]] const RegionCounts* counts_at(const std::string& tuple, MonoTime when) const {
    return regions_.find_at(tuple, when);
  }
  [[nodiscard]] const std::vector<TimedMap<std::string, RegionCounts>::Entry>& history(
      const std::string& tuple) const {
    return regions_.history(tuple);
  }
  template <typename Visit>
  void for_each_tuple(const Visit& visit) const {
    regions_.for_each(visit);
  }
  [[nodiscard]] std::optional<WallTime> due(const std::string& tuple, Due kind) const;
  // When data were lost or evicted the last time; none: never.
  [[nodiscard]] std::optional<MonoTime> lost_at() const { return lost_at_; }
  [[nodiscard]] uint64_t evicted() const { return evicted_; }
  [[nodiscard]] const std::string& holder() const { return bridge_.holder; }

 private:
  using DueKey = std::pair<std::string, Due>;
  struct DueVersion {
    WallTime at{};
    uint32_t revision = 0;
    friend bool operator==(const DueVersion&, const DueVersion&) = default;
  };
  struct Bridge {
    std::string holder;
    MonoTime until{};
    std::string state;
    uint64_t messages = 0;  // sent
    friend bool operator==(const Bridge&, const Bridge&) = default;
  };

  [[nodiscard]] MonoTime now() const { return clock_.now().mono; }
  [[nodiscard]] bool holds(const std::string& holder) const;
  void keep();

  const Clock& clock_;
  const Millis expiry_margin_;
  const PlantedBug planted_bug_;
  TimedMap<std::string, RegionCounts> regions_;  // by tuple
  TimedMap<DueKey, DueVersion> due_;
  TimedMap<CellId, Count> limits_;
  TimedMap<uint64_t, std::pair<WallTime, std::string>> records_;  // in the order they were kept
  uint64_t last_record_ = 0;
  TimedMap<int, Bridge> bridges_;  // one key: the history of bridge_
  Bridge bridge_;
  uint64_t evicted_ = 0;
  std::optional<MonoTime> lost_at_;
};

}  // namespace weir::sim
