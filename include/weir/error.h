// Errors, and the type of a value that may be missing because of one.
//
// A denial is not an error: it is a Verdict. An Error means that the request was invalid or
// that a store could not be reached. Nothing was counted.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace weir {

enum class ErrorCode : uint8_t {
  kInvalidArgument,  // a mistake of the caller: `field` names it, `fix` says the valid range
  kUnavailable,      // a store could not be reached
  kTimeout,          // a store did not answer in time
  kShared,           // a reset of counts that other processes have, too
};

enum class Retry : uint8_t { kPointless, kMayHelp };

struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  Retry retry = Retry::kPointless;
  std::string field = {};   // "duration", or "requests[3].cost"; empty if it concerns no field
  std::string detail = {};  // the problem, with the value
  std::string fix = {};     // how to correct it
};

// Either a T or an Error. Works without exceptions: access to the value of an error, or to the
// error of a value, ends the process. One thread at a time.
template <typename T>
class [[nodiscard]] Result {
  // A T is held directly where that is possible: a default T needs no flag of its own.
  static constexpr bool kDirect = std::is_default_constructible_v<T>;

 public:
  // Holds a T{}, so that arrays of results can be allocated in advance.
  Result() requires kDirect = default;
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : error_(std::make_unique<Error>(std::move(error))) {}

  [[nodiscard]] bool ok() const { return error_ == nullptr; }
  explicit operator bool() const { return ok(); }

  [[nodiscard]] const T& value() const& {
    if (!ok()) std::abort();
    if constexpr (kDirect)
      return value_;
    else
      return *value_;
  }
  [[nodiscard]] T& value() & {
    if (!ok()) std::abort();
    if constexpr (kDirect)
      return value_;
    else
      return *value_;
  }
  // By value: a reference would outlive the temporary that it points into.
  [[nodiscard]] T value() && { return std::move(value()); }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T operator*() && { return std::move(value()); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  [[nodiscard]] const Error& error() const {
    if (ok()) std::abort();
    return *error_;
  }

 private:
  std::conditional_t<kDirect, T, std::optional<T>> value_{};
  std::unique_ptr<Error> error_;
};

}  // namespace weir
