#include "global/bridge_codec.h"

#include <algorithm>
#include <utility>

#include "base/byte_codec.h"
#include "global/publish_rule.h"

namespace weir::global {
namespace {

using base::ByteReader;
using base::ByteWriter;

constexpr uint64_t kNoticeFormat = 4;
constexpr uint64_t kStateFormat = 1;
// Records are notices or of these formats.
constexpr uint64_t kSurvivorFormat = 2;
constexpr uint64_t kReservationFormat = 3;
static_assert(kNoticeFormat > kReservationFormat);
// A list with more elements than the message has bytes is not valid.
constexpr size_t kMaxReserved = 4096;
// So many tuples are looked up together.
constexpr uint64_t kChangesAtATime = 64;

void add(ByteWriter& writer, const SyncRules& rules) {
  writer.add(static_cast<uint64_t>(rules.policy));
  writer.add(rules.unpublished_permille);
  writer.add(rules.slack_permille);
  writer.add_signed(rules.lease.count());
  writer.add_signed(rules.publish_every.count());
  writer.add_signed(rules.import_every.count());
  writer.add(rules.rows_per_second);
  writer.add(rules.floor_permille);
}

// Reads values of a range; one outside of it makes the whole encoding invalid.
class Values {
 public:
  explicit Values(std::string_view bytes) : reader_(bytes) {}

  [[nodiscard]] ByteReader& reader() { return reader_; }
  [[nodiscard]] uint64_t up_to(uint64_t most) {
    const uint64_t number = reader_.number();
    valid_ = valid_ && number <= most;
    return number;
  }
  [[nodiscard]] uint32_t number32() { return static_cast<uint32_t>(up_to(UINT32_MAX)); }
  // A time span: not negative, and short enough to be added to any time.
  [[nodiscard]] Millis span() {
    constexpr int64_t kMost = int64_t{1} << 40;
    const int64_t millis = reader_.signed_number();
    valid_ = valid_ && millis >= 0 && millis <= kMost;
    return Millis(millis);
  }
  // Whether all bytes were read, and all values were valid.
  [[nodiscard]] bool all_valid() const { return valid_ && reader_.at_end(); }

 private:
  ByteReader reader_;
  bool valid_ = true;
};

SyncRules read_rules(Values& values) {
  SyncRules rules;
  rules.policy = values.up_to(1) == 0 ? PublishPolicy::kBounded : PublishPolicy::kFloor;
  rules.unpublished_permille = values.number32();
  rules.slack_permille = values.number32();
  rules.lease = values.span();
  rules.publish_every = values.span();
  rules.import_every = values.span();
  rules.rows_per_second = values.number32();
  rules.floor_permille = values.number32();
  return rules;
}

void add(ByteWriter& writer, const Tenant& tenant) {
  writer.add(std::string_view(tenant.workspace));
  writer.add(std::string_view(tenant.ns));
}

Tenant read_tenant(ByteReader& reader) {
  Tenant tenant;
  tenant.workspace = reader.text();
  tenant.ns = reader.text();
  return tenant;
}

void add(ByteWriter& writer, const Unpublished& unpublished) {
  writer.add(unpublished.ppm);
  writer.add(unpublished.max_ppm);
}

Unpublished read_unpublished(ByteReader& reader) {
  Unpublished unpublished;
  unpublished.ppm = reader.number();
  unpublished.max_ppm = reader.number();
  return unpublished;
}

void add(ByteWriter& writer, const FeedPosition& position) {
  writer.add(position.epoch);
  writer.add(position.number);
}

FeedPosition read_position(ByteReader& reader) {
  FeedPosition position;
  position.epoch = reader.number();
  position.number = reader.number();
  return position;
}

void add(ByteWriter& writer, const RegionCount& count) {
  writer.add(std::string_view(count.region));
  writer.add_signed(count.sequence);
  writer.add(count.count);
  writer.add(count.limit_seen);
  writer.add_signed(count.leased_until.time_since_epoch().count());
}

RegionCount read_count(ByteReader& reader) {
  RegionCount count;
  count.region = reader.text();
  count.sequence = reader.signed_number();
  count.count = reader.number();
  count.limit_seen = reader.number();
  count.leased_until = WallTime(Millis(reader.signed_number()));
  return count;
}

template <typename Read>
auto read_list(ByteReader& reader, Read read) {
  std::vector<decltype(read())> list;
  const uint64_t size = reader.number();
  list.reserve(std::min<uint64_t>(size, kMaxReserved));
  for (uint64_t i = 0; i < size && reader.ok(); ++i) list.push_back(read());
  return list;
}

// False: some are not valid.
bool read_changes(ByteReader& reader, uint64_t count, const WantedTuples& wanted,
                  std::vector<TupleChange>& changes) {
  std::vector<std::string_view> tuples;
  std::vector<std::string_view> counts;  // of each tuple
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    tuples.push_back(reader.text());
    counts.push_back(reader.text());
  }
  if (!reader.ok()) return false;
  const std::vector<bool> kept = wanted ? wanted(tuples) : std::vector<bool>(tuples.size(), true);
  for (size_t i = 0; i < tuples.size(); ++i) {
    if (!kept[i]) continue;
    ByteReader each(counts[i]);
    changes.push_back({.tuple = std::string(tuples[i]),
                       .counts = read_list(each, [&] { return read_count(each); })});
    if (!each.at_end()) return false;
  }
  return true;
}

}  // namespace

std::string encode(const BridgeNotice& notice) {
  ByteWriter writer;
  writer.add(kNoticeFormat);
  const Regions& regions = notice.regions;
  add(writer, regions.rules);
  writer.add(regions.count);
  writer.add(uint64_t{regions.complete});
  add(writer, regions.unpublished);
  writer.add(regions.wider.size());
  for (const auto& [tenant, unpublished] : regions.wider) {
    add(writer, tenant);
    add(writer, unpublished);
  }
  add(writer, regions.own);
  writer.add(regions.doublings.size());
  for (const auto& [tenant, times] : regions.doublings) {
    add(writer, tenant);
    writer.add(times);
  }
  writer.add(regions.silent.size());
  for (const std::string& region : regions.silent) writer.add(std::string_view(region));
  writer.add_signed(notice.import_age.count());
  writer.add_signed(notice.fleet_age.count());
  writer.add(notice.changes.size());
  for (const TupleChange& change : notice.changes) {
    ByteWriter counts;
    counts.add(change.counts.size());
    for (const RegionCount& count : change.counts) add(counts, count);
    writer.add(std::string_view(change.tuple));
    // As a string, so that a process that does not want them can skip them.
    writer.add(std::string_view(counts.take()));
  }
  return writer.take();
}

std::optional<BridgeNotice> decode_notice(std::string_view bytes, const WantedTuples& wanted) {
  Values values(bytes);
  ByteReader& reader = values.reader();
  if (reader.number() != kNoticeFormat) return std::nullopt;
  BridgeNotice notice;
  Regions& regions = notice.regions;
  regions.rules = read_rules(values);
  regions.count = values.number32();
  regions.complete = values.up_to(1) != 0;
  regions.unpublished = read_unpublished(reader);
  const auto wider = read_list(reader, [&] {
    Tenant tenant = read_tenant(reader);
    return std::pair(std::move(tenant), read_unpublished(reader));
  });
  regions.wider.insert(wider.begin(), wider.end());
  regions.own = read_position(reader);
  const auto doublings = read_list(reader, [&] {
    Tenant tenant = read_tenant(reader);
    return std::pair(std::move(tenant), static_cast<uint32_t>(values.up_to(kMaxDoublings)));
  });
  regions.doublings.insert(doublings.begin(), doublings.end());
  const auto silent = read_list(reader, [&] { return std::string(reader.text()); });
  regions.silent.insert(silent.begin(), silent.end());
  notice.import_age = values.span();
  notice.fleet_age = values.span();
  for (uint64_t left = reader.number(); left > 0 && reader.ok();) {
    const uint64_t count = std::min(left, kChangesAtATime);
    if (!read_changes(reader, count, wanted, notice.changes)) return std::nullopt;
    left -= count;
  }
  if (!values.all_valid()) return std::nullopt;
  return notice;
}

std::string encode(const BridgeState& state) {
  ByteWriter writer;
  writer.add(kStateFormat);
  writer.add(state.id);
  writer.add(state.evicted);
  writer.add(uint64_t{state.emptied});
  writer.add(state.cursors.size());
  for (const auto& [region, position] : state.cursors) {
    writer.add(std::string_view(region));
    add(writer, position);
  }
  return writer.take();
}

std::optional<BridgeState> decode_state(std::string_view bytes) {
  Values values(bytes);
  ByteReader& reader = values.reader();
  if (reader.number() != kStateFormat) return std::nullopt;
  BridgeState state;
  state.id = reader.number();
  state.evicted = reader.number();
  state.emptied = values.up_to(1) != 0;
  const auto cursors = read_list(reader, [&] {
    std::string region(reader.text());
    return std::pair(std::move(region), read_position(reader));
  });
  state.cursors.insert(cursors.begin(), cursors.end());
  if (!values.all_valid()) return std::nullopt;
  return state;
}

std::string encode(const SurvivorRecord& record) {
  ByteWriter writer;
  writer.add(kSurvivorFormat);
  writer.add(record.incarnation);
  return writer.take();
}

std::optional<SurvivorRecord> decode_survivor(std::string_view bytes) {
  Values values(bytes);
  if (values.reader().number() != kSurvivorFormat) return std::nullopt;
  const SurvivorRecord record{.incarnation = values.reader().number()};
  if (!values.all_valid()) return std::nullopt;
  return record;
}

std::string encode(const ReservationRecord& record) {
  ByteWriter writer;
  writer.add(kReservationFormat);
  add(writer, record.at);
  return writer.take();
}

std::optional<ReservationRecord> decode_reservation(std::string_view bytes) {
  Values values(bytes);
  if (values.reader().number() != kReservationFormat) return std::nullopt;
  const ReservationRecord record{.at = read_position(values.reader())};
  if (!values.all_valid()) return std::nullopt;
  return record;
}

}  // namespace weir::global
