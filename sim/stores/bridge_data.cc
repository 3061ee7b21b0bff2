#include "sim/stores/bridge_data.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/mutation.h"

namespace weir::sim {
namespace {

constexpr size_t kWindowsKept = 3;  // of each region

// The end of the window, from the end of the window after it.
WallTime window_end(const CellReplay& replay) {
  const Millis duration = replay.expires_at.time_since_epoch() / (replay.cell.sequence + 2);
  return WallTime((replay.cell.sequence + 1) * duration);
}

Count smaller_limit(Count a, Count b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

// Whether an entry is about a lease only.
bool is_lease(const RegionCount& entry) {
  return entry.count == 0 && entry.limit_seen == 0;
}

void raise_one(std::vector<RegionCount>& counts, const RegionCount& with) {
  const auto found = std::find_if(counts.begin(), counts.end(), [&](const RegionCount& each) {
    return each.region == with.region && each.sequence == with.sequence;
  });
  if (found == counts.end()) {
    counts.push_back(with);
    return;
  }
  found->count = std::max(found->count, with.count);
  found->limit_seen = smaller_limit(found->limit_seen, with.limit_seen);
  found->leased_until = std::max(found->leased_until, with.leased_until);
}

void replace_one(std::vector<RegionCount>& counts, const RegionCount& with) {
  std::erase_if(counts, [&](const RegionCount& each) {
    return each.region == with.region && each.sequence == with.sequence;
  });
  counts.push_back(with);
}

// The newest windows of each region, each with the lease of the region; in order. A region of which
// only the lease is known has one entry, with sequence 0.
void keep_newest(std::vector<RegionCount>& counts) {
  std::sort(counts.begin(), counts.end(), [](const RegionCount& a, const RegionCount& b) {
    return std::tie(a.region, b.sequence) < std::tie(b.region, a.sequence);
  });
  std::map<std::string, std::vector<RegionCount>> kept;
  std::map<std::string, WallTime> leases;
  for (const RegionCount& each : counts) {
    std::vector<RegionCount>& windows = kept[each.region];
    if (!is_lease(each) && windows.size() < kWindowsKept) windows.push_back(each);
    leases[each.region] = std::max(leases[each.region], each.leased_until);
  }
  counts.clear();
  for (auto& [region, windows] : kept) {
    if (windows.empty()) windows.push_back({.region = region});
    for (auto window = windows.rbegin(); window != windows.rend(); ++window) {
      window->leased_until = leases[region];
      counts.push_back(*window);
    }
  }
}

}  // namespace

const RegionCount* RegionCounts::find(const std::string& region, int64_t sequence) const {
  const auto found = std::find_if(counts.begin(), counts.end(), [&](const RegionCount& each) {
    return each.region == region && each.sequence == sequence;
  });
  return found == counts.end() ? nullptr : &*found;
}

WallTime RegionCounts::leased_until(const std::string& region) const {
  WallTime until{};
  for (const RegionCount& each : counts) {
    if (each.region == region) until = std::max(until, each.leased_until);
  }
  return until;
}

bool BridgeData::holds(const std::string& holder) const {
  return bridge_.holder == holder && now() < bridge_.until;
}

void BridgeData::keep() {
  bridges_.set(now(), 0, bridge_);
}

BridgeGrant BridgeData::acquire(const std::string& holder, Millis lease) {
  const bool free = now() >= bridge_.until;
  if (free || bridge_.holder == holder) {
    bridge_.holder = holder;
    bridge_.until = now() + lease;
    keep();
  }
  return {.ours = bridge_.holder == holder,
          .state = bridge_.state,
          .evicted = evicted_,
          .now = clock_.now().wall};
}

void BridgeData::release(const std::string& holder) {
  if (!holds(holder)) return;
  bridge_.until = now();
  keep();
}

bool BridgeData::save(const std::string& holder, const std::string& before,
                      const std::string& state) {
  if (!holds(holder) || bridge_.state != before) return false;
  bridge_.state = state;
  keep();
  return true;
}

std::vector<DueTuple> BridgeData::read_due(WallTime from, WallTime by, size_t most) const {
  // The entries have the time of the store. The clock of the caller may be behind it.
  by = std::max(by, clock_.now().wall);
  std::vector<DueTuple> due;
  due_.for_each([&](const DueKey& key, const DueVersion& version) {
    if (version.at < from || version.at > by) return;
    due.push_back(
        {.tuple = key.first, .kind = key.second, .at = version.at, .revision = version.revision});
  });
  std::stable_sort(due.begin(), due.end(),
                   [](const DueTuple& a, const DueTuple& b) { return a.at < b.at; });
  if (due.size() > most) due.resize(most);
  return due;
}

void BridgeData::add_due(const DueTuple& entry) {
  const DueKey key{entry.tuple, entry.kind};
  const DueVersion* const before = due_.find(key);
  if (before == nullptr) return due_.set(now(), key, {.at = entry.at, .revision = 0});
  if (entry.kind == Due::kWindowEnd && before->at <= entry.at) return;
  // A bridge that has read the entry does not remove it.
  due_.set(now(), key, {.at = entry.at, .revision = before->revision + 1});
}

void BridgeData::remove_due(const DueTuple& entry) {
  const DueKey key{entry.tuple, entry.kind};
  const DueVersion* const found = due_.find(key);
  if (found == nullptr) return;
  const bool same = *found == DueVersion{.at = entry.at, .revision = entry.revision};
  if (same || base::mutated(base::Mutation::kDueRemovedAlways)) due_.erase(now(), key);
}

void BridgeData::keep_record(const std::string& record) {
  const WallTime at = clock_.now().wall;
  std::vector<uint64_t> old;
  records_.for_each([&](uint64_t number, const auto& kept) {
    if (kept.first < at - kRecordsKept) old.push_back(number);
  });
  for (const uint64_t number : old) records_.erase(now(), number);
  records_.set(now(), ++last_record_, {at, record});
}

std::vector<std::string> BridgeData::records() const {
  std::vector<std::string> records;
  records_.for_each([&](uint64_t, const auto& kept) { records.push_back(kept.second); });
  return records;
}

uint64_t BridgeData::next_message() {
  ++bridge_.messages;
  keep();
  return bridge_.messages;
}

void BridgeData::note_replay(const CellReplay& replay) {
  const WallTime wall = clock_.now().wall;
  if (replay.limit_seen > 0 && replay.expires_at + expiry_margin_ > wall) {
    const Count* const before = limits_.find(replay.cell);
    limits_.set(now(), replay.cell,
                before == nullptr ? replay.limit_seen : std::min(*before, replay.limit_seen));
  }
  if (replay.due == Due::kNever) return;
  const WallTime at = replay.due == Due::kWindowEnd ? window_end(replay) : wall;
  add_due({.tuple = replay.cell.tuple, .kind = replay.due, .at = at});
}

void BridgeData::raise(const TupleUpdate& update) {
  const RegionCounts* const before = regions_.find(update.tuple);
  const WallTime wall = clock_.now().wall;
  if (update.kept_until <= wall) return;
  RegionCounts raised;
  if (before != nullptr && before->kept_until + expiry_margin_ > wall) raised = *before;
  for (const RegionCount& count : update.counts) {
    if (planted_bug_ == PlantedBug::kForeignLowered) {
      replace_one(raised.counts, count);
    } else {
      raise_one(raised.counts, count);
    }
  }
  keep_newest(raised.counts);
  raised.kept_until = std::max(raised.kept_until, update.kept_until);
  if (!raised.counts.empty()) regions_.set(now(), update.tuple, std::move(raised));
}

std::vector<RegionCount> BridgeData::counts(const std::string& tuple) const {
  const RegionCounts* const found = regions_.find(tuple);
  if (found == nullptr || found->kept_until + expiry_margin_ <= clock_.now().wall) return {};
  return found->counts;
}

Count BridgeData::limit_seen(const CellId& cell) const {
  const Count* const found = limits_.find(cell);
  return found == nullptr ? 0 : *found;
}

void BridgeData::forget_all() {
  regions_.clear(now());
  due_.clear(now());
  limits_.clear(now());
  records_.clear(now());
  bridge_ = {};
  keep();
  evicted_ = 0;
  lost_at_ = now();
}

void BridgeData::go_back(MonoTime then) {
  regions_.go_back(now(), then);
  due_.go_back(now(), then);
  limits_.go_back(now(), then);
  records_.go_back(now(), then);
  const Bridge* const bridge = bridges_.find_at(0, then);
  bridge_ = bridge == nullptr ? Bridge{} : *bridge;
  keep();
  lost_at_ = now();
}

bool BridgeData::evict_one(Random& random) {
  std::vector<std::string> tuples;
  regions_.for_each(
      [&](const std::string& tuple, const RegionCounts&) { tuples.push_back(tuple); });
  if (tuples.empty()) return false;
  const auto last = static_cast<int64_t>(tuples.size()) - 1;
  regions_.erase(now(), tuples[static_cast<size_t>(random.between(0, last))]);
  ++evicted_;
  lost_at_ = now();
  return true;
}

std::optional<WallTime> BridgeData::due(const std::string& tuple, Due kind) const {
  const DueVersion* const found = due_.find({tuple, kind});
  return found == nullptr ? std::nullopt : std::optional(found->at);
}

}  // namespace weir::sim
