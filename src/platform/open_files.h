// How many files, sockets among them, this process may have open.

#pragma once

#include <cstdint>

namespace weir::platform {

// Raises the limit to `wanted`, or as far as the system allows; returns what it is then.
uint64_t raise_open_files(uint64_t wanted);

}  // namespace weir::platform
