#include "global/bridge_rule.h"

#include <algorithm>
#include <utility>

#include "algorithms/windows.h"
#include "base/wide.h"
#include "global/ledger_key.h"
#include "global/shared_tuples.h"
#include "memory/publish_watch.h"
#include "memory/tuple_key.h"

namespace weir::global {

std::vector<int64_t> windows_at(WallTime now, Millis duration) {
  const int64_t current = algorithms::position_of(now, duration).sequence;
  return {current + 1, current, current - 1};
}

OriginTuple::OriginTuple(std::string tuple, const TupleCounts& counts, std::string_view region,
                         WallTime now, const Regions& regions)
    : tuple_(std::move(tuple)),
      counts_(counts),
      region_(region),
      now_(now),
      regions_(regions),
      duration_(memory::header_of(tuple_).duration()),
      current_(algorithms::position_of(now, duration_).sequence) {}

Count OriginTuple::counted(int64_t sequence) const {
  // The ledger may know more: the origin may have lost counts.
  Count counted = published(sequence);
  for (const TupleCounts::Window& window : counts_.windows) {
    if (window.sequence == sequence) counted = std::max(counted, window.total);
  }
  return std::min(counted, memory::kMaxCount);
}

Count OriginTuple::published(int64_t sequence) const {
  Count published = 0;
  for (const RegionCount& each : counts_.regions) {
    if (each.region == region_ && each.sequence == sequence) {
      published = std::max(published, each.count);
    }
  }
  return published;
}

Count OriginTuple::foreign(int64_t sequence) const {
  Count foreign = 0;
  for (const RegionCount& each : counts_.regions) {
    if (each.region == region_ || each.sequence != sequence) continue;
    foreign = base::saturating_add(foreign, each.count);
  }
  return std::min(foreign, memory::kMaxCount);
}

Count OriginTuple::limit_seen() const {
  Count limit = 0;
  for (const TupleCounts::Window& window : counts_.windows) {
    limit = memory::smaller_limit(limit, window.limit_seen);
  }
  return limit;
}

// Of all regions, in this window and the last.
Count OriginTuple::smallest_limit() const {
  Count limit = limit_seen();
  for (const RegionCount& each : counts_.regions) {
    if (each.sequence != current_ && each.sequence != current_ - 1) continue;
    limit = memory::smaller_limit(limit, each.limit_seen);
  }
  return limit;
}

bool OriginTuple::is_leased(int64_t sequence) const {
  const WallTime end = end_of_window(sequence, duration_);
  return std::any_of(counts_.regions.begin(), counts_.regions.end(), [&](const RegionCount& each) {
    return each.region == region_ && each.leased_until >= end;
  });
}

uint32_t OriginTuple::regions_in(int64_t sequence) const {
  const WallTime end = end_of_window(sequence, duration_);
  std::vector<std::string_view> present;
  for (const RegionCount& each : counts_.regions) {
    if (each.region == region_) continue;
    if (each.leased_until < end && (each.sequence != sequence || each.count == 0)) continue;
    if (std::find(present.begin(), present.end(), each.region) == present.end()) {
      present.push_back(each.region);
    }
  }
  const auto count = static_cast<uint32_t>(1 + present.size());
  return regions_.complete ? count : std::max(count, 2U);
}

// As a sliding window counts, which leaves the least: the origin does not know the algorithm.
Count OriginTuple::remaining(Count limit) const {
  const auto at = algorithms::position_of(now_, duration_);
  const Count used = counted(current_) + foreign(current_) +
                     algorithms::carried_over(at, counted(current_ - 1) + foreign(current_ - 1));
  return base::saturating_sub(limit, used);
}

PublishReason OriginTuple::reason(int64_t sequence) const {
  const Count limit = smallest_limit();
  if (limit == 0) return PublishReason::kNone;  // no process of this region counted here
  const bool over = sequence < current_;
  const uint32_t doublings =
      regions_.doublings.empty() ? 0 : regions_.doublings_of(tenant_of(tuple_));
  const CellUsage usage{
      .counted = counted(sequence),
      .published = published(sequence),
      .limit = limit,
      .remaining = over ? 0 : remaining(limit),
      .allowance = unpublished_allowance(limit, regions_.rules, regions_.count, doublings),
      .regions = regions_in(sequence),
      .leased = over || is_leased(sequence),
      .over = over,
      .doublings = doublings};
  return publish_reason(usage, regions_.rules);
}

bool OriginTuple::has_reason() const {
  const std::vector<int64_t> windows = windows_at(now_, duration_);
  return std::any_of(windows.begin(), windows.end(),
                     [this](int64_t sequence) { return reason(sequence) != PublishReason::kNone; });
}

bool OriginTuple::is_contended() const {
  return regions_in(current_) >= 2 && counted(current_) > published(current_);
}

}  // namespace weir::global
