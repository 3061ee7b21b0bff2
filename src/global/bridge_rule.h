// The publish rule on a tuple at the origin: the bridge evaluates it for every tuple that it
// imports or publishes, whether a process holds the tuple or not.
//
// Pure.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "global/publish_rule.h"
#include "global/regions.h"
#include "weir/origin.h"

namespace weir::global {

// The windows that the bridge reads: the last one, the current one, and the next, which may have
// begun for a process whose clock is a little ahead.
[[nodiscard]] std::vector<int64_t> windows_at(WallTime now, Millis duration);

// The origin keeps a count until then. A lease also matters in the window after its end, for what
// was counted in its last one.
[[nodiscard]] inline WallTime kept_until(const RegionCount& count, Millis duration) {
  return std::max(WallTime((count.sequence + 2) * duration), count.leased_until + duration);
}

// A tuple at the origin at one time, as the rule needs it.
class OriginTuple {
 public:
  OriginTuple(std::string tuple, const TupleCounts& counts, std::string_view region, WallTime now,
              const Regions& regions);

  [[nodiscard]] Millis duration() const { return duration_; }
  [[nodiscard]] int64_t current() const { return current_; }
  [[nodiscard]] Count counted(int64_t sequence) const;
  [[nodiscard]] Count foreign(int64_t sequence) const;
  [[nodiscard]] Count published(int64_t sequence) const;
  // The smallest limit that this region saw; 0: unknown.
  [[nodiscard]] Count limit_seen() const;
  [[nodiscard]] bool is_leased(int64_t sequence) const;

  // Why the window must be published. Refusals do not count here: only a process knows of them.
  [[nodiscard]] PublishReason reason(int64_t sequence) const;
  // Whether some window must be published.
  [[nodiscard]] bool has_reason() const;
  // Whether the rule must be evaluated again when the current window has ended.
  [[nodiscard]] bool is_contended() const;

 private:
  [[nodiscard]] uint32_t regions_in(int64_t sequence) const;
  [[nodiscard]] Count smallest_limit() const;
  [[nodiscard]] Count remaining(Count limit) const;

  const std::string tuple_;
  const TupleCounts& counts_;
  const std::string_view region_;
  const WallTime now_;
  const Regions& regions_;
  Millis duration_;
  int64_t current_;
};

}  // namespace weir::global
