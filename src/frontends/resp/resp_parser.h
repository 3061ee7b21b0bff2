// Parses requests of the Redis protocol: arrays of bulk strings, or inline commands.
//
// Allocates nothing and keeps no state: the arguments are views of the input, and an incomplete
// request is parsed again from its first byte. The size of a request is bounded, which keeps
// parsing again cheap and rejects a request early that would never be accepted.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace weir::frontends {

inline constexpr size_t kMaxRespArguments = 1200;     // WEIR.MULTI of 100 items with all options
inline constexpr size_t kMaxRespArgument = 64 << 10;  // bytes
inline constexpr size_t kMaxRespRequest = 256 << 10;  // bytes in total
inline constexpr size_t kMaxRespLine = 64 << 10;      // bytes

class RespParser {
 public:
  enum class Status : uint8_t {
    kComplete,    // arguments() and bytes() of the first request; no arguments: skip it
    kIncomplete,  // more bytes are needed
    kBroken,      // protocol error, see error(); the connection must be closed
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
