// What the ledger has of one tuple: for each region its newest windows and its lease.
//
// Everything merges, so updates may arrive in any order and again: counts and leases only grow,
// limits only fall. One thread at a time.

#pragma once

#include <algorithm>
#include <utility>
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
    auto [first, last] = std::equal_range(counts_.begin(), counts_.end(), update, by_region);
    const WallTime known = first == last ? WallTime{} : first->leased_until;
    const WallTime leased_until = std::max(known, update.leased_until);
    for (auto each = first; each != last; ++each) each->leased_until = leased_until;
    if (!has_window(update)) {
      if (first != last || leased_until == WallTime{}) return;
      counts_.insert(first, {.region = update.region, .leased_until = leased_until});
      return;
    }
    const auto at = std::find_if(first, last, [&](const RegionCount& each) {
      return !has_window(each) || each.sequence >= update.sequence;
    });
    if (at != last && has_window(*at) && at->sequence == update.sequence) {
      at->count = std::max(at->count, update.count);
      at->limit_seen = smaller_limit(at->limit_seen, update.limit_seen);
      return;
    }
    RegionCount merged = update;
    merged.leased_until = leased_until;
    if (at != last && !has_window(*at)) {
      *at = std::move(merged);
      return;
    }
    if (static_cast<size_t>(last - first) < kWindowsPerRegion) {
      counts_.insert(at, std::move(merged));
    } else if (at != first) {
      // Replaces the oldest.
      std::move(first + 1, at, first);
      *(at - 1) = std::move(merged);
    }
  }

  // Sorted by region and window. Each entry has the lease of its region; a region without a window
  // has one entry with sequence 0.
  [[nodiscard]] const std::vector<RegionCount>& list() const { return counts_; }

 private:
  static bool by_region(const RegionCount& a, const RegionCount& b) { return a.region < b.region; }
  // Without a count and a limit it is about the lease only.
  static bool has_window(const RegionCount& count) {
    return count.count > 0 || count.limit_seen > 0;
  }

  std::vector<RegionCount> counts_;
};

}  // namespace weir::origins
