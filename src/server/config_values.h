// Parsers of setting values. Each returns what the value must be, or an empty text if it is valid.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/config.h"

namespace weir::server {

struct NumberRange {
  uint64_t min = 0;
  uint64_t max = 0;
};

[[nodiscard]] std::string read_number(const std::string& text, NumberRange range, uint64_t& value);

// "host:port", "[v6]:port", or "off".
[[nodiscard]] std::string read_address(const std::string& text, std::optional<Address>& value);
[[nodiscard]] std::string read_socket_path(const std::string& text, std::string& value);
// The name of a region or a node.
[[nodiscard]] std::string read_name(const std::string& text, std::string& value);
// redis://[user:password@]host[:port][/database], or memory.
[[nodiscard]] std::string read_origin(std::string_view text,
                                      std::optional<origins::RedisAddress>& value);
// none, auto, or a URL.
[[nodiscard]] std::string read_ledger(const std::string& text, Config& config);
[[nodiscard]] std::string read_password_file(const std::string& text, std::string& file);
// A PEM file, or none.
[[nodiscard]] std::string read_pem_file(const std::string& text, std::string& file);
[[nodiscard]] std::string read_tls_version(const std::string& text, frontends::TlsVersion& value);
[[nodiscard]] std::string read_bool(const std::string& text, bool& value);

struct TimeRange {
  Millis min{0};
  Millis max{600'000};
  std::string_view text = "a time from 0s to 10m, like 500ms, 5s or 1m";
  std::string_view unit = {};  // of a number without one; empty: there must be one
};
// The duration of a limit.
inline constexpr TimeRange kLimitDurations{
    .min = kMinDuration,
    .max = kMaxDuration,
    .text = "a time from 100ms to 30d, like 500ms, 60s, 5m, 1h or 1d, or a number of ms",
    .unit = "ms"};  // as in a request
// A whole number, then ms, s, m, h or d.
[[nodiscard]] std::string read_time(const std::string& text, Millis& value,
                                    const TimeRange& range = {});

struct SizeRange {
  int min_shift = 20;
  std::string text = "a size from 1MiB to 16TiB, like 512MiB, 2GB or 1073741824, or auto";
};
// In the largest unit in which it is a whole number: 1m, 90s, 1500ms.
[[nodiscard]] std::string time_text(Millis time);

// A number of bytes: 1073741824, 512MiB, 2GiB, or 512MB, 2GB of 1000s.
[[nodiscard]] std::string read_size(const std::string& text, uint64_t& value,
                                    const SizeRange& sizes = {});

template <typename Number>
[[nodiscard]] std::string assign(const std::string& text, NumberRange range, Number& target) {
  uint64_t value = 0;
  std::string error = read_number(text, range, value);
  if (error.empty()) target = static_cast<Number>(value);
  return error;
}

}  // namespace weir::server
