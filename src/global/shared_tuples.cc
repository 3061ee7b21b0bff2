#include "global/shared_tuples.h"

#include <algorithm>

#include "algorithms/windows.h"

namespace weir::global {

using memory::mutated;
using memory::Mutation;

LedgerTotals totals_of(std::span<const RegionCount> counts, std::string_view region,
                       int64_t sequence) {
  LedgerTotals totals;
  for (const RegionCount& each : counts) {
    if (each.sequence != sequence && each.sequence != sequence - 1) continue;
    LedgerCounts& window = each.sequence == sequence ? totals.current : totals.last;
    if (each.region == region && !mutated(Mutation::kOwnRowAsForeign)) {
      window.own_region = std::max(window.own_region, each.count);
    } else {
      window.foreign =
          std::min(base::saturating_add(window.foreign, each.count), memory::kMaxCount);
    }
  }
  return totals;
}

Count SharedWindow::foreign_sum() const {
  Count sum = 0;
  for (const auto& [region, count] : foreign) sum = base::saturating_add(sum, count);
  return std::min(sum, memory::kMaxCount);
}

SharedWindow& SharedTuple::window(int64_t sequence, int64_t current) {
  std::unique_ptr<SharedWindow>& window = windows[place_of(sequence)];
  if (!window) window = std::make_unique<SharedWindow>();
  if (window->sequence < sequence || window->sequence > current + 1) {
    // The list keeps its memory, which stays reserved.
    auto foreign = std::move(window->foreign);
    foreign.clear();
    *window = {};
    window->sequence = sequence;
    window->foreign = std::move(foreign);
  }
  return *window;
}

const SharedWindow* SharedTuple::find(int64_t sequence) const {
  const SharedWindow* const window = windows[place_of(sequence)].get();
  return window != nullptr && window->sequence == sequence ? window : nullptr;
}

uint32_t SharedTuple::regions(int64_t sequence) const {
  const WallTime end = end_of_window(sequence, duration());
  uint32_t count = 1;
  for (const auto& [region, until] : leases) count += until >= end ? 1 : 0;
  const auto is_leased_by = [&](RegionNumber region) {
    return std::any_of(leases.begin(), leases.end(), [&](const auto& lease) {
      return lease.first == region && lease.second >= end;
    });
  };
  if (const SharedWindow* const window = find(sequence)) {
    for (const auto& [region, amount] : window->foreign) {
      if (amount > 0 && !is_leased_by(region)) ++count;
    }
  }
  return count;
}

SharedTuple* SharedTuples::find(const memory::TupleKey& key) const {
  return entries_.find(key.hash(), [&](const SharedTuple& entry) { return key.is(entry.tuple); });
}

SharedTuple* SharedTuples::obtain(const memory::TupleKey& key) {
  if (SharedTuple* const known = find(key)) return known;
  // Index slots, also while the index grows; a timer. An estimate.
  constexpr uint64_t kOverhead = 128;
  const uint64_t name = sizeof(uint64_t) * (1 + key.word_count());
  const uint64_t bytes =
      memory::heap_bytes(sizeof(SharedTuple)) + memory::heap_bytes(name) + kOverhead;
  if (budget_ != nullptr && !budget_->reserve(memory::MemoryPart::kRegions, bytes)) return nullptr;
  auto entry = std::make_unique<SharedTuple>();
  entry->tuple = key.encoded();
  entry->hash = key.hash();
  entry->bytes = bytes;
  new_.push_back(entry.get());
  return &entries_.add(key.hash(), std::move(entry));
}

bool SharedTuples::reserve(SharedTuple& tuple, uint64_t bytes) {
  if (budget_ != nullptr && !budget_->reserve(memory::MemoryPart::kRegions, bytes)) return false;
  tuple.bytes += bytes;
  return true;
}

SharedWindow* SharedTuples::window(SharedTuple& tuple, int64_t sequence, int64_t current) {
  const bool exists = tuple.windows[SharedTuple::place_of(sequence)] != nullptr;
  if (!exists && !reserve(tuple, memory::heap_bytes(sizeof(SharedWindow)))) return nullptr;
  return &tuple.window(sequence, current);
}

void SharedTuples::erase(SharedTuple& tuple) {
  if (budget_ != nullptr) budget_->release(memory::MemoryPart::kRegions, tuple.bytes);
  std::erase(new_, &tuple);
  entries_.erase(tuple.hash, tuple);
}

RegionNumber SharedTuples::number_of(const std::string& region) {
  return numbers_.emplace(region, static_cast<RegionNumber>(numbers_.size())).first->second;
}

template <typename Value>
Value* SharedTuples::of_region(SharedTuple& tuple,
                               std::vector<std::pair<RegionNumber, Value>>& values,
                               RegionNumber region) {
  for (auto& [known, value] : values) {
    if (known == region) return &value;
  }
  if (values.size() == values.capacity()) {
    constexpr size_t kGrowth = 4;
    constexpr uint64_t kBytes = sizeof(std::pair<RegionNumber, Value>);
    const uint64_t before = values.empty() ? 0 : memory::heap_bytes(values.capacity() * kBytes);
    const uint64_t after = memory::heap_bytes((values.capacity() + kGrowth) * kBytes);
    if (!reserve(tuple, after - before)) return nullptr;
    values.reserve(values.capacity() + kGrowth);
  }
  return &values.emplace_back(region, Value{}).second;
}

SharedTuples::Merge SharedTuples::merge_lease(SharedTuple& entry, int64_t current,
                                              const RegionCount& count) {
  // A lease that does not reach the end of the last window says nothing.
  if (count.leased_until < end_of_window(current - 1, entry.duration())) return Merge::kUnchanged;
  WallTime* known = &entry.leased_until;
  if (count.region != region_ || mutated(Mutation::kOwnRowAsForeign)) {
    known = of_region(entry, entry.leases, number_of(count.region));
    if (known == nullptr) return Merge::kNoMemory;
  }
  if (count.leased_until <= *known) return Merge::kUnchanged;
  *known = count.leased_until;
  return Merge::kChanged;
}

SharedTuples::Merge SharedTuples::merge(SharedTuple& entry, int64_t current,
                                        const RegionCount& count) {
  const Merge lease = merge_lease(entry, current, count);
  // Clocks differ a little: the next window may have begun elsewhere, the one after it cannot have.
  if (count.sequence < current - 1 || count.sequence > current + 1) return lease;
  if (count.sequence > current && mutated(Mutation::kNextWindowDropped)) return lease;
  SharedWindow* const found = window(entry, count.sequence, current);
  if (found == nullptr) return Merge::kNoMemory;
  if (found->sequence != count.sequence) return lease;
  SharedWindow& window = *found;
  bool changed = lease == Merge::kChanged;
  if (count.region == region_ && !mutated(Mutation::kOwnRowAsForeign)) {
    changed = window.raise_published(count.count) || changed;
  } else {
    if (mutated(Mutation::kImportTakenForAll)) window.foreign.clear();
    Count* const known = of_region(entry, window.foreign, number_of(count.region));
    if (known == nullptr) return Merge::kNoMemory;
    if (count.count > *known) {
      *known = count.count;
      changed = true;
    }
    if (count.limit_seen > 0 &&
        (window.remote_limit == 0 || count.limit_seen < window.remote_limit)) {
      window.remote_limit = count.limit_seen;
      changed = true;
    }
  }
  if (lease == Merge::kNoMemory) return lease;
  return changed ? Merge::kChanged : Merge::kUnchanged;
}

SharedTuples::Merge SharedTuples::merge(WallTime now, const memory::Tuple& tuple,
                                        const memory::TupleKey& key,
                                        std::span<const RegionCount> counts) {
  const Millis duration = tuple.slot->header.duration();
  const int64_t current = algorithms::position_of(now, duration).sequence;
  const auto matters = [&](const RegionCount& count) {
    return (count.sequence >= current - 1 && count.sequence <= current + 1) ||
           count.leased_until >= end_of_window(current - 1, duration);
  };
  if (std::none_of(counts.begin(), counts.end(), matters)) return Merge::kUnchanged;
  const base::MutexLock lock(mutex_);
  SharedTuple* const entry = obtain(key);
  if (entry == nullptr) return Merge::kNoMemory;
  Merge merged = Merge::kUnchanged;
  for (const RegionCount& count : counts) {
    if (matters(count)) merged = std::max(merged, merge(*entry, current, count));
  }
  // The next window would take the place of the last one in the cells. It is merged when it begins.
  const LedgerTotals totals = totals_in(*entry, current);
  merge_into(tuple, current - 1, totals.last, uncertain_);
  merge_into(tuple, current, totals.current, uncertain_);
  return merged;
}

void SharedTuples::merge_known(WallTime now, const memory::Tuple& tuple,
                               const memory::TupleKey& key) {
  const int64_t sequence = algorithms::position_of(now, tuple.slot->header.duration()).sequence;
  const LedgerTotals known = totals(key, sequence);
  merge_into(tuple, sequence - 1, known.last, uncertain_);
  merge_into(tuple, sequence, known.current, uncertain_);
}

void SharedTuples::forget_published(const memory::TupleKey& key) {
  const base::MutexLock lock(mutex_);
  SharedTuple* const entry = find(key);
  if (entry == nullptr) return;
  entry->leased_until = {};
  for (const std::unique_ptr<SharedWindow>& window : entry->windows) {
    if (window) window->forget_published();
  }
}

LedgerTotals SharedTuples::totals_in(const SharedTuple& tuple, int64_t sequence) {
  LedgerTotals totals;
  const auto fill = [&](int64_t of, LedgerCounts& out) {
    const SharedWindow* const window = tuple.find(of);
    if (window != nullptr)
      out = {.foreign = window->foreign_sum(), .own_region = window->published};
  };
  fill(sequence, totals.current);
  fill(sequence - 1, totals.last);
  return totals;
}

LedgerTotals SharedTuples::totals(const memory::TupleKey& key, int64_t sequence) const {
  const base::MutexLock lock(mutex_);
  const SharedTuple* const tuple = find(key);
  return tuple == nullptr ? LedgerTotals{} : totals_in(*tuple, sequence);
}

bool merge_into(const memory::Tuple& tuple, int64_t sequence, const LedgerCounts& counts,
                const memory::UncertainGrants& uncertain) {
  const memory::WindowCells cells(tuple);
  bool rose = false;
  if (counts.foreign > 0) rose = cells.raise_foreign(sequence, counts.foreign);
  // Our region's row is a lower bound of the region's count, this process included: the rest raises
  // the siblings and makes nothing fresh. Own is read after it and only grows. A step may have
  // raised our component above it.
  const Count own = std::max(memory::count_in(cells.own(sequence), sequence),
                             memory::count_in(cells.acked(sequence), sequence)) +
                    uncertain.of(tuple, sequence);
  if (counts.own_region > own) {
    rose = cells.raise_siblings(sequence, counts.own_region - own) || rose;
  }
  return rose;
}

}  // namespace weir::global
