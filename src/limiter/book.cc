#include "limiter/book.h"

#include <algorithm>

#include "base/mutex.h"
#include "base/word_packer.h"

namespace weir::limiter {

Count RemoteCell::foreign_sum() const {
  Count sum = 0;
  for (const auto& [region, count] : foreign) sum = base::saturating_add(sum, count);
  return std::min(sum, memory::kMaxCount);
}

RemoteCell& RemoteEntry::cell(int64_t sequence, int64_t current) {
  std::unique_ptr<RemoteCell>& cell = cells[static_cast<size_t>(sequence % 3)];
  if (!cell) cell = std::make_unique<RemoteCell>();
  if (cell->sequence < sequence || cell->sequence > current + 1) {
    // Its list keeps its memory, which stays reserved.
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

bool RemoteEntry::owes() const {
  return std::any_of(cells.begin(), cells.end(), [](const std::unique_ptr<RemoteCell>& cell) {
    return cell && cell->pending.rule != Publish::kNothing;
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
    leave_received(*known);
    return known;
  }
  // Places in the index, while it grows; a timer; places in the queue. About as much as they take.
  constexpr uint64_t kAround = 144;
  const uint64_t name = sizeof(uint64_t) * (1 + tuple.word_count());
  const uint64_t bytes =
      memory::heap_bytes(sizeof(RemoteEntry)) + memory::heap_bytes(name) + kAround;
  if (budget_ != nullptr && !budget_->reserve(memory::MemoryPart::kRegions, bytes)) return nullptr;
  auto entry = std::make_unique<RemoteEntry>();
  entry->tuple = tuple.encoded();
  entry->hash = tuple.hash();
  entry->bytes = bytes;
  return &entries_.add(tuple.hash(), std::move(entry));
}

bool RemoteCounts::reserve(RemoteEntry& entry, uint64_t bytes) {
  if (budget_ != nullptr && !budget_->reserve(memory::MemoryPart::kRegions, bytes)) return false;
  entry.bytes += bytes;
  return true;
}

RemoteCell* RemoteCounts::cell(RemoteEntry& entry, int64_t sequence, int64_t current) {
  const bool is_there = entry.cells[static_cast<size_t>(sequence % 3)] != nullptr;
  if (!is_there && !reserve(entry, memory::heap_bytes(sizeof(RemoteCell)))) return nullptr;
  return &entry.cell(sequence, current);
}

RemoteEntry* RemoteCounts::obtain_received(const memory::TupleKey& tuple, MadeBy news) {
  if (RemoteEntry* const known = find(tuple)) return known;
  const size_t most = news == MadeBy::kOurNews ? 2 * most_received_ : most_received_;
  if (received_by(news) >= most) return nullptr;
  RemoteEntry* const entry = obtain(tuple);
  if (entry == nullptr) return nullptr;
  entry->made_by = news;
  ++received_by(news);
  return entry;
}

void RemoteCounts::erase(RemoteEntry& entry) {
  leave_received(entry);
  if (budget_ != nullptr) budget_->release(memory::MemoryPart::kRegions, entry.bytes);
  entries_.erase(entry.hash, entry);
}

RegionNumber RemoteCounts::number_of(const std::string& region) {
  if (region != last_number_.first) {
    last_number_ = *numbers_.emplace(region, static_cast<RegionNumber>(numbers_.size())).first;
  }
  return last_number_.second;
}

Abroad RemoteCounts::abroad(const memory::TupleKey& tuple, int64_t sequence) const {
  Abroad known;
  const base::MutexLock lock(mutex_);
  const RemoteEntry* const entry = find(tuple);
  if (entry == nullptr) return known;
  const auto fill = [&](int64_t of, AbroadCell& out) {
    const RemoteCell* cell = entry->find(of);
    if (cell != nullptr) out = {.foreign = cell->foreign_sum(), .ours = cell->published};
  };
  fill(sequence, known.current);
  fill(sequence - 1, known.last);
  return known;
}

bool take_in(const AbroadCell& known, const memory::Tuple& tuple, int64_t sequence) {
  const memory::WindowCells cells(tuple);
  bool news = false;
  if (known.foreign > 0) news = cells.raise_foreign(sequence, known.foreign);
  // Our own row is a lower bound of what our region has, ours included: it raises the rest, and
  // makes nothing fresh. Own is read after it, and only grows.
  const Count own = memory::count_in(cells.own(sequence), sequence);
  if (known.ours > own) news = cells.raise_siblings(sequence, known.ours - own) || news;
  return news;
}

LedgerKey ledger_key_of(const std::string& tuple) {
  const memory::KeyHeader header = memory::header_of(tuple);
  const char* words = tuple.data() + sizeof header.word;
  const auto next = [&](size_t bytes) {
    std::string name = base::unpack(words, bytes);
    words += 8 * base::words_for(bytes);
    return name;
  };
  LedgerKey key;
  key.workspace = next(header.workspace_bytes());
  key.ns = next(header.namespace_bytes());
  key.identifier = next(header.identifier_bytes());
  key.duration = header.duration();
  return key;
}

Request request_of(const LedgerKey& key) {
  return {.workspace = key.workspace,
          .ns = key.ns,
          .identifier = key.identifier,
          .limit = 1,
          .duration = key.duration};
}

}  // namespace weir::limiter
