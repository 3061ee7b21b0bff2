// The input and result types of all algorithms. docs/algorithms.md is the contract.

#pragma once

#include <optional>

#include "weir/request.h"
#include "weir/time.h"
#include "weir/verdict.h"

namespace weir::algorithms {

// A valid request: capacity >= 1. The capacity is the limit, or for a backlog the burst.
struct Ask {
  Count capacity = 0;
  Count cost = 0;
};

struct Decision {
  Outcome outcome = Outcome::kDenied;
  Count remaining = 0;
  WallTime reset{};
  std::optional<WallTime> retry_at{};  // set exactly when the outcome is kDenied

  [[nodiscard]] bool admitted() const { return outcome == Outcome::kAdmitted; }
};

// The position of a time on the grid of windows of one width. Times before 1970 are treated as
// 1970, so that sequences stay non-negative.
struct Position {
  int64_t sequence = 0;
  Millis offset{0};  // 0 to width - 1
  Millis width{1};

  [[nodiscard]] WallTime start() const { return WallTime(sequence * width); }
  [[nodiscard]] WallTime end() const { return WallTime((sequence + 1) * width); }
};

[[nodiscard]] inline Position position_of(WallTime now, Millis width) {
  const int64_t tick = now.time_since_epoch().count() < 0 ? 0 : now.time_since_epoch().count();
  const int64_t sequence = tick / width.count();
  return {.sequence = sequence, .offset = Millis(tick - sequence * width.count()), .width = width};
}

}  // namespace weir::algorithms
