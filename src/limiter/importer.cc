#include "limiter/importer.h"

#include <algorithm>

#include "base/mutex.h"
#include "limiter/validate.h"

namespace weir::limiter {

using memory::mutated;
using memory::Mutation;

namespace {

bool makes_sense(const LedgerKey& key) {
  return validate(request_of(key)) == nullptr;
}

}  // namespace

void Importer::take_in(Instant now, const LedgerNews& news) {
  for (const LedgerRow& row : news.rows) take_in(now, row);
  for (const LedgerPresence& presence : news.presences) take_in(now, presence);
  stats_.imported += news.rows.size() + news.presences.size();
}

RemoteEntry* Importer::entry_of(const LedgerKey& key, const std::string& region) {
  const memory::TupleKey tuple(request_of(key), store_->hash);
  RemoteEntry* entry = store_->remote.find(tuple);
  if (entry != nullptr) return entry;
  const epoch::Guard guard;
  if (store_->table.find(tuple)) {
    entry = store_->remote.obtain(tuple);
    if (entry == nullptr) ++stats_.no_room;
    return entry;
  }
  const bool ours = region == store_->remote.region();
  entry = store_->remote.obtain_received(tuple, ours ? MadeBy::kOurNews : MadeBy::kOthersNews);
  ++(entry == nullptr ? stats_.no_room : stats_.received);
  return entry;
}

void Importer::take_in(Instant now, const LedgerRow& row) {
  if (!makes_sense(row.key) || row.count > memory::kMaxCount) {
    ++stats_.invalid;
    return;
  }
  // What is over matters to nobody. Clocks differ a little: the next window may have begun
  // elsewhere, the one after it cannot have.
  const int64_t current = algorithms::position_of(now.wall, row.key.duration).sequence;
  if (row.sequence < current - 1) return;
  if (mutated(Mutation::kNextWindowDropped) && row.sequence > current) return;
  if (row.sequence > current + 1) {
    ++stats_.invalid;
    return;
  }
  RemoteEntry* entry = nullptr;
  {
    const base::MutexLock lock(store_->remote.mutex());
    entry = entry_of(row.key, row.region);
    if (entry == nullptr) return;
    RemoteCell* const place = store_->remote.cell(*entry, row.sequence, current);
    if (place == nullptr) ++stats_.no_room;
    if (place == nullptr || place->sequence != row.sequence) return;
    RemoteCell& cell = *place;
    bool news = false;
    if (row.region == store_->remote.region() && !mutated(Mutation::kOwnRowAsForeign)) {
      cell.see(full_read_, row.count);
      news = cell.hear_published(row.count);
      if (news) cell.published_at = now.mono;
    } else {
      if (mutated(Mutation::kImportTakenForAll)) cell.foreign.clear();
      Count* const known =
          store_->remote.of_region(*entry, cell.foreign, store_->remote.number_of(row.region));
      if (known == nullptr) {
        ++stats_.no_room;
        return;
      }
      news = row.count > *known;
      *known = std::max(*known, row.count);
      if (row.limit_seen > 0 && (cell.limit_abroad == 0 || row.limit_seen < cell.limit_abroad)) {
        cell.limit_abroad = row.limit_seen;
        news = true;
      }
    }
    if (!news) return;
  }
  trigger_.look_at(now, *entry);
}

void Importer::take_in(Instant now, const LedgerPresence& presence) {
  if (!makes_sense(presence.key)) {
    ++stats_.invalid;
    return;
  }
  if (presence.until <= now.wall) return;
  RemoteEntry* entry = nullptr;
  {
    const base::MutexLock lock(store_->remote.mutex());
    entry = entry_of(presence.key, presence.region);
    if (entry == nullptr) return;
    if (presence.region == store_->remote.region()) {
      // Said by a sibling, or by this process before.
      entry->seen_in = full_read_;
      const Lease lease = lease_of(now, presence.until, regions_.rules);
      if (entry->lease.holds(now) && lease.until <= entry->lease.until) return;
      entry->lease = lease;
    } else {
      WallTime* const known = store_->remote.of_region(*entry, entry->present,
                                                       store_->remote.number_of(presence.region));
      if (known == nullptr) {
        ++stats_.no_room;
        return;
      }
      const bool news = *known <= now.wall;
      *known = std::max(*known, presence.until);
      if (!news) return;
    }
  }
  trigger_.look_at(now, *entry);
}

void Importer::begin_full(Instant now) {
  full_began_ = now.mono;
  no_room_before_ = stats_.no_room;
  ++full_read_;
}

// Requests wait for the book's mutex, and there may be a million entries: it is held only while one
// that lost something is changed.
void Importer::end_full(Instant now) {
  std::vector<RemoteEntry*> lost;
  if (stats_.no_room == no_room_before_) no_room_accepted_ = stats_.no_room;
  ours_until_ = {};
  store_->remote.for_each([&](RemoteEntry& entry) {
    entry.each_cell([&](const RemoteCell& cell) {
      if (cell.published > 0) ours_until_ = std::max(ours_until_, entry.end_of(cell));
    });
    if (has_lost(now, entry)) lost.push_back(&entry);
  });
  for (RemoteEntry* entry : lost) {
    const base::MutexLock lock(store_->remote.mutex());
    entry->each_cell([&](RemoteCell& cell) {
      if (!is_lost(now, *entry, cell)) return;
      // What siblings left word of before proves nothing any more, either.
      cell.word = std::max(cell.word, cell.published);
      cell.published = cell.shown_by(full_read_);
    });
    if (is_presence_lost(now, *entry)) entry->lease = {};
  }
  stats_.lost += lost.size();
  for (RemoteEntry* entry : lost) trigger_.look_at(now, *entry);
}

bool Importer::has_lost(Instant now, const RemoteEntry& entry) const {
  bool lost = is_presence_lost(now, entry);
  entry.each_cell([&](const RemoteCell& cell) { lost = lost || is_lost(now, entry, cell); });
  return lost;
}

bool Importer::is_lost(Instant now, const RemoteEntry& entry, const RemoteCell& cell) const {
  return cell.published > cell.shown_by(full_read_) && cell.published_at < full_began_ &&
         entry.end_of(cell) > now.wall;
}

bool Importer::is_presence_lost(Instant now, const RemoteEntry& entry) const {
  return entry.seen_in != full_read_ && entry.lease.holds(now) &&
         entry.lease.taken_at < full_began_;
}

}  // namespace weir::limiter
