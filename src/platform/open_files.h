// The limit of open files, including sockets, of this process.

#pragma once

#include <cstdint>

namespace weir::platform {

// Raises the limit to `wanted`, or as far as the system allows; returns the new limit.
uint64_t raise_open_file_limit(uint64_t wanted);

}  // namespace weir::platform
