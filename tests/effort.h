// How much of what a test generates fits the build: a sanitizer makes each case take ten times as
// long, and what it looks for shows in few of them.

#pragma once

#include <cstdint>

namespace weir {

constexpr uint64_t generated_cases(uint64_t plain) {
#if defined(WEIR_SANITIZED)
  return (plain + 29) / 30;
#else
  return plain;
#endif
}

}  // namespace weir
