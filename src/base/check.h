// A broken promise of our own code ends the process: going on would count wrongly.
// Input never reaches a check.

#pragma once

#include <cstdio>
#include <cstdlib>

#define WEIR_CHECK(condition)                                                              \
  do {                                                                                     \
    if (!(condition)) [[unlikely]] {                                                       \
      std::fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                        \
    }                                                                                      \
  } while (false)
