#include "memory/usage_key.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <string>
#include <string_view>

#include "memory/tagged_word.h"

namespace weir::memory {
namespace {

constexpr char kSeparator = '\x1f';
constexpr uint64_t kShortest = 1024;  // ms

// What follows the identifier of the counted tuple: its class, and its duration in ms.
struct Suffix {
  size_t begin = 0;
  CellClass cell_class = CellClass::kBacklog;
  Millis duration{0};
};

std::optional<Suffix> suffix_of(std::string_view identifier) {
  const size_t begin = identifier.rfind(kSeparator);
  if (begin == std::string_view::npos || begin == 0 || identifier.size() < begin + 3) {
    return std::nullopt;
  }
  const int cell_class = identifier[begin + 1] - '0';
  if (cell_class < static_cast<int>(CellClass::kBacklog) ||
      cell_class > static_cast<int>(CellClass::kLog)) {
    return std::nullopt;
  }
  int64_t duration = 0;
  const char* const end = identifier.data() + identifier.size();
  const auto [stop, error] = std::from_chars(identifier.data() + begin + 2, end, duration);
  if (error != std::errc() || stop != end || duration < 0) return std::nullopt;
  return Suffix{begin, static_cast<CellClass>(cell_class), Millis(duration)};
}

}  // namespace

bool is_usage_width(Millis duration) {
  const auto power = static_cast<uint64_t>(duration.count() - 1);
  return power >= kShortest && std::has_single_bit(power);
}

Millis usage_width(Millis horizon) {
  if (mutated(Mutation::kUsageWindowShort)) horizon /= 8;
  const uint64_t most = std::bit_floor(static_cast<uint64_t>(kMaxDuration.count()) - 1);
  const uint64_t least =
      std::max(static_cast<uint64_t>(std::max<int64_t>(horizon.count(), 1)), kShortest);
  return Millis(static_cast<int64_t>(std::min(std::bit_ceil(std::min(least, most)), most) + 1));
}

std::optional<TupleKey> usage_key(const TupleKey& counted, Millis horizon,
                                  const base::KeyedHash& hash) {
  const KeyNames names = names_of(counted.header(), counted.words());
  if (names.workspace == kServerWorkspace && names.ns == kIdempotencyNamespace) return std::nullopt;
  std::string identifier = names.identifier;
  identifier += kSeparator;
  identifier += static_cast<char>('0' + static_cast<int>(counted.header().cell_class()));
  identifier += std::to_string(counted.header().duration().count());
  if (identifier.size() > kMaxNameBytes) return std::nullopt;
  return TupleKey({.workspace = names.workspace,
                   .ns = names.ns,
                   .identifier = identifier,
                   .duration = usage_width(horizon),
                   .algorithm = Algorithm::kFixedWindow},
                  hash);
}

std::optional<TupleKey> counted_key(const Slot& slot, const base::KeyedHash& hash) {
  if (slot.header.cell_class() != CellClass::kWindow || !is_usage_width(slot.header.duration())) {
    return std::nullopt;
  }
  KeyNames names = names_of(slot.header, slot.key_words());
  const auto suffix = suffix_of(names.identifier);
  if (!suffix) return std::nullopt;
  names.identifier.resize(suffix->begin);
  Request request{.workspace = names.workspace,
                  .ns = names.ns,
                  .identifier = names.identifier,
                  .duration = suffix->duration};
  switch (suffix->cell_class) {
    case CellClass::kRing: request.algorithm = Algorithm::kSlidingWindowStrict; break;
    case CellClass::kLog: request.algorithm = Algorithm::kSlidingLog; break;
    case CellClass::kBacklog:
    case CellClass::kWindow: request.algorithm = Algorithm::kGcra; break;
  }
  request.across_durations = suffix->duration == Millis(0);
  return TupleKey(request, hash);
}

bool is_usage_tuple(const TupleKey& key) {
  const KeyHeader header = key.header();
  if (header.cell_class() != CellClass::kWindow || !is_usage_width(header.duration())) return false;
  return suffix_of(names_of(header, key.words()).identifier).has_value();
}

bool is_usage_tuple(const std::string& encoded) {
  const KeyHeader header = header_of(encoded);
  if (header.cell_class() != CellClass::kWindow || !is_usage_width(header.duration())) return false;
  return suffix_of(names_of(encoded).identifier).has_value();
}

}  // namespace weir::memory
