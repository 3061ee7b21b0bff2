// What the ledger has of one tuple: for each region its newest windows and its lease.
//
// Everything merges, so updates may arrive in any order and again: counts and leases only grow,
// limits only fall. One thread at a time.

#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "weir/origin.h"

namespace weir::origins {

// The windows that are kept of each region: the current one, the one before, and the next one, if
// the clock of another region is ahead.
inline constexpr size_t kWindowsPerRegion = 3;

// The smaller of two limits; 0: unknown.
[[nodiscard]] constexpr Count smaller_limit(Count a, Count b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

class RegionCounts {
 public:
  void merge(const RegionCount& update) {
    Region& region = regions_[update.region];
    region.leased_until = std::max(region.leased_until, update.leased_until);
    // Without a count and a limit it is about the lease only.
    if (update.count == 0 && update.limit_seen == 0) return;
    Window& window = region.windows[update.sequence];
    window.count = std::max(window.count, update.count);
    window.limit_seen = smaller_limit(window.limit_seen, update.limit_seen);
    if (region.windows.size() > kWindowsPerRegion) region.windows.erase(region.windows.begin());
  }

  // Sorted by region and window. Each entry has the lease of its region; a region without a window
  // has one entry with sequence 0.
  [[nodiscard]] std::vector<RegionCount> list() const {
    std::vector<RegionCount> all;
    for (const auto& [name, region] : regions_) {
      for (const auto& [sequence, window] : region.windows) {
        all.push_back({.region = name,
                       .sequence = sequence,
                       .count = window.count,
                       .limit_seen = window.limit_seen,
                       .leased_until = region.leased_until});
      }
      if (region.windows.empty() && region.leased_until > WallTime{}) {
        all.push_back({.region = name, .leased_until = region.leased_until});
      }
    }
    return all;
  }

 private:
  struct Window {
    Count count = 0;
    Count limit_seen = 0;
  };
  struct Region {
    std::map<int64_t, Window> windows;  // by sequence
    WallTime leased_until{};
  };
  std::map<std::string, Region> regions_;
};

}  // namespace weir::origins
