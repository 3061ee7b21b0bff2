// A move-only std::function: it holds callables that cannot be copied, such as a lambda
// that owns a std::unique_ptr. Small callables are stored inline, without an allocation.

#pragma once

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace weir {

template <typename Signature>
class UniqueFunction;

// As std::function: a const UniqueFunction can be called, and an empty one must not be:
// calling it ends the process. One thread at a time.
template <typename R, typename... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() {}
  UniqueFunction(std::nullptr_t) {}

  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, UniqueFunction> &&
           std::is_invocable_r_v<R, std::decay_t<F>&, Args...>) UniqueFunction(F&& function) {
    using Callable = std::decay_t<F>;
    if constexpr (kMayBeEmpty<Callable>) {
      if (!function) return;
    }
    if constexpr (kFitsInline<Callable>) {
      ::new (static_cast<void*>(storage_)) Callable(std::forward<F>(function));
    } else {
      ::new (static_cast<void*>(storage_)) Callable*(new Callable(std::forward<F>(function)));
    }
    operations_ = &kOperations<Callable>;
  }

  UniqueFunction(UniqueFunction&& other) noexcept { take(other); }
  UniqueFunction& operator=(UniqueFunction&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  UniqueFunction& operator=(std::nullptr_t) noexcept {
    reset();
    return *this;
  }
  UniqueFunction(const UniqueFunction&) = delete;
  UniqueFunction& operator=(const UniqueFunction&) = delete;
  ~UniqueFunction() { reset(); }

  explicit operator bool() const { return operations_ != nullptr; }
  friend bool operator==(const UniqueFunction& function, std::nullptr_t) { return !function; }

  R operator()(Args... args) const {
    if (operations_ == nullptr) std::abort();
    return operations_->call(storage_, std::forward<Args>(args)...);
  }

 private:
  struct Operations {
    R (*call)(std::byte* storage, Args&&... args);
    void (*move)(std::byte* from, std::byte* to) noexcept;  // destroys `from`
    void (*destroy)(std::byte* storage) noexcept;
  };

  static constexpr size_t kInlineBytes = 4 * sizeof(void*);

  template <typename F>
  static constexpr bool kFitsInline =
      sizeof(F) <= kInlineBytes &&
      alignof(F) <= alignof(void*) && std::is_nothrow_move_constructible_v<F>;

  template <typename F>
  struct IsStdFunction : std::false_type {};
  template <typename Signature>
  struct IsStdFunction<std::function<Signature>> : std::true_type {};
  template <typename F>
  static constexpr bool kMayBeEmpty = std::is_pointer_v<F> || IsStdFunction<F>::value;

  template <typename F>
  static F& callable(std::byte* storage) {
    if constexpr (kFitsInline<F>) {
      return *std::launder(reinterpret_cast<F*>(storage));
    } else {
      return **std::launder(reinterpret_cast<F**>(storage));
    }
  }

  template <typename F>
  static constexpr Operations kOperations = {
      .call = [](std::byte* storage, Args&&... args) -> R {
        if constexpr (std::is_void_v<R>) {
          std::invoke(callable<F>(storage), std::forward<Args>(args)...);
        } else {
          return std::invoke(callable<F>(storage), std::forward<Args>(args)...);
        }
      },
      .move =
          [](std::byte* from, std::byte* to) noexcept {
            if constexpr (kFitsInline<F>) {
              ::new (static_cast<void*>(to)) F(std::move(callable<F>(from)));
              callable<F>(from).~F();
            } else {
              ::new (static_cast<void*>(to)) F*(&callable<F>(from));
            }
          },
      .destroy =
          [](std::byte* storage) noexcept {
            if constexpr (kFitsInline<F>) {
              callable<F>(storage).~F();
            } else {
              delete &callable<F>(storage);
            }
          }};

  void take(UniqueFunction& other) noexcept {
    operations_ = std::exchange(other.operations_, nullptr);
    if (operations_ != nullptr) operations_->move(other.storage_, storage_);
  }
  void reset() noexcept {
    if (const Operations* const operations = std::exchange(operations_, nullptr)) {
      operations->destroy(storage_);
    }
  }

  // Mutable: the callable may change its own state, as in std::function.
  alignas(void*) mutable std::byte storage_[kInlineBytes];
  const Operations* operations_ = nullptr;
};

}  // namespace weir
