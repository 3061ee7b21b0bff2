// The tuples of an in-process origin that wait to be published, by time.
//
// One thread at a time.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/mutation.h"
#include "weir/origin.h"

namespace weir::origins {

// The end of the window of a cell, which expires with the window after it.
[[nodiscard]] constexpr WallTime window_end(int64_t sequence, WallTime expires_at) {
  if (sequence <= -2) return expires_at;  // no window of a valid clock
  return expires_at - expires_at.time_since_epoch() / (sequence + 2);
}

// The entry of an accepted replay or step that is due.
[[nodiscard]] inline DueTuple due_entry(const CellId& cell, WallTime expires_at, Due due,
                                        WallTime now) {
  return {.tuple = cell.tuple,
          .kind = due,
          .at = due == Due::kWindowEnd ? window_end(cell.sequence, expires_at) : now};
}

// The revision of an entry that is added again. It returns to a former one after so many additions;
// by then the time is another.
inline constexpr uint32_t kRevisions = 1024;
[[nodiscard]] constexpr uint32_t next_revision(uint32_t revision) {
  return (revision + 1) % kRevisions;
}

class DueSet {
 public:
  // See BridgeStore::add_due().
  void add(const DueTuple& entry) {
    const auto [found, added] = entries_of(entry.kind).try_emplace(entry.tuple);
    Version& version = found->second;
    if (!added) {
      const bool at_end = entry.kind == Due::kWindowEnd;
      if (at_end && version.at <= entry.at) return;
      by_time_.erase({version.at, entry.kind, entry.tuple});
      // The time of kWindowEnd only falls: it suffices.
      if (!at_end) version.revision = next_revision(version.revision);
    }
    version.at = entry.at;
    by_time_.emplace(std::tuple(entry.at, entry.kind, entry.tuple), version.revision);
  }
  // Removes the entry if it was not added again.
  void remove(const DueTuple& entry) {
    Entries& entries = entries_of(entry.kind);
    const auto found = entries.find(entry.tuple);
    if (found == entries.end()) return;
    const Version read{.at = entry.at, .revision = entry.revision};
    if (found->second != read && !base::mutated(base::Mutation::kDueRemovedAlways)) return;
    by_time_.erase({found->second.at, entry.kind, entry.tuple});
    entries.erase(found);
  }
  // At most so many entries that are due from then to then, the earliest first.
  [[nodiscard]] std::vector<DueTuple> read(WallTime from, WallTime by, size_t most) const {
    std::vector<DueTuple> entries;
    for (auto it = by_time_.lower_bound({from, Due::kNever, std::string()}); it != by_time_.end();
         ++it) {
      const auto& [at, kind, tuple] = it->first;
      if (at > by || entries.size() == most) break;
      entries.push_back({.tuple = tuple, .kind = kind, .at = at, .revision = it->second});
    }
    return entries;
  }

 private:
  struct Version {
    WallTime at{};
    uint32_t revision = 0;
    friend bool operator==(const Version&, const Version&) = default;
  };
  using Entries = std::unordered_map<std::string, Version>;  // by tuple
  [[nodiscard]] Entries& entries_of(Due kind) { return entries_[static_cast<size_t>(kind)]; }

  std::array<Entries, static_cast<size_t>(Due::kWindowEnd) + 1> entries_;
  std::map<std::tuple<WallTime, Due, std::string>, uint32_t> by_time_;  // with the revision
};

}  // namespace weir::origins
