#include "limiter/book.h"

#include <algorithm>

#include "base/word_packer.h"

namespace weir::limiter {

Count BookCell::foreign_sum() const {
  Count sum = 0;
  for (const auto& [region, count] : foreign) sum = base::saturating_add(sum, count);
  return std::min(sum, memory::kMaxCount);
}

BookCell& BookEntry::cell(int64_t sequence) {
  BookCell& cell = cells[static_cast<size_t>(sequence % 3)];
  if (cell.sequence < sequence) {
    cell = {};
    cell.sequence = sequence;
  }
  return cell;
}

const BookCell* BookEntry::find(int64_t sequence) const {
  const BookCell& cell = cells[static_cast<size_t>(sequence % 3)];
  return cell.sequence == sequence ? &cell : nullptr;
}

uint32_t BookEntry::regions(int64_t sequence, WallTime now) const {
  uint32_t count = 1;
  const auto is_present = [&](uint16_t region) {
    return std::any_of(present.begin(), present.end(), [&](const auto& presence) {
      return presence.first == region && presence.second > now;
    });
  };
  for (const auto& [region, until] : present) count += until > now ? 1 : 0;
  if (const BookCell* cell = find(sequence)) {
    for (const auto& [region, amount] : cell->foreign) {
      if (amount > 0 && !is_present(region)) ++count;
    }
  }
  return count;
}

BookEntry* Book::find(const std::string& tuple) {
  const auto found = entries_.find(tuple);
  return found == entries_.end() ? nullptr : found->second.get();
}

BookEntry& Book::obtain(const LedgerKey& key, const std::string& tuple) {
  std::unique_ptr<BookEntry>& entry = entries_[tuple];
  if (!entry) {
    entry = std::make_unique<BookEntry>();
    entry->key = key;
    entry->tuple = tuple;
  } else if (entry->heard) {
    entry->heard = false;
    --heard_;
  }
  return *entry;
}

BookEntry* Book::obtain_heard(const LedgerKey& key, const std::string& tuple) {
  if (BookEntry* known = find(tuple)) return known;
  if (heard_ >= most_heard_) return nullptr;
  BookEntry& entry = obtain(key, tuple);
  entry.heard = true;
  ++heard_;
  return &entry;
}

void Book::erase(BookEntry& entry) {
  if (entry.heard) --heard_;
  entries_.erase(std::string(entry.tuple));  // a copy: the key is in what is erased
}

uint16_t Book::number_of(const std::string& region) {
  const auto [found, is_new] = numbers_.emplace(region, static_cast<uint16_t>(numbers_.size()));
  return found->second;
}

Abroad Book::abroad(const std::string& tuple, int64_t sequence) const {
  Abroad known;
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(tuple);
  if (found == entries_.end()) return known;
  const auto fill = [&](int64_t of, AbroadCell& out) {
    const BookCell* cell = found->second->find(of);
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

LedgerKey ledger_key_of(const memory::Slot& slot) {
  const memory::KeyHeader header = slot.header;
  const uint64_t* words = slot.key_words();
  const auto next = [&](size_t bytes) {
    std::string name = base::unpack(words, bytes);
    words += base::words_for(bytes);
    return name;
  };
  LedgerKey key;
  key.workspace = next(header.workspace_bytes());
  key.name_space = next(header.namespace_bytes());
  key.identifier = next(header.identifier_bytes());
  key.duration = header.duration();
  return key;
}

Request request_of(const LedgerKey& key) {
  return {.workspace = key.workspace,
          .name_space = key.name_space,
          .identifier = key.identifier,
          .limit = 1,
          .duration = key.duration};
}

}  // namespace weir::limiter
