#pragma once

#include <cstdint>

namespace weir::platform {

// 64 random bits that nobody outside the process can predict.
[[nodiscard]] uint64_t entropy();

}  // namespace weir::platform
