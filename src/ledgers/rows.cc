#include "ledgers/rows.h"

#include <limits>

namespace weir::ledgers {
namespace {

// Whether (sequence + 2) * duration fits into a time.
bool has_end(int64_t sequence, Millis duration) {
  return duration.count() > 0 && sequence >= 0 &&
         sequence <= std::numeric_limits<int64_t>::max() / duration.count() - 2;
}

// Why a store cannot hold it; empty if it can.
std::string why_unstorable(const LedgerKey& key, const std::string& region) {
  const auto too_long = [](const char* name, const std::string& value, size_t most) {
    return std::string(name) + " has " + std::to_string(value.size()) + " bytes, of at most " +
           std::to_string(most);
  };
  if (key.workspace.size() > kMaxNameBytes) {
    return too_long("workspace", key.workspace, kMaxNameBytes);
  }
  if (key.ns.size() > kMaxNameBytes) {
    return too_long("namespace", key.ns, kMaxNameBytes);
  }
  if (key.identifier.size() > kMaxNameBytes) {
    return too_long("identifier", key.identifier, kMaxNameBytes);
  }
  if (region.size() > kMaxRegionBytes) return too_long("region", region, kMaxRegionBytes);
  return {};
}

std::string why_unstorable(const LedgerRow& row) {
  if (!has_end(row.sequence, row.key.duration)) {
    return "window " + std::to_string(row.sequence) + " of " +
           std::to_string(row.key.duration.count()) + " ms never ends";
  }
  constexpr Count kMax = std::numeric_limits<int64_t>::max();
  if (row.count > kMax || row.limit_seen > kMax) return "a number has more than 63 bits";
  return why_unstorable(row.key, row.region);
}

std::unique_ptr<Error> unstorable(const char* list, size_t index, std::string detail) {
  return std::make_unique<Error>(
      Error{.code = ErrorCode::kInvalidArgument,
            .retry = Retry::kPointless,
            .field = std::string(list) + "[" + std::to_string(index) + "]",
            .detail = std::move(detail),
            .fix = "publish the batch without it"});
}

void append_number(std::string& text, uint64_t number, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    text += static_cast<char>(number >> shift);
  }
}

uint64_t number_at(std::string_view text) {
  uint64_t number = 0;
  for (const char c : text) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

}  // namespace

std::unique_ptr<Error> find_unstorable(const LedgerNews& batch) {
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    std::string detail = why_unstorable(batch.rows[i]);
    if (!detail.empty()) return unstorable("rows", i, std::move(detail));
  }
  for (size_t i = 0; i < batch.presences.size(); ++i) {
    const LedgerPresence& presence = batch.presences[i];
    std::string detail = why_unstorable(presence.key, presence.region);
    if (!detail.empty()) return unstorable("presences", i, std::move(detail));
  }
  return nullptr;
}

bool is_valid(const LedgerKey& key, const std::string& region) {
  const auto is_name = [](const std::string& name) {
    return !name.empty() && name.size() <= kMaxNameBytes;
  };
  return key.workspace.size() <= kMaxNameBytes && is_name(key.ns) && is_name(key.identifier) &&
         key.duration >= kMinDuration && key.duration <= kMaxDuration && !region.empty() &&
         region.size() <= kMaxRegionBytes;
}

bool is_valid(const LedgerRow& row) {
  return is_valid(row.key, row.region) && has_end(row.sequence, row.key.duration) &&
         row.count <= kMaxCount && row.limit_seen >= 1 && row.limit_seen <= kMaxLimit;
}

bool is_valid(const LedgerPresence& presence) {
  return is_valid(presence.key, presence.region);
}

bool is_valid(const SyncRules& rules) {
  constexpr uint32_t kWhole = 1000;
  static constexpr Millis kDay{24 * 3600 * 1000};
  const auto is_pause = [](Millis pause) { return pause.count() >= 1 && pause <= kDay; };
  return rules.hidden_permille <= kWhole && rules.slack_permille <= kWhole &&
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

std::string encode(const PageCursor& cursor) {
  std::string text(1, static_cast<char>(cursor.part));
  append_number(text, static_cast<uint64_t>(cursor.sequence), 8);
  append_number(text, cursor.key.size(), 2);
  return text + cursor.key + cursor.region;
}

std::optional<PageCursor> decode(const LedgerPosition& position) {
  constexpr size_t kHead = 1 + 8 + 2;
  const std::string& text = position.after;
  if (text.empty()) return PageCursor{};
  const auto part = static_cast<PageCursor::Part>(text[0]);
  if (part != PageCursor::Part::kRows && part != PageCursor::Part::kPresences) return std::nullopt;
  if (text.size() < kHead) return std::nullopt;
  const std::string_view view = text;
  const size_t key_size = number_at(view.substr(9, 2));
  if (text.size() < kHead + key_size) return std::nullopt;
  return PageCursor{.part = part,
                    .key = text.substr(kHead, key_size),
                    .sequence = static_cast<int64_t>(number_at(view.substr(1, 8))),
                    .region = text.substr(kHead + key_size)};
}

Error bad_position() {
  return {.code = ErrorCode::kInvalidArgument,
          .retry = Retry::kPointless,
          .field = "position",
          .detail = "the position is not one that this ledger returned",
          .fix = "start with an empty position"};
}

}  // namespace weir::ledgers
