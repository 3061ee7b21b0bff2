#include "frontends/http/normal_path.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

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

// How an application may read a path.
enum class Parameters : uint8_t { kKept, kRemovedFirst, kRemovedLast };
struct Reading {
  Parameters parameters = Parameters::kKept;  // first: a segment ends at a slash as it was sent
  bool backslash = false;                     // is a slash
  bool encoded_slash = false;                 // is a slash

  // The path with what is a slash for it as a slash, and without parameters it removes.
  [[nodiscard]] std::string apply(std::string_view path) const {
    std::string text;
    bool removing = false;
    for (size_t i = 0, bytes = 1; i < path.size(); i += bytes) {
      const bool escape = path[i] == '%' && path.size() - i > 2;
      const auto high = escape ? hex_digit(path[i + 1]) : std::nullopt;
      const auto low = escape ? hex_digit(path[i + 2]) : std::nullopt;
      const bool decoded = high && low;
      const char c = decoded ? static_cast<char>(*high << 4 | *low) : path[i];
      bytes = decoded ? 3 : 1;
      const bool slash = decoded ? c == '/' && encoded_slash : c == '/';
      const bool separates = slash || (c == '\\' && backslash);
      const bool last = parameters == Parameters::kRemovedLast;
      if (last ? separates : c == '/' && !decoded) removing = false;
      if (parameters != Parameters::kKept && c == ';' && (last || !decoded)) removing = true;
      if (removing) continue;
      text += separates ? std::string_view("/") : path.substr(i, bytes);
    }
    return text;
  }
};

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

void other_readings(std::string_view target, std::vector<std::string>& out) {
  out.clear();
  const std::string_view path = path_of(target);
  if (path.find_first_of(";\\%") == std::string_view::npos) return;
  std::string plain;
  normalize_path(path, plain);
  for (const Parameters parameters :
       {Parameters::kRemovedLast, Parameters::kRemovedFirst, Parameters::kKept}) {
    for (const bool encoded_slash : {true, false}) {
      for (const bool backslash : {true, false}) {
        const Reading reading{parameters, backslash, encoded_slash};
        std::string normal;
        normalize_path(reading.apply(path), normal);
        if (normal != plain && std::ranges::find(out, normal) == out.end()) {
          out.push_back(std::move(normal));
        }
      }
    }
  }
}

}  // namespace weir::frontends
