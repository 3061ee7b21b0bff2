// Marks the threads that Weir starts, and destroys objects that such a thread must not destroy.

#pragma once

#include <memory>
#include <thread>
#include <utility>

namespace weir::platform {

// True on a thread of ThreadGroup or ThreadExecutor.
[[nodiscard]] inline bool& on_own_thread() {
  static thread_local bool is_own = false;
  return is_own;
}

// Another thread runs the destructor, which joins this one.
template <typename T>
void destroy_elsewhere(T object) {
  std::thread([last = std::move(object)] {}).detach();
}

// A pointer to `object` as its base class. The destructor of `object` joins threads; where one of
// those threads releases the last reference, another thread runs the destructor.
template <typename Base, typename T>
[[nodiscard]] std::shared_ptr<Base> destroyed_by_others(std::shared_ptr<T> object) {
  Base* const base = object.get();
  return std::shared_ptr<Base>(base, [object = std::move(object)](Base*) mutable {
    if (!on_own_thread()) return object.reset();
    destroy_elsewhere(std::move(object));
  });
}

}  // namespace weir::platform
