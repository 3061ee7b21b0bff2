#include "server/config_values.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace weir::server {

std::string read_number(const std::string& text, NumberRange range, uint64_t& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value >= range.min && value <= range.max) return {};
  return fmt::format("must be a whole number from {} to {}", range.min, range.max);
}

std::string read_address(const std::string& text, std::optional<Address>& value) {
  const std::string expected = "must be an IP address and a port, like 127.0.0.1:7070, or off";
  if (text == "off") {
    value.reset();
    return {};
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return expected;
  std::string host = text.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  in_addr four{};
  in6_addr six{};
  const bool valid = brackets ? inet_pton(AF_INET6, host.c_str(), &six) == 1
                              : inet_pton(AF_INET, host.c_str(), &four) == 1;
  uint64_t port = 0;
  if (!valid || !read_number(text.substr(colon + 1), {0, 65535}, port).empty()) return expected;
  value = Address{.host = host, .port = static_cast<uint16_t>(port)};
  return {};
}

std::string read_socket_path(const std::string& text, std::string& value) {
  if (text.empty() || text.size() > frontends::kMaxSocketPath) {
    return fmt::format("must be a path of 1 to {} bytes, like /run/weir/resp.sock, or off",
                       frontends::kMaxSocketPath);
  }
  value = text == "off" ? "" : text;
  return {};
}

std::string read_name(const std::string& text, std::string& value) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (text.empty() || text.size() > 64 || !std::all_of(text.begin(), text.end(), fits)) {
    return "must be 1 to 64 letters, digits, '-', '_' or '.'";
  }
  value = text;
  return {};
}

std::string read_origin(std::string_view text, std::optional<origins::RedisAddress>& value) {
  const std::string expected =
      "must be memory or redis://[user:password@]host[:port][/database], like "
      "redis://127.0.0.1:6379";
  if (text == "memory") {
    value.reset();
    return {};
  }
  const auto address = origins::parse_redis_address(text);
  if (!address) {
    const Error& error = address.error();
    return error.field.empty() ? expected : error.detail + ": " + error.fix;
  }
  value = *address;
  return {};
}

std::string read_ledger(const std::string& text, Config& config) {
  if (text == "none" || text == "auto") {
    config.ledger_choice = text == "none" ? LedgerChoice::kNone : LedgerChoice::kUsual;
    return {};
  }
  const auto address = ledgers::parse_ledger_address(text);
  if (!address) {
    const Error& error = address.error();
    return error.detail + (error.fix.empty() ? "" : ": " + error.fix);
  }
  config.ledger_choice = LedgerChoice::kGiven;
  config.ledger = *address;
  return {};
}

std::string read_password_file(const std::string& text, std::string& file) {
  if (text.empty()) return "must name a file, or be none";
  file = text == "none" ? "" : text;
  return {};
}

std::string read_pem_file(const std::string& text, std::string& file) {
  if (text.empty()) return "must name a PEM file, or be none";
  file = text == "none" ? "" : text;
  return {};
}

std::string read_tls_version(const std::string& text, frontends::TlsVersion& value) {
  if (text != "1.2" && text != "1.3") return "must be 1.2 or 1.3";
  value = text == "1.3" ? frontends::TlsVersion::k13 : frontends::TlsVersion::k12;
  return {};
}

std::string read_bool(const std::string& text, bool& value) {
  if (text != "true" && text != "false") return "must be true or false";
  value = text == "true";
  return {};
}

namespace {

constexpr std::pair<std::string_view, uint64_t> kTimeUnits[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};

}  // namespace

std::string read_time(const std::string& text, Millis& value, const TimeRange& range) {
  const auto max = static_cast<uint64_t>(range.max.count());
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view written = std::string_view(text).substr(digits);
  for (const auto& [unit, factor] : kTimeUnits) {
    uint64_t number = 0;
    if ((written.empty() ? range.unit : written) != unit ||
        !read_number(text.substr(0, digits), {0, max / factor}, number).empty()) {
      continue;
    }
    const Millis time(static_cast<int64_t>(number * factor));
    if (time < range.min) break;
    value = time;
    return {};
  }
  return fmt::format("must be {}", range.text);
}

std::string time_text(Millis time) {
  const auto count = static_cast<uint64_t>(time.count());
  auto [unit, factor] = kTimeUnits[0];
  for (const auto& [larger, milliseconds] : kTimeUnits) {
    if (count == 0 || count % milliseconds != 0) break;  // each is a multiple of the one before
    unit = larger;
    factor = milliseconds;
  }
  return fmt::format("{}{}", count / factor, unit);
}

std::string read_size(const std::string& text, uint64_t& value, const SizeRange& sizes) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 44;
  const std::string expected = "must be " + sizes.text;
  const std::pair<std::string_view, uint64_t> units[] = {{"", 1},
                                                         {"B", 1},
                                                         {"KiB", uint64_t{1} << 10},
                                                         {"MiB", uint64_t{1} << 20},
                                                         {"GiB", uint64_t{1} << 30},
                                                         {"TiB", uint64_t{1} << 40},
                                                         {"KB", 1'000},
                                                         {"MB", 1'000'000},
                                                         {"GB", 1'000'000'000},
                                                         {"TB", 1'000'000'000'000}};
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string unit = text.substr(digits);
  const auto known = std::find_if(std::begin(units), std::end(units),
                                  [&](const auto& each) { return each.first == unit; });
  if (known == std::end(units)) return expected;
  uint64_t number = 0;
  const NumberRange range{.min = 1, .max = kMaxBytes / known->second};
  if (!read_number(text.substr(0, digits), range, number).empty()) return expected;
  const uint64_t bytes = number * known->second;
  if (bytes >> sizes.min_shift == 0) return expected;
  value = bytes;
  return {};
}

}  // namespace weir::server
