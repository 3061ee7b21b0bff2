#include "origins/redis/redis_tuples.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include "origins/due_set.h"
#include "origins/redis/redis_cells.h"
#include "origins/redis/redis_command.h"
#include "origins/region_counts.h"

namespace weir::origins {
namespace {

// Splits off the text before the next separator.
std::string_view next_part(std::string_view& rest, char separator) {
  const size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

bool parse_signed(std::string_view text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_sequence(std::string_view text, int64_t& sequence) {
  constexpr int64_t kMaxExact = int64_t{1} << 53;  // in Lua
  return parse_signed(text, sequence) && -kMaxExact <= sequence && sequence <= kMaxExact;
}

bool read_region(std::string_view region, std::string_view value, std::vector<RegionCount>& all) {
  int64_t lease = 0;
  if (!parse_signed(next_part(value, ';'), lease) || lease < 0) return false;
  std::vector<RegionCount> windows;
  while (!value.empty()) {
    if (windows.size() == kWindowsPerRegion) return false;
    std::string_view window = next_part(value, ';');
    RegionCount count{.region = std::string(region), .leased_until = WallTime(Millis(lease))};
    if (!parse_sequence(next_part(window, ','), count.sequence)) return false;
    if (!windows.empty()) {
      count.sequence += windows[0].sequence;
      count.limit_seen = windows[0].limit_seen;
    }
    const std::string_view text = next_part(window, ',');
    const bool has_limit = windows.empty() || !window.empty();
    if (!parse_count(text, count.count) || (has_limit && !parse_count(window, count.limit_seen))) {
      return false;
    }
    windows.push_back(std::move(count));
  }
  if (windows.empty() && lease > 0) {
    windows.push_back({.region = std::string(region), .leased_until = WallTime(Millis(lease))});
  }
  all.insert(all.end(), windows.begin(), windows.end());
  return true;
}

}  // namespace

std::string tuple_key(std::string_view prefix) {
  return std::string(prefix) + "t";
}

TupleHash read_tuple_hash(const RedisReply& hash) {
  TupleHash read;
  for (size_t i = 0; i + 1 < hash.items.size(); i += 2) {
    if (!read_region(hash.items[i].text, hash.items[i + 1].text, read.regions)) ++read.invalid;
  }
  std::ranges::sort(read.regions, {}, [](const RegionCount& each) {
    return std::tuple<const std::string&, int64_t>(each.region, each.sequence);
  });
  return read;
}

std::string due_member(const DueTuple& entry) {
  return static_cast<char>('0' + static_cast<int>(entry.kind)) + entry.tuple;
}

std::string due_score(const DueTuple& entry) {
  static_assert(kRevisions == 1024);
  constexpr uint64_t kUnit = 9'765'625;  // of 10^-10
  const std::string fraction = std::to_string(entry.revision % kRevisions * kUnit);
  return millis_text(entry.at) + "." + std::string(10 - fraction.size(), '0') + fraction;
}

bool read_due_members(const RedisReply& reply, std::vector<DueTuple>& entries, uint64_t& invalid) {
  if (reply.type != RedisReply::Type::kList || reply.items.size() % 2 != 0) return false;
  for (size_t i = 0; i < reply.items.size(); i += 2) {
    const std::string_view member = reply.items[i].text;
    const std::string_view score = reply.items[i + 1].text;
    double at = 0;
    const auto [end, error] = std::from_chars(score.data(), score.data() + score.size(), at);
    const double whole = std::floor(at);
    const Due kind = member.empty() ? Due::kNever : static_cast<Due>(member[0] - '0');
    constexpr double kMaxExact = 9007199254740992.0;  // 2^53
    if (error != std::errc() || end != score.data() + score.size() || !(at >= -kMaxExact) ||
        !(at <= kMaxExact) || kind == Due::kNever || kind > Due::kWindowEnd) {
      ++invalid;
      continue;
    }
    entries.push_back({.tuple = std::string(member.substr(1)),
                       .kind = kind,
                       .at = WallTime(Millis(static_cast<int64_t>(whole))),
                       .revision = static_cast<uint32_t>((at - whole) * kRevisions)});
  }
  return true;
}

}  // namespace weir::origins
