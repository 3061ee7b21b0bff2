// What is returned when a request cannot be answered at all.
//
// A denial is not an error: it is a Verdict. An Error means the question was
// malformed or could not be asked, and nothing was counted.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

namespace weir {

enum class ErrorCode : uint8_t {
  kInvalidArgument,  // the caller's mistake: `field` says which, `fix` what would be right
  kUnavailable,      // a store could not be asked
  kTimeout,          // a store did not answer in time
};

enum class Retry : uint8_t { kPointless, kMayHelp };

struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  Retry retry = Retry::kPointless;
  std::string field = {};   // "duration", or "requests[3].cost"; empty where no field is to blame
  std::string detail = {};  // what is wrong, with the value
  std::string fix = {};     // what would be right
};

// Either a T or an Error. Works without exceptions: reading the side that is not
// there ends the process.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result() = default;  // holds a T{}, so that room for answers can be made ahead
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : error_(std::make_unique<Error>(std::move(error))) {}

  [[nodiscard]] bool ok() const { return error_ == nullptr; }
  explicit operator bool() const { return ok(); }

  [[nodiscard]] const T& value() const {
    if (!ok()) std::abort();
    return value_;
  }
  [[nodiscard]] T& value() {
    if (!ok()) std::abort();
    return value_;
  }
  const T& operator*() const { return value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const {
    if (ok()) std::abort();
    return *error_;
  }

 private:
  T value_{};
  std::unique_ptr<Error> error_;
};

}  // namespace weir
