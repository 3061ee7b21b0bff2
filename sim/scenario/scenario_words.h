// The words of scenarios: how shapes, faults and clocks are written, and what each needs.
//
// One table per choice; the reader, its errors and the pictures are made from it.

#pragma once

#include <span>
#include <string_view>

#include "sim/scenario/scenario.h"

namespace weir::sim {

// What the amount of a fault is.
enum class Amount : uint8_t {
  kNone,
  kPercent,  // above 0, to 100
  kDelay,    // ms, above 0
  kOffset,   // ms, either way
};

// What a fault can be confined to.
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
