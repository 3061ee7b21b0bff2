// WEIR_RACE_DETECTOR is defined in builds that a race detector watches. It follows atomic loads
// and stores one by one, but neither fences nor barriers that the system runs for a thread.

#pragma once

#if defined(__SANITIZE_THREAD__)
#define WEIR_RACE_DETECTOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEIR_RACE_DETECTOR 1
#endif
#endif
