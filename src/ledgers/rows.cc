#include "ledgers/rows.h"

#include <limits>

#include "base/byte_codec.h"

namespace weir::ledgers {
namespace {

constexpr Millis kMaxPause{24 * 3600 * 1000};  // of all times in SyncRules

// Whether (sequence + 2) * duration fits into a time.
bool has_end(int64_t sequence, Millis duration) {
  return duration.count() > 0 && sequence >= 0 &&
         sequence <= std::numeric_limits<int64_t>::max() / duration.count() - 2;
}

// Why a store cannot hold it; empty if it can.
std::string why_unstorable(const std::string& region, const LedgerRow& row) {
  const auto too_long = [](const char* name, const std::string& value, size_t most) {
    return std::string(name) + " has " + std::to_string(value.size()) + " bytes, of at most " +
           std::to_string(most);
  };
  const LedgerKey& key = row.key;
  if (!has_end(row.sequence, key.duration)) {
    return "window " + std::to_string(row.sequence) + " of " +
           std::to_string(key.duration.count()) + " ms never ends";
  }
  constexpr Count kMax = std::numeric_limits<int64_t>::max();
  if (row.count > kMax || row.limit_seen > kMax) return "a number has more than 63 bits";
  if (key.workspace.size() > kMaxNameBytes) {
    return too_long("workspace", key.workspace, kMaxNameBytes);
  }
  if (key.ns.size() > kMaxNameBytes) return too_long("namespace", key.ns, kMaxNameBytes);
  if (key.identifier.size() > kMaxNameBytes) {
    return too_long("identifier", key.identifier, kMaxNameBytes);
  }
  if (row.region.size() > kMaxRegionBytes) return too_long("region", row.region, kMaxRegionBytes);
  if (row.region != region) return "it is of another region than the batch";
  return {};
}

void append_number(std::string& text, uint64_t number, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    text += static_cast<char>(number >> shift);
  }
}

// A lease ends with the window that contains the end of the lease time, which begins when the row
// is written: about when the cell expires, at the latest.
bool has_possible_lease(const LedgerRow& row) {
  return row.leased_until >= WallTime{} &&
         row.leased_until - row.expires_at() <= kMaxPause + 2 * row.key.duration;
}

}  // namespace

std::unique_ptr<Error> find_unstorable(const std::string& region,
                                       const std::vector<LedgerRow>& rows) {
  if (rows.size() > kMaxFeedRows) {
    return std::make_unique<Error>(
        Error{.code = ErrorCode::kInvalidArgument,
              .retry = Retry::kPointless,
              .field = "rows",
              .detail = "the batch has more than " + std::to_string(kMaxFeedRows) + " rows",
              .fix = "publish fewer rows at once"});
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string detail = why_unstorable(region, rows[i]);
    if (detail.empty()) continue;
    return std::make_unique<Error>(Error{.code = ErrorCode::kInvalidArgument,
                                         .retry = Retry::kPointless,
                                         .field = "rows[" + std::to_string(i) + "]",
                                         .detail = std::move(detail),
                                         .fix = "publish the batch without it"});
  }
  return nullptr;
}

bool is_valid(const LedgerRow& row) {
  const auto is_name = [](const std::string& name) {
    return !name.empty() && name.size() <= kMaxNameBytes;
  };
  const LedgerKey& key = row.key;
  return key.workspace.size() <= kMaxNameBytes && is_name(key.ns) && is_name(key.identifier) &&
         key.duration >= kMinDuration && key.duration <= kMaxDuration && !row.region.empty() &&
         row.region.size() <= kMaxRegionBytes && has_end(row.sequence, key.duration) &&
         row.count <= kMaxCount && row.limit_seen >= 1 && row.limit_seen <= kMaxLimit &&
         has_possible_lease(row);
}

bool is_valid(const SyncRules& rules) {
  constexpr uint32_t kWhole = 1000;
  const auto is_pause = [](Millis pause) { return pause.count() >= 1 && pause <= kMaxPause; };
  return rules.unpublished_permille <= kWhole && rules.slack_permille <= kWhole &&
         rules.floor_permille <= kWhole && is_pause(rules.lease) && rules.lease >= kMinLease &&
         is_pause(rules.publish_every) && is_pause(rules.import_every) &&
         rules.rows_per_second >= 1;
}

std::string identity_of(const LedgerKey& key) {
  std::string text;
  text.reserve(key.workspace.size() + key.ns.size() + key.identifier.size() + 14);
  for (const std::string* name : {&key.workspace, &key.ns, &key.identifier}) {
    append_number(text, name->size(), 2);
    text += *name;
  }
  append_number(text, static_cast<uint64_t>(key.duration.count()), 8);
  return text;
}

LedgerPosition encode(const PageCursor& cursor) {
  base::ByteWriter writer;
  writer.add(cursor.key);
  writer.add_signed(cursor.sequence);
  return {.after = writer.take()};
}

std::optional<PageCursor> decode(const LedgerPosition& position) {
  if (position.after.empty()) return PageCursor{};
  base::ByteReader reader(position.after);
  PageCursor cursor{.key = std::string(reader.text()), .sequence = reader.signed_number()};
  if (!reader.at_end()) return std::nullopt;
  return cursor;
}

Error bad_position() {
  return {.code = ErrorCode::kInvalidArgument,
          .retry = Retry::kPointless,
          .field = "position",
          .detail = "the position is not one that this ledger returned",
          .fix = "start with an empty position"};
}

}  // namespace weir::ledgers
