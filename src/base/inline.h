// For the few functions every request runs through: called from one or two places, and
// slower by a third when the compiler decides against inlining one of them.

#pragma once

#define WEIR_HOT_INLINE [[gnu::always_inline]] inline
