#include "origins/redis/redis_cells.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>

#include "base/wide.h"
#include "origins/region_counts.h"

namespace weir::origins {
namespace {

// No component can count more than a limit plus the requests of one batch.
constexpr Count kMaxPlausible = Count{1} << 44;

constexpr std::string_view kDepartedField = "departed";
constexpr std::string_view kRefusedField = "refused";
constexpr char kLimitMark = 'l';  // not a digit of a component

}  // namespace

std::string hex_of(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string hex(uint64_t value) {
  char text[16];
  return {text, std::to_chars(text, text + sizeof text, value, 16).ptr};
}

std::string key_prefix(std::string_view tuple) {
  constexpr size_t kHashBytes = 16;
  unsigned char hash[SHA256_DIGEST_LENGTH];
  // Fetched once: SHA256() would fetch the algorithm at each call.
  static const EVP_MD* const kSha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_Digest(tuple.data(), tuple.size(), hash, nullptr, kSha256, nullptr);
  return "weir:{" + hex_of(std::span(hash, kHashBytes)) + "}:";
}

std::string redis_key(const CellId& cell) {
  return key_prefix(cell.tuple) + std::to_string(cell.sequence);
}

std::string redis_field(const Component& component) {
  if (component == kDeparted) return std::string(kDepartedField);
  return hex(component.incarnation) + "." + hex(component.generation);
}

std::string limit_field(std::string_view component_field) {
  return kLimitMark + std::string(component_field);
}

bool parse_count(std::string_view text, Count& count) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() &&
         count <= kMaxPlausible;
}

std::string count_text(Count count) {
  return std::to_string(std::min(count, kMaxPlausible));
}

CellHash read_hash(const RedisReply& hash, std::string_view field) {
  CellHash read;
  for (size_t i = 0; i + 1 < hash.items.size(); i += 2) {
    Count count = 0;
    if (!parse_count(hash.items[i + 1].text, count)) {
      ++read.invalid;
      continue;
    }
    const std::string_view name = hash.items[i].text;
    if (name.starts_with(kLimitMark)) {
      read.limit_seen = smaller_limit(read.limit_seen, count);
      continue;
    }
    if (name == kRefusedField) {
      read.totals.refused = true;
      continue;
    }
    Count& part = name == field ? read.totals.mine : read.totals.siblings;
    part = base::saturating_add(part, count);
    if (name == kDepartedField) read.departed = count;
  }
  return read;
}

}  // namespace weir::origins
