// For the few functions that every request calls. Each has one or two callers, and a request is
// slower by a third when the compiler does not inline one of them.

#pragma once

#define WEIR_HOT_INLINE [[gnu::always_inline]] inline
