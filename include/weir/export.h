// Marks the symbols that a shared build of the library exports. All others are hidden.

#pragma once

#if defined(__GNUC__)
#define WEIR_EXPORT __attribute__((visibility("default")))
#else
#define WEIR_EXPORT
#endif
