// What one writer, a process or a region, has admitted on a tuple, by short cells of time.
//
// A theoretical arrival time cannot be merged: two writers that each admit one request from the
// same state both move it by one request, and the larger of the two forgets one. What they admitted
// can be merged, and when: refill that arrives while nothing is waiting is lost, so a total alone
// is not enough.
//
// The totals are cumulative. So a history only grows, of two versions of it the one with the larger
// total is newer, and a version that was lost is contained in the next one. It keeps its newest
// cells. Cost of older cells counts in the oldest one that is left: later than it was admitted, so
// readers are never too lax.

#pragma once

#include <cstdint>
#include <vector>

#include "weir/request.h"
#include "weir/time.h"

namespace weir::algorithms {

// A cell is 2^exponent ms wide, at least 8 ms.
inline constexpr int kSmallestExponent = 3;
inline constexpr int kLargestExponent = 40;

// The widest cells that are at most a sixteenth of the time in which a full burst drains.
[[nodiscard]] int cell_exponent(Count burst, Count limit, Millis duration);

class CostHistory {
 public:
  static constexpr size_t kCells = 32;
  struct Mark {
    int64_t cell = 0;
    Count total = 0;  // of this cell and all before
    friend bool operator==(const Mark&, const Mark&) = default;
  };

  explicit CostHistory(int exponent = kSmallestExponent) : exponent_(exponent) {}

  // Time does not run backwards: cost from before the newest cell counts in it.
  void add(WallTime now, Count cost);
  // With wider cells. Narrower ones are not possible.
  [[nodiscard]] CostHistory widened(int exponent) const;

  [[nodiscard]] int exponent() const { return exponent_; }
  [[nodiscard]] Millis width() const { return Millis(int64_t{1} << exponent_); }
  [[nodiscard]] Count total() const { return marks_.empty() ? 0 : marks_.back().total; }
  // Cells and totals increase.
  [[nodiscard]] const std::vector<Mark>& marks() const { return marks_; }
  // The end of a cell: cost in it was admitted before.
  [[nodiscard]] WallTime end_of(const Mark& mark) const {
    return WallTime((mark.cell + 1) * width());
  }

  // The total of the cells that ended by then.
  [[nodiscard]] Count total_by(WallTime end) const;

  // The newer of two versions.
  [[nodiscard]] static const CostHistory& merged(const CostHistory& a, const CostHistory& b) {
    return b.total() > a.total() ? b : a;
  }

  friend bool operator==(const CostHistory&, const CostHistory&) = default;

 private:
  [[nodiscard]] int64_t cell_of(WallTime now) const;

  int exponent_;
  std::vector<Mark> marks_;
};

}  // namespace weir::algorithms
