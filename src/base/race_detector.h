// WEIR_RACE_DETECTOR is defined in builds with ThreadSanitizer, which tracks atomic loads and
// stores, but neither fences nor the barriers of membarrier(2).

#pragma once

#if defined(__SANITIZE_THREAD__)
#define WEIR_RACE_DETECTOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEIR_RACE_DETECTOR 1
#endif
#endif
