// The number of generated cases per build: with a sanitizer each takes ten times as long, and few
// cases are enough for its checks.

#pragma once

#include <cstdint>

namespace weir {

#if defined(WEIR_SANITIZED)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

constexpr uint64_t generated_cases(uint64_t plain) {
  return kSanitized ? (plain + 29) / 30 : plain;
}

}  // namespace weir
