#include "server/shown_text.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

namespace weir::server {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: it is no UTF-8
};

Character first_of(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {.code = first, .bytes = 1};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || bytes > text.size()) return {};
  uint32_t code = first & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[bytes] || code > 0x10ffff || is_surrogate) return {};
  return {.code = code, .bytes = bytes};
}

// Control characters, also those of ISO 8859 (C1), ends of lines, and changes of the direction.
bool is_control(uint32_t code) {
  const auto within = [code](uint32_t low, uint32_t high) { return code >= low && code <= high; };
  return within(0, 0x1f) || within(0x7f, 0x9f) || within(0x200e, 0x200f) ||
         within(0x2028, 0x202e) || within(0x2066, 0x2069) || code == 0x61c || code == 0xfeff;
}

}  // namespace

std::string shown(std::string_view name) {
  std::string text;
  while (!name.empty()) {
    const Character next = first_of(name);
    const std::string_view bytes = name.substr(0, next.bytes == 0 ? 1 : next.bytes);
    if (next.bytes != 0 && !is_control(next.code)) {
      text += bytes;
    } else {
      for (const char c : bytes) {
        text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      }
    }
    name.remove_prefix(bytes.size());
  }
  return text;
}

}  // namespace weir::server
