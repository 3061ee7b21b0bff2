#include "frontends/http/normal_path.h"

#include <algorithm>
#include <optional>

namespace weir::frontends {
namespace {

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

// Appends a decoded byte.
void append_byte(unsigned char byte, std::string& out) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  constexpr std::string_view kEncoded = "/%?#";
  if (byte < ' ' || byte == 127 || kEncoded.find(static_cast<char>(byte)) != kEncoded.npos) {
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  } else {
    out += static_cast<char>(byte);
  }
}

void append_decoded(std::string_view segment, std::string& out) {
  for (size_t i = 0; i < segment.size(); ++i) {
    const bool escape = segment[i] == '%' && segment.size() - i > 2;
    const auto high = escape ? hex_digit(segment[i + 1]) : std::nullopt;
    const auto low = escape ? hex_digit(segment[i + 2]) : std::nullopt;
    if (high && low) {
      append_byte(static_cast<unsigned char>(*high << 4 | *low), out);
      i += 2;
    } else {
      append_byte(static_cast<unsigned char>(segment[i]), out);
    }
  }
}

std::string_view path_of(std::string_view target) {
  if (!target.starts_with('/')) {
    const size_t scheme = target.find("://");
    if (scheme != std::string_view::npos) {
      target.remove_prefix(std::min(target.find_first_of("/?#", scheme + 3), target.size()));
    }
  }
  return target.substr(0, target.find_first_of("?#"));
}

}  // namespace

void normalize_path(std::string_view target, std::string& out) {
  std::string_view rest = path_of(target);
  out = "/";
  while (!rest.empty()) {
    // `out` ends in a slash here.
    const size_t slash = std::min(rest.find('/'), rest.size());
    const size_t begin = out.size();
    append_decoded(rest.substr(0, slash), out);
    rest.remove_prefix(slash);
    const std::string_view segment = std::string_view(out).substr(begin);
    if (segment == "." || segment == "..") {
      const bool up = segment == ".." && begin > 1;
      out.erase(up ? out.rfind('/', begin - 2) + 1 : begin);
    } else if (!segment.empty() && !rest.empty()) {
      out += '/';
    }
    if (!rest.empty()) rest.remove_prefix(1);
  }
}

}  // namespace weir::frontends
