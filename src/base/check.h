// Aborts the process if an internal invariant does not hold: continuing would count wrongly. Input
// must be validated before it reaches a check.

#pragma once

#include <cstdio>
#include <cstdlib>

#define WEIR_CHECK(condition)                                                            \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)
