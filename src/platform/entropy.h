#pragma once

#include <cstdint>

namespace weir::platform {

// 64 bits nobody outside the process can guess.
[[nodiscard]] uint64_t entropy();

}  // namespace weir::platform
