#include "bench/requests.h"

#include <fmt/format.h>

#include <cstring>
#include <random>

namespace weir::bench {

std::string identifier_number(uint64_t n, size_t bytes) {
  // Multiplication by an odd factor is injective.
  std::string text = fmt::format("{:016x}", n * 0x9e3779b97f4a7c15ULL);
  while (text.size() < bytes) text += static_cast<char>('a' + (n + text.size()) % 26);
  return text;
}

Requests& Requests::shared() {
  static Requests requests;
  return requests;
}

Requests::Requests() : bytes_(kRequests * kIdentifierBytes), keys_(kRequests) {
  std::vector<char> identifiers(kKeys * kIdentifierBytes);
  for (size_t n = 0; n < kKeys; ++n) {
    const std::string identifier = identifier_number(n, kIdentifierBytes);
    std::memcpy(&identifiers[n * kIdentifierBytes], identifier.data(), kIdentifierBytes);
  }
  std::mt19937_64 random(1);
  std::uniform_int_distribution<uint32_t> pick(0, kKeys - 1);
  for (size_t at = 0; at < kRequests; ++at) {
    keys_[at] = pick(random);
    std::memcpy(&bytes_[at * kIdentifierBytes], &identifiers[keys_[at] * kIdentifierBytes],
                kIdentifierBytes);
  }
}

}  // namespace weir::bench
