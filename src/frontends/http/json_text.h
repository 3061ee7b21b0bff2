// A string as JSON, quotes included.
//
// Names may be any bytes, and JSON is UTF-8: each byte that is not part of a UTF-8 character
// becomes U+FFFD, as decoders do it. So an answer is valid JSON whatever a client or an operator
// has named.

#pragma once

#include <cstddef>
#include <string_view>

#include "frontends/bytes.h"

namespace weir::frontends {

// The bytes of the UTF-8 character at the start of the text; 0: there is none.
[[nodiscard]] inline size_t utf8_bytes(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto follows = [&](size_t i, unsigned least = 0x80, unsigned most = 0xbf) {
    return byte(i) >= least && byte(i) <= most;
  };
  const unsigned first = byte(0);
  if (text.empty()) return 0;
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;  // a byte that follows, or more bytes than needed
  if (first < 0xe0) return follows(1) ? 2 : 0;
  if (first < 0xf0) {
    // Neither more bytes than needed nor a surrogate.
    const bool second = follows(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf);
    return second && follows(2) ? 3 : 0;
  }
  if (first > 0xf4) return 0;
  // Up to U+10FFFF.
  const bool second = follows(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf);
  return second && follows(2) && follows(3) ? 4 : 0;
}

inline void append_json(Bytes& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto is_plain = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= ' ' && byte < 0x80 && c != '"' && c != '\\';
  };
  out.append('"');
  while (!text.empty()) {
    size_t taken = 0;
    while (taken < text.size() && is_plain(text[taken])) ++taken;
    if (taken == 0) {
      const char c = text[0];
      taken = utf8_bytes(text);
      if (taken == 0) {
        out.append("\\ufffd");
        taken = 1;
      } else if (c == '"' || c == '\\') {
        out.append_all('\\', c);
      } else if (static_cast<unsigned char>(c) < ' ') {
        out.append_all(std::string_view("\\u00"), kHex[c >> 4], kHex[c & 15]);
      } else {
        out.append(text.substr(0, taken));
      }
    } else {
      out.append(text.substr(0, taken));
    }
    text.remove_prefix(taken);
  }
  out.append('"');
}

}  // namespace weir::frontends
