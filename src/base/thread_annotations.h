// Macros for Clang's thread-safety analysis (-Wthread-safety). Other compilers ignore them.
//
// A member with WEIR_GUARDED_BY(m) may only be accessed while m is locked, and a function with
// WEIR_REQUIRES(m) may only be called while m is locked; Clang checks both at compile time. The
// analysis covers one function at a time: it does not look into lambdas that run under the caller's
// lock, and it does not apply to constructors and destructors.

#pragma once

#if defined(__clang__)
#define WEIR_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define WEIR_THREAD_ANNOTATION(x)
#endif

// Classes.
#define WEIR_CAPABILITY(name) WEIR_THREAD_ANNOTATION(capability(name))
#define WEIR_SCOPED_CAPABILITY WEIR_THREAD_ANNOTATION(scoped_lockable)

// Members.
#define WEIR_GUARDED_BY(mutex) WEIR_THREAD_ANNOTATION(guarded_by(mutex))
#define WEIR_PT_GUARDED_BY(mutex) WEIR_THREAD_ANNOTATION(pt_guarded_by(mutex))

// Functions. Without an argument the last four refer to `this`.
#define WEIR_REQUIRES(...) WEIR_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define WEIR_EXCLUDES(...) WEIR_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define WEIR_RETURN_CAPABILITY(mutex) WEIR_THREAD_ANNOTATION(lock_returned(mutex))
#define WEIR_ACQUIRE(...) WEIR_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define WEIR_TRY_ACQUIRE(...) WEIR_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define WEIR_RELEASE(...) WEIR_THREAD_ANNOTATION(release_capability(__VA_ARGS__))

// For a function whose locking the analysis cannot follow; its comment states why it is correct.
#define WEIR_NO_THREAD_SAFETY_ANALYSIS WEIR_THREAD_ANNOTATION(no_thread_safety_analysis)
