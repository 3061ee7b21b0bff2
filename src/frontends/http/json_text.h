// A string as JSON, quotes included. The text is UTF-8.

#pragma once

#include <string_view>

#include "frontends/bytes.h"

namespace weir::frontends {

inline void append_json(Bytes& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out.append('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.append_all('\\', c);
    } else if (static_cast<unsigned char>(c) < ' ') {
      out.append_all(std::string_view("\\u00"), kHex[c >> 4], kHex[c & 15]);
    } else {
      out.append(c);
    }
  }
  out.append('"');
}

}  // namespace weir::frontends
