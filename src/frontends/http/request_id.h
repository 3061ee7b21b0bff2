// Random request ids, like req_0123456789abcdefghjkmnpq.

#pragma once

#include <cstdint>
#include <string_view>

#include "base/split_mix.h"
#include "frontends/bytes.h"

namespace weir::frontends {

// `state` is that of the generator.
inline void append_request_id(Bytes& out, uint64_t& state) {
  constexpr std::string_view kLetters = "0123456789abcdefghjkmnpqrstvwxyz";
  char text[24];
  for (int half = 0; half < 2; ++half) {
    uint64_t bits = base::split_mix(state);
    for (int i = 0; i < 12; ++i, bits >>= 5) text[12 * half + i] = kLetters[bits & 31];
  }
  out.append_all(std::string_view("req_"), std::string_view(text, sizeof text));
}

}  // namespace weir::frontends
