// Requests of the Redis protocol: arrays of bulk strings, or a line of words.
//
// Allocates nothing and keeps nothing: the arguments are views of the bytes handed in, and
// a request that has not arrived whole is looked at again from its first byte. What it
// accepts is bounded, so that looking again is cheap and a client cannot make anyone wait
// for a request that would never be taken.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace weir::frontends {

inline constexpr size_t kMaxRespArguments = 1200;     // WEIR.MULTI of 100 items with all options
inline constexpr size_t kMaxRespArgument = 64 << 10;  // bytes
inline constexpr size_t kMaxRespRequest = 256 << 10;  // bytes, all in
inline constexpr size_t kMaxRespLine = 64 << 10;      // bytes

class RespParser {
 public:
  enum class Status : uint8_t {
    kComplete,    // arguments() and bytes() are of the first request; no arguments: skip it
    kIncomplete,  // more bytes are needed
    kBroken,      // never a request: error() says why; the connection cannot go on
  };

  [[nodiscard]] Status parse(std::string_view in);

  [[nodiscard]] std::span<const std::string_view> arguments() const {
    return {arguments_.data(), count_};
  }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] const char* error() const { return error_; }

 private:
  Status parse_array(std::string_view in);
  Status parse_line(std::string_view in);
  Status broken(const char* why) {
    error_ = why;
    return Status::kBroken;
  }

  std::array<std::string_view, kMaxRespArguments> arguments_;
  size_t count_ = 0;
  size_t bytes_ = 0;
  const char* error_ = "";
};

}  // namespace weir::frontends
