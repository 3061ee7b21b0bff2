#include "global/importer.h"

#include <algorithm>

#include "global/ledger_key.h"

namespace weir::global {

using memory::mutated;
using memory::Mutation;

void Importer::merge(Instant now, const LedgerNews& changes) {
  for (const LedgerRow& row : changes.rows) merge(now, row);
  for (const LedgerPresence& presence : changes.presences) merge(now, presence);
  stats_.imported += changes.rows.size() + changes.presences.size();
}

RemoteEntry* Importer::entry_of(const LedgerKey& key, const std::string& region) {
  const memory::TupleKey tuple(request_of(key), tuples_.hash);
  RemoteEntry* entry = remote_.find(tuple);
  if (entry != nullptr) return entry;
  const epoch::Guard guard;
  if (tuples_.table.find(tuple)) {
    entry = remote_.obtain(tuple);
    if (entry == nullptr) ++stats_.no_space;
    return entry;
  }
  const bool own = region == remote_.region();
  entry = remote_.obtain_imported(tuple, own ? EntrySource::kOwnRegion : EntrySource::kOtherRegion);
  ++(entry == nullptr ? stats_.no_space : stats_.entries);
  return entry;
}

void Importer::merge(Instant now, const LedgerRow& row) {
  if (!is_valid(row.key) || row.count > memory::kMaxCount) {
    ++stats_.invalid;
    return;
  }
  // Expired rows influence no decision. Clocks differ a little: the next window may have begun in
  // another region, the one after it cannot have.
  const int64_t current = algorithms::position_of(now.wall, row.key.duration).sequence;
  if (row.sequence < current - 1) return;
  if (mutated(Mutation::kNextWindowDropped) && row.sequence > current) return;
  if (row.sequence > current + 1) {
    ++stats_.invalid;
    return;
  }
  RemoteEntry* entry = nullptr;
  {
    const std::lock_guard lock(remote_.mutex());
    entry = entry_of(row.key, row.region);
    if (entry == nullptr) return;
    RemoteCell* const found = remote_.cell(*entry, row.sequence, current);
    if (found == nullptr) ++stats_.no_space;
    if (found == nullptr || found->sequence != row.sequence) return;
    RemoteCell& cell = *found;
    bool changed = false;
    if (row.region == remote_.region() && !mutated(Mutation::kOwnRowAsForeign)) {
      cell.note_row(full_read_, row.count);
      changed = cell.raise_published(row.count);
      if (changed) cell.published_at = now.mono;
    } else {
      if (mutated(Mutation::kImportTakenForAll)) cell.foreign.clear();
      Count* const known = remote_.of_region(*entry, cell.foreign, remote_.number_of(row.region));
      if (known == nullptr) {
        ++stats_.no_space;
        return;
      }
      changed = row.count > *known;
      *known = std::max(*known, row.count);
      if (row.limit_seen > 0 && (cell.remote_limit == 0 || row.limit_seen < cell.remote_limit)) {
        cell.remote_limit = row.limit_seen;
        changed = true;
      }
    }
    if (!changed) return;
  }
  trigger_.evaluate(now, *entry);
}

void Importer::merge(Instant now, const LedgerPresence& presence) {
  if (!is_valid(presence.key)) {
    ++stats_.invalid;
    return;
  }
  if (presence.until <= now.wall) return;
  RemoteEntry* entry = nullptr;
  {
    const std::lock_guard lock(remote_.mutex());
    entry = entry_of(presence.key, presence.region);
    if (entry == nullptr) return;
    if (presence.region == remote_.region()) {
      // Published by a sibling, or by this process before a restart.
      entry->presence_read = full_read_;
      const Lease lease = lease_of(now, presence.until, regions_.rules);
      if (entry->lease.holds(now) && lease.until <= entry->lease.until) return;
      entry->lease = lease;
    } else {
      WallTime* const known =
          remote_.of_region(*entry, entry->present, remote_.number_of(presence.region));
      if (known == nullptr) {
        ++stats_.no_space;
        return;
      }
      const bool changed = *known <= now.wall;
      *known = std::max(*known, presence.until);
      if (!changed) return;
    }
  }
  trigger_.evaluate(now, *entry);
}

void Importer::begin_full_read(Instant now) {
  full_read_began_ = now.mono;
  no_space_before_ = stats_.no_space;
  ++full_read_;
}

// Requests wait for the mutex of the remote counts, and there may be a million entries: the mutex
// is held only while an entry that lost something is changed.
void Importer::end_full_read(Instant now) {
  std::vector<RemoteEntry*> lost;
  if (stats_.no_space == no_space_before_) no_space_accepted_ = stats_.no_space;
  own_rows_until_ = {};
  remote_.for_each([&](RemoteEntry& entry) {
    entry.each_cell([&](const RemoteCell& cell) {
      if (cell.published > 0) own_rows_until_ = std::max(own_rows_until_, entry.end_of(cell));
    });
    if (has_lost(now, entry)) lost.push_back(&entry);
  });
  for (RemoteEntry* entry : lost) {
    const std::lock_guard lock(remote_.mutex());
    entry->each_cell([&](RemoteCell& cell) {
      if (!is_lost(now, *entry, cell)) return;
      // The notes that siblings left before prove nothing either.
      cell.noted = std::max(cell.noted, cell.published);
      cell.published = cell.row_in(full_read_);
    });
    if (is_presence_lost(now, *entry)) entry->lease = {};
  }
  stats_.lost += lost.size();
  for (RemoteEntry* entry : lost) trigger_.evaluate(now, *entry);
}

bool Importer::has_lost(Instant now, const RemoteEntry& entry) const {
  bool lost = is_presence_lost(now, entry);
  entry.each_cell([&](const RemoteCell& cell) { lost = lost || is_lost(now, entry, cell); });
  return lost;
}

bool Importer::is_lost(Instant now, const RemoteEntry& entry, const RemoteCell& cell) const {
  return cell.published > cell.row_in(full_read_) && cell.published_at < full_read_began_ &&
         entry.end_of(cell) > now.wall;
}

bool Importer::is_presence_lost(Instant now, const RemoteEntry& entry) const {
  return entry.presence_read != full_read_ && entry.lease.holds(now) &&
         entry.lease.taken_at < full_read_began_;
}

}  // namespace weir::global
