#include "global/remote_counts.h"

#include <algorithm>

namespace weir::global {

Count RemoteCell::foreign_sum() const {
  Count sum = 0;
  for (const auto& [region, count] : foreign) sum = base::saturating_add(sum, count);
  return std::min(sum, memory::kMaxCount);
}

RemoteCell& RemoteEntry::cell(int64_t sequence, int64_t current) {
  std::unique_ptr<RemoteCell>& cell = cells[static_cast<size_t>(sequence % 3)];
  if (!cell) cell = std::make_unique<RemoteCell>();
  if (cell->sequence < sequence || cell->sequence > current + 1) {
    // The list keeps its memory, which stays reserved.
    auto foreign = std::move(cell->foreign);
    foreign.clear();
    *cell = {};
    cell->sequence = sequence;
    cell->foreign = std::move(foreign);
  }
  return *cell;
}

const RemoteCell* RemoteEntry::find(int64_t sequence) const {
  const RemoteCell* const cell = cells[static_cast<size_t>(sequence % 3)].get();
  return cell != nullptr && cell->sequence == sequence ? cell : nullptr;
}

bool RemoteEntry::has_pending() const {
  return std::any_of(cells.begin(), cells.end(), [](const std::unique_ptr<RemoteCell>& cell) {
    return cell && cell->pending.reason != PublishReason::kNone;
  });
}

uint32_t RemoteEntry::regions(int64_t sequence, WallTime now) const {
  uint32_t count = 1;
  const auto is_present = [&](RegionNumber region) {
    return std::any_of(present.begin(), present.end(), [&](const auto& presence) {
      return presence.first == region && presence.second > now;
    });
  };
  for (const auto& [region, until] : present) count += until > now ? 1 : 0;
  if (const RemoteCell* cell = find(sequence)) {
    for (const auto& [region, amount] : cell->foreign) {
      if (amount > 0 && !is_present(region)) ++count;
    }
  }
  return count;
}

RemoteEntry* RemoteCounts::find(const memory::TupleKey& tuple) const {
  return entries_.find(tuple.hash(),
                       [&](const RemoteEntry& entry) { return tuple.is(entry.tuple); });
}

RemoteEntry* RemoteCounts::obtain(const memory::TupleKey& tuple) {
  if (RemoteEntry* const known = find(tuple)) {
    set_traffic(*known);
    return known;
  }
  // Index slots, also while the index grows; a timer; queue slots. An estimate.
  constexpr uint64_t kOverhead = 144;
  const uint64_t name = sizeof(uint64_t) * (1 + tuple.word_count());
  const uint64_t bytes =
      memory::heap_bytes(sizeof(RemoteEntry)) + memory::heap_bytes(name) + kOverhead;
  if (budget_ != nullptr && !budget_->reserve(memory::Part::kRegions, bytes)) return nullptr;
  auto entry = std::make_unique<RemoteEntry>();
  entry->tuple = tuple.encoded();
  entry->hash = tuple.hash();
  entry->bytes = bytes;
  return &entries_.add(tuple.hash(), std::move(entry));
}

bool RemoteCounts::reserve(RemoteEntry& entry, uint64_t bytes) {
  if (budget_ != nullptr && !budget_->reserve(memory::Part::kRegions, bytes)) return false;
  entry.bytes += bytes;
  return true;
}

RemoteCell* RemoteCounts::cell(RemoteEntry& entry, int64_t sequence, int64_t current) {
  const bool exists = entry.cells[static_cast<size_t>(sequence % 3)] != nullptr;
  if (!exists && !reserve(entry, memory::heap_bytes(sizeof(RemoteCell)))) return nullptr;
  return &entry.cell(sequence, current);
}

RemoteEntry* RemoteCounts::obtain_imported(const memory::TupleKey& tuple, EntrySource source) {
  if (RemoteEntry* const known = find(tuple)) return known;
  const size_t most = source == EntrySource::kOwnRegion ? 2 * max_imported_ : max_imported_;
  if (imported_by(source) >= most) return nullptr;
  RemoteEntry* const entry = obtain(tuple);
  if (entry == nullptr) return nullptr;
  entry->source = source;
  ++imported_by(source);
  return entry;
}

void RemoteCounts::erase(RemoteEntry& entry) {
  set_traffic(entry);
  if (budget_ != nullptr) budget_->give_back(memory::Part::kRegions, entry.bytes);
  entries_.erase(entry.hash, entry);
}

RegionNumber RemoteCounts::number_of(const std::string& region) {
  if (region != last_number_.first) {
    last_number_ = *numbers_.emplace(region, static_cast<RegionNumber>(numbers_.size())).first;
  }
  return last_number_.second;
}

LedgerTotals RemoteCounts::totals(const memory::TupleKey& tuple, int64_t sequence) const {
  LedgerTotals totals;
  const std::lock_guard lock(mutex_);
  const RemoteEntry* const entry = find(tuple);
  if (entry == nullptr) return totals;
  const auto fill = [&](int64_t of, LedgerCounts& out) {
    const RemoteCell* cell = entry->find(of);
    if (cell != nullptr) out = {.foreign = cell->foreign_sum(), .own_region = cell->published};
  };
  fill(sequence, totals.current);
  fill(sequence - 1, totals.last);
  return totals;
}

bool merge_into(const memory::Tuple& tuple, int64_t sequence, const LedgerCounts& counts) {
  const memory::WindowCells cells(tuple);
  bool rose = false;
  if (counts.foreign > 0) rose = cells.raise_foreign(sequence, counts.foreign);
  // Our region's row is a lower bound of the region's count, this process included: the rest raises
  // the siblings and makes nothing fresh. Own is read after it and only grows.
  const Count own = memory::count_in(cells.own(sequence), sequence);
  if (counts.own_region > own) {
    rose = cells.raise_siblings(sequence, counts.own_region - own) || rose;
  }
  return rose;
}

}  // namespace weir::global
