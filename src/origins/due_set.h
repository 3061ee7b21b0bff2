// The tuples of an in-process origin that wait to be published, by time.
//
// One thread at a time.

#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/mutation.h"
#include "weir/origin.h"

namespace weir::origins {

// The end of the window of a cell, which expires with the window after it.
[[nodiscard]] constexpr WallTime window_end(int64_t sequence, WallTime expires_at) {
  if (sequence <= -2) return expires_at;  // no window of a valid clock
  return expires_at - expires_at.time_since_epoch() / (sequence + 2);
}

// The entry of an accepted replay that is due.
[[nodiscard]] inline DueTuple due_entry(const CellReplay& replay, WallTime now) {
  return {.tuple = replay.cell.tuple,
          .kind = replay.due,
          .at = replay.due == Due::kWindowEnd ? window_end(replay.cell.sequence, replay.expires_at)
                                              : now};
}

class DueSet {
 public:
  // An entry that exists gets another time, the new one or a later one, except that one of
  // kWindowEnd keeps the earlier time.
  void add(DueTuple entry) {
    const auto [found, added] = times_.try_emplace(Name(entry.kind, entry.tuple), entry.at);
    if (!added) {
      if (entry.kind == Due::kWindowEnd && found->second <= entry.at) return;
      // Who has read it at this time does not remove it.
      if (found->second == entry.at) entry.at += Millis(1);
      by_time_.erase({found->second, entry.kind, entry.tuple});
      found->second = entry.at;
    }
    by_time_.emplace(entry.at, entry.kind, entry.tuple);
  }
  // Removes the entry if its time is still the same.
  void remove(const DueTuple& entry) {
    const auto found = times_.find(Name(entry.kind, entry.tuple));
    if (found == times_.end()) return;
    if (found->second != entry.at && !base::mutated(base::Mutation::kDueRemovedAlways)) return;
    by_time_.erase({found->second, entry.kind, entry.tuple});
    times_.erase(found);
  }
  // At most so many entries that are due from then to then, the earliest first.
  [[nodiscard]] std::vector<DueTuple> read(WallTime from, WallTime by, size_t most) const {
    std::vector<DueTuple> entries;
    for (auto it = by_time_.lower_bound({from, Due::kNever, std::string()}); it != by_time_.end();
         ++it) {
      const auto& [at, kind, tuple] = *it;
      if (at > by || entries.size() == most) break;
      entries.push_back({.tuple = tuple, .kind = kind, .at = at});
    }
    return entries;
  }

 private:
  using Name = std::pair<Due, std::string>;
  std::map<Name, WallTime> times_;
  std::set<std::tuple<WallTime, Due, std::string>> by_time_;
};

}  // namespace weir::origins
