#include "origins/redis/redis_cells.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <charconv>
#include <span>

#include "base/wide.h"

namespace weir::origins {
namespace {

// No component can count more than a limit plus the requests of one batch.
constexpr Count kMaxPlausible = Count{1} << 44;

constexpr std::string_view kDepartedField = "departed";

std::string hex_of(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

// HINCRBY comes before HDEL: if the sum fails, the count is still there.
const std::string_view kRetireScript =
    "local count = redis.call('HGET', KEYS[1], ARGV[1]) "
    "if not count or not string.match(count, '^%d+$') then return 0 end "
    "redis.call('HINCRBY', KEYS[1], 'departed', count) "
    "return redis.call('HDEL', KEYS[1], ARGV[1])";

const std::string_view kRestoreScript =
    "local count = tonumber(redis.call('HGET', KEYS[1], 'departed')) or 0 "
    "if count < tonumber(ARGV[1]) then redis.call('HSET', KEYS[1], 'departed', ARGV[1]) end "
    "return redis.call('PEXPIRE', KEYS[1], ARGV[2])";

std::string hex(uint64_t value) {
  char text[16];
  return {text, std::to_chars(text, text + sizeof text, value, 16).ptr};
}

std::string redis_key(const CellId& cell) {
  constexpr size_t kHashBytes = 16;
  unsigned char hash[SHA256_DIGEST_LENGTH];
  // Fetched once: SHA256() would fetch the algorithm at each call.
  static const EVP_MD* const kSha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_Digest(cell.tuple.data(), cell.tuple.size(), hash, nullptr, kSha256, nullptr);
  return "weir:{" + hex_of(std::span(hash, kHashBytes)) + "}:" + std::to_string(cell.sequence);
}

std::string redis_field(const Component& component) {
  if (component == kDeparted) return std::string(kDepartedField);
  return hex(component.incarnation) + "." + hex(component.generation);
}

CellHash read_hash(const RedisReply& hash, std::string_view field) {
  CellHash read;
  for (size_t i = 0; i + 1 < hash.items.size(); i += 2) {
    const std::string_view text = hash.items[i + 1].text;
    Count count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size() || text.empty() ||
        count > kMaxPlausible) {
      ++read.invalid;
      continue;
    }
    const std::string_view name = hash.items[i].text;
    Count& part = name == kPublishedField ? read.totals.published
                  : name == field         ? read.totals.mine
                                          : read.totals.siblings;
    part = base::saturating_add(part, count);
    if (name == kDepartedField) read.departed = count;
  }
  return read;
}

std::string sha_of_script(std::string_view script) {
  unsigned char hash[SHA_DIGEST_LENGTH];
  SHA1(bytes_of(script), script.size(), hash);
  return hex_of(hash);
}

}  // namespace weir::origins
