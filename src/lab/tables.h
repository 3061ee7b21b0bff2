// `weir lab --tables`: the figures of a published comparison of limiters beside those of Weir, and
// all algorithms on all shapes.

#pragma once

#include <string>
#include <vector>

#include "lab/comparison.h"
#include "lab/published.h"
#include "lab/shapes.h"

namespace weir::lab {

// The settings of the last two tables: the defaults of the shapes.
[[nodiscard]] std::vector<Comparison> compare_all_shapes(const ShapeSettings& settings);

// All tables, as text. The errors are those of errors_by_headroom(), which take most of the time.
[[nodiscard]] std::string tables_text(const std::vector<HeadroomError>& errors);

}  // namespace weir::lab
