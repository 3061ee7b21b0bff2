// The backlog of gcra and token_bucket, computed from what several writers have admitted.
//
//   Q(t) = max over s <= t of (A(s, t] - r (t - s))
//
// A is the cost admitted, r the rate; a request passes if Q + cost <= burst. The histories are
// folded in the order of time: each cell drains what was waiting, then adds its cost at its end. So
// Q is never below the exact value, and at most what drains within one cell above it.
//
// Cost from before the checkpoint is one number. What arrives later from before the checkpoint
// counts at the checkpoint: never too lax, but too strict by what has drained since. So a
// checkpoint must be behind the longest delay.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "algorithms/backlog.h"
#include "algorithms/cost_history.h"
#include "base/wide.h"

namespace weir::algorithms {

class MergedBacklog {
 public:
  using Writer = uint64_t;

  explicit MergedBacklog(Pace pace) : pace_(pace) {}

  // Merges a version of a writer's history.
  void merge(Writer writer, const CostHistory& history);

  // What is waiting to drain, in pulses. Cost of cells that have not ended counts at `now`.
  [[nodiscard]] uint64_t waiting(WallTime now) const { return fold(now, Cells::kAll); }

  // Replaces the cells that have ended by `at` by one number. Earlier checkpoints change nothing.
  void set_checkpoint(WallTime at);

 private:
  struct Component {
    CostHistory history;
    Count folded = 0;  // of its total, in the checkpoint
  };
  struct Cost {
    WallTime at{};
    uint64_t pulses = 0;
  };
  // The cost that is not in the checkpoint, in the order of time, counted by `now` at the latest.
  enum class Cells : uint8_t { kAll, kEnded };
  [[nodiscard]] std::vector<Cost> unfolded(WallTime now, Cells cells) const;
  [[nodiscard]] uint64_t fold(WallTime now, Cells cells) const;
  [[nodiscard]] uint64_t pulses_of(Count cost) const;
  [[nodiscard]] uint64_t drained(uint64_t waiting, WallTime from, WallTime to) const;

  const Pace pace_;
  std::map<Writer, Component> components_;
  WallTime checkpoint_{};
  uint64_t at_checkpoint_ = 0;  // pulses
};

// What is waiting at a process whose own admissions are exact, after it learned of the cost `news`
// of others: as much as if that had been admitted now, but not more than the histories say.
// Correcting each item by the refill that was lost since is wrong from the second item on: the
// first one has used that refill.
[[nodiscard]] inline uint64_t after_news(uint64_t waiting, uint64_t news, uint64_t folded) {
  return std::min(base::saturating_add(waiting, news), folded);
}

}  // namespace weir::algorithms
