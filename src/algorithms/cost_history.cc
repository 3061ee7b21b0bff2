#include "algorithms/cost_history.h"

#include <algorithm>

#include "base/wide.h"

namespace weir::algorithms {

int cell_exponent(Count burst, Count limit, Millis duration) {
  constexpr uint64_t kParts = 16;
  const auto span = static_cast<uint64_t>(duration.count());
  const uint64_t widest = base::mul_div(burst, span, limit * kParts);
  int exponent = kSmallestExponent;
  while (exponent < kLargestExponent && (uint64_t{2} << exponent) <= widest) ++exponent;
  return exponent;
}

int64_t CostHistory::cell_of(WallTime now) const {
  return std::max<int64_t>(now.time_since_epoch().count(), 0) >> exponent_;
}

void CostHistory::add(WallTime now, Count cost) {
  if (cost == 0) return;
  const int64_t cell = cell_of(now);
  const Count total = base::saturating_add(this->total(), cost);
  if (!marks_.empty() && cell <= marks_.back().cell) {
    marks_.back().total = total;
    return;
  }
  if (marks_.size() == kCells) marks_.erase(marks_.begin());
  marks_.push_back({.cell = cell, .total = total});
}

CostHistory CostHistory::widened(int exponent) const {
  if (exponent <= exponent_) return *this;
  CostHistory wide(exponent);
  for (const Mark& mark : marks_) {
    const int64_t cell = mark.cell >> (exponent - exponent_);
    if (!wide.marks_.empty() && wide.marks_.back().cell == cell) {
      wide.marks_.back().total = mark.total;
    } else {
      wide.marks_.push_back({.cell = cell, .total = mark.total});
    }
  }
  return wide;
}

Count CostHistory::total_by(WallTime end) const {
  Count total = 0;
  for (const Mark& mark : marks_) {
    if (end_of(mark) <= end) total = mark.total;
  }
  return total;
}

}  // namespace weir::algorithms
