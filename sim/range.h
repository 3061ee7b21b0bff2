// A range of values, both ends included.

#pragma once

namespace weir::sim {

template <typename Number>
struct Range {
  Number from{};
  Number to{};
  friend bool operator==(const Range&, const Range&) = default;
};

}  // namespace weir::sim
