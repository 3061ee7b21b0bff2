#include "algorithms/windows.h"

#include <algorithm>

namespace weir::algorithms {
namespace {

// The first offset at which floor(previous * (width - offset) / width) <= spare.
// previous * rest < (spare + 1) * width holds exactly while rest <= ((spare + 1) * width
// - 1) / previous. May be `width`, the start of the window after.
Millis first_offset_within(Millis width, Count previous, Count spare) {
  if (previous <= spare) return Millis(0);
  const auto span = static_cast<uint64_t>(width.count());
  const base::Wide product = base::Wide{spare + 1} * span - 1;
  const auto rest = static_cast<uint64_t>(product / previous);  // < span, as previous > spare
  return Millis(static_cast<int64_t>(span - std::min(rest, span)));
}

}  // namespace

WallTime sliding_retry_at(Position at, WindowCounts counts, Ask ask) {
  if (counts.current + ask.cost <= ask.capacity) {
    const Count spare = ask.capacity - counts.current - ask.cost;
    return at.start() + first_offset_within(at.width, counts.previous, spare);
  }
  return at.end() + first_offset_within(at.width, counts.current, ask.capacity - ask.cost);
}

}  // namespace weir::algorithms
