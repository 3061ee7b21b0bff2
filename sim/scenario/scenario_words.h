// The words of scenario files for shapes, faults and clocks, and the arguments of each.
//
// One table per choice; the reader, its errors and the plots use it.

#pragma once

#include <span>
#include <string_view>

#include "sim/scenario/scenario.h"

namespace weir::sim {

// The amount of a fault.
enum class Amount : uint8_t {
  kNone,
  kPercent,  // above 0, to 100
  kDelay,    // ms, above 0
  kOffset,   // ms, positive or negative
};

// What a fault can be limited to.
enum class FaultScope : uint8_t { kNowhere, kRegion, kNode };

struct FaultWords {
  FaultKind kind;
  std::string_view word;
  Amount amount = Amount::kNone;
  FaultScope where = FaultScope::kRegion;
  bool at_once = false;  // it has no duration
};

// In the order of the enumerations.
[[nodiscard]] std::span<const FaultWords> fault_words();
[[nodiscard]] std::span<const std::string_view> shape_words();
[[nodiscard]] std::span<const std::string_view> clock_words();

[[nodiscard]] const FaultWords& words_of(FaultKind kind);

}  // namespace weir::sim
