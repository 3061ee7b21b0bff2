#include "ledgers/memory_ledger.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "ledgers/rows.h"

namespace weir::ledgers {
namespace {

struct RowId {
  std::string key;  // identity_of
  int64_t sequence = 0;
  std::string region;
  friend auto operator<=>(const RowId&, const RowId&) = default;
};
struct PresenceId {
  std::string key;
  std::string region;
  friend auto operator<=>(const PresenceId&, const PresenceId&) = default;
};

// Rows or presences, indexed by identity, by the time of the last change and by expiry.
template <typename Id, typename Item>
class ItemIndex {
 public:
  // Null if there is none.
  [[nodiscard]] const Item* find(const Id& id) const {
    const auto found = entries_.find(id);
    return found == entries_.end() ? nullptr : &found->second.record().item;
  }

  // Inserts or replaces an item.
  void put(const Id& id, const Item& item, WallTime now, WallTime expires_at) {
    const auto [found, is_new] = entries_.try_emplace(id);
    if (!is_new) unlink(*found);
    Bucket& bucket = by_change_[bucket_at(now)];
    found->second = {.bucket = &bucket, .index = bucket.size()};
    bucket.push_back({.item = item, .changed = now, .expires_at = expires_at});
    by_expiry_.emplace(expires_at, &*found);
  }

  // Visits the live items that changed at `since` or later. If there are more than `most`, returns
  // the time of change of the last one visited.
  template <typename Visit>
  [[nodiscard]] std::optional<WallTime> changed_since(WallTime since, WallTime now, size_t most,
                                                      const Visit& visit) const {
    size_t visited = 0;
    WallTime last{};
    for (auto i = by_change_.lower_bound(bucket_at(since)); i != by_change_.end(); ++i) {
      for (const Record& record : i->second) {
        if (record.changed < since || record.expires_at <= now) continue;
        if (visited++ == most) return last;
        visit(record.item);
        last = record.changed;
      }
    }
    return std::nullopt;
  }

  // Visits up to `most` live items after `after`, or from the first. If there are more, returns the
  // last one visited.
  template <typename Visit>
  [[nodiscard]] std::optional<Id> page(const std::optional<Id>& after, WallTime now, size_t most,
                                       const Visit& visit) const {
    size_t visited = 0;
    const Id* last = nullptr;
    for (auto i = after ? entries_.upper_bound(*after) : entries_.begin(); i != entries_.end();
         ++i) {
      const Record& record = i->second.record();
      if (record.expires_at <= now) continue;
      if (visited++ == most) return *last;
      visit(record.item);
      last = &i->first;
    }
    return std::nullopt;
  }

  [[nodiscard]] size_t delete_expired(WallTime now, size_t most) {
    size_t deleted = 0;
    while (deleted < most && !by_expiry_.empty() && by_expiry_.begin()->first <= now) {
      const Node& node = *by_expiry_.begin()->second;
      unlink(node);
      entries_.erase(entries_.find(node.first));
      ++deleted;
    }
    return deleted;
  }

  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [id, entry] : entries_) visit(entry.record().item);
  }

 private:
  struct Record {
    Item item;
    WallTime changed{};
    WallTime expires_at{};  // kReplaced if a newer record exists
  };
  // Records that changed at about the same time are contiguous, since readers visit all of them.
  using Bucket = std::vector<Record>;
  static constexpr Millis kBucketSpan{16};
  static constexpr WallTime kReplaced = WallTime::min();

  struct Entry {
    Bucket* bucket = nullptr;
    size_t index = 0;
    [[nodiscard]] Record& record() const { return (*bucket)[index]; }
  };
  using Node = typename std::map<Id, Entry>::value_type;  // has a stable address
  using Expiry = std::pair<WallTime, const Node*>;
  // Compares identities, not addresses, so that runs are deterministic.
  struct Earlier {
    bool operator()(const Expiry& a, const Expiry& b) const {
      if (a.first != b.first) return a.first < b.first;
      return a.second->first < b.second->first;
    }
  };

  [[nodiscard]] static int64_t bucket_at(WallTime time) {
    return time.time_since_epoch() / kBucketSpan;
  }

  void unlink(const Node& node) {
    Record& record = node.second.record();
    const int64_t at = bucket_at(record.changed);
    by_expiry_.erase({record.expires_at, &node});
    record.expires_at = kReplaced;
    Bucket& bucket = *node.second.bucket;
    while (!bucket.empty() && bucket.back().expires_at == kReplaced) bucket.pop_back();
    if (bucket.empty()) by_change_.erase(at);
  }

  std::map<Id, Entry> entries_;
  std::map<int64_t, Bucket> by_change_;
  std::set<Expiry, Earlier> by_expiry_;
};

// Returns a visitor that appends valid items to a list and counts the others.
template <typename Item>
auto append_valid(std::vector<Item>& list, uint64_t& invalid) {
  return [&list, &invalid](const Item& item) {
    if (is_valid(item)) {
      list.push_back(item);
    } else {
      ++invalid;
    }
  };
}

}  // namespace

struct MemoryLedger::Store {
  explicit Store(const Clock& the_clock) : clock(the_clock) {}

  struct Region {
    uint64_t hidden_ppm = 0;
    WallTime hidden_at{};
    WallTime last_heartbeat{};
  };

  const Clock& clock;
  mutable base::StdMutex mutex;
  // All guarded by mutex.
  ItemIndex<RowId, LedgerRow> rows;
  ItemIndex<PresenceId, LedgerPresence> presences;
  std::map<std::string, Region> regions;
  std::optional<SyncRules> rules;
  uint64_t clients = 0;
  uint64_t cleaner = 0;
  WallTime cleaner_until{};
};

MemoryLedger::MemoryLedger(const Clock& clock) : MemoryLedger(std::make_shared<Store>(clock)) {}

MemoryLedger::MemoryLedger(std::shared_ptr<Store> store)
    : store_(std::move(store)), client_([this] {
        const base::MutexLock lock(store_->mutex);
        return ++store_->clients;
      }()) {}

MemoryLedger::~MemoryLedger() = default;

std::shared_ptr<MemoryLedger> MemoryLedger::another_client() const {
  return std::shared_ptr<MemoryLedger>(new MemoryLedger(store_));
}

void MemoryLedger::publish(LedgerNews batch, PublishReply reply) {
  if (const auto error = find_unstorable(batch)) return reply(*error);
  const size_t count = batch.rows.size();
  {
    const base::MutexLock lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    for (LedgerRow& row : batch.rows) {
      const RowId id{identity_of(row.key), row.sequence, row.region};
      if (const LedgerRow* const stored = store_->rows.find(id)) {
        if (row.count <= stored->count && row.limit_seen >= stored->limit_seen) continue;
        row.count = std::max(stored->count, row.count);
        row.limit_seen = std::min(stored->limit_seen, row.limit_seen);
      }
      store_->rows.put(id, row, now, row.expires_at());
    }
    for (const LedgerPresence& presence : batch.presences) {
      const PresenceId id{identity_of(presence.key), presence.region};
      const LedgerPresence* const stored = store_->presences.find(id);
      if (stored != nullptr && presence.until <= stored->until) continue;
      store_->presences.put(id, presence, now, presence.until);
    }
  }
  reply(count);
}

void MemoryLedger::changes_since(LedgerCursor cursor, ChangesReply reply) {
  LedgerChanges changes;
  {
    const base::MutexLock lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    changes.next.position = now.time_since_epoch().count();
    if (cursor.position != 0) {
      const WallTime since(read_start(cursor));
      const auto rows = append_valid(changes.news.rows, changes.invalid);
      const auto presences = append_valid(changes.news.presences, changes.invalid);
      for (const auto& last :
           {store_->rows.changed_since(since, now, kMaxChanges, rows),
            store_->presences.changed_since(since, now, kMaxChanges, presences)}) {
        if (last) mark_truncated(since.time_since_epoch(), last->time_since_epoch(), changes);
      }
    }
  }
  reply(std::move(changes));
}

void MemoryLedger::read_page(LedgerPosition position, PageReply reply) {
  const auto from = decode(position);
  if (!from) return reply(bad_position());
  const bool begins = position.after.empty();
  LedgerPage page;
  {
    const base::MutexLock lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    bool rows_done = from->part == PageCursor::Part::kPresences;
    if (!rows_done) {
      std::optional<RowId> after;
      if (!begins) after = {from->key, from->sequence, from->region};
      const auto last =
          store_->rows.page(after, now, kRowsPerPage, append_valid(page.news.rows, page.invalid));
      if (last) {
        page.next.after =
            encode({.key = last->key, .sequence = last->sequence, .region = last->region});
      }
      rows_done = !last;
    }
    if (rows_done) {
      std::optional<PresenceId> after;
      if (from->part == PageCursor::Part::kPresences) after = {from->key, from->region};
      const auto last = store_->presences.page(after, now, kRowsPerPage,
                                               append_valid(page.news.presences, page.invalid));
      if (last) {
        page.next.after = encode(
            {.part = PageCursor::Part::kPresences, .key = last->key, .region = last->region});
      }
    }
    page.last = page.next.after.empty();
  }
  reply(std::move(page));
}

void MemoryLedger::heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) {
  LedgerFleet fleet;
  {
    const base::MutexLock lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    Store::Region& own = store_->regions[self.region];
    own.last_heartbeat = now;
    if (self.hidden_ppm >= own.hidden_ppm || own.hidden_at < now - kHiddenKept) {
      own.hidden_ppm = self.hidden_ppm;
      own.hidden_at = now;
    }
    if (!store_->rules) store_->rules = rules;
    fleet.rules = *store_->rules;
    for (const auto& [name, region] : store_->regions) {
      fleet.regions.push_back(
          {.region = name, .hidden_ppm = region.hidden_ppm, .silent = now - region.last_heartbeat});
    }
  }
  reply(std::move(fleet));
}

void MemoryLedger::clean(size_t most, CleaningReply reply) {
  LedgerCleaning cleaning;
  {
    const base::MutexLock lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    cleaning.ours = store_->cleaner == client_ || store_->cleaner_until <= now;
    if (cleaning.ours) {
      store_->cleaner = client_;
      store_->cleaner_until = now + kCleaningLease;
      cleaning.deleted = store_->rows.delete_expired(now, most);
      cleaning.deleted += store_->presences.delete_expired(now, most - cleaning.deleted);
      std::erase_if(store_->regions, [&](const auto& each) {
        return each.second.last_heartbeat < now - kRegionRetention;
      });
    }
  }
  reply(cleaning);
}

void MemoryLedger::clear() {
  const base::MutexLock lock(store_->mutex);
  store_->rows = {};
  store_->presences = {};
  store_->regions.clear();
  store_->rules.reset();
  store_->cleaner = 0;
  store_->cleaner_until = {};
}

LedgerNews MemoryLedger::contents() const {
  LedgerNews all;
  const base::MutexLock lock(store_->mutex);
  store_->rows.for_each([&](const LedgerRow& row) { all.rows.push_back(row); });
  store_->presences.for_each([&](const LedgerPresence& each) { all.presences.push_back(each); });
  return all;
}

void MemoryLedger::set_rules(SyncRules rules) {
  const base::MutexLock lock(store_->mutex);
  store_->rules = rules;
}

}  // namespace weir::ledgers
