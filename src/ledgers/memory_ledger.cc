#include "ledgers/memory_ledger.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

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

// Rows or presences, by their identity, by when they changed, and by when they end.
template <typename Id, typename Item>
class Shelf {
 public:
  struct Entry {
    Item item;
    WallTime changed{};
    WallTime ends{};
  };

  // The entry of that name, and whether it is new.
  std::pair<Entry&, bool> at(Id id, const Item& item) {
    const auto [found, is_new] = entries_.try_emplace(std::move(id), Entry{.item = item});
    return {found->second, is_new};
  }

  // To be called after each change of an entry.
  void note(const Id& id, WallTime now, WallTime ends) {
    const auto found = entries_.find(id);
    Entry& entry = found->second;
    by_change_.erase({entry.changed, &*found});
    by_end_.erase({entry.ends, &*found});
    entry.changed = now;
    entry.ends = ends;
    by_change_.emplace(entry.changed, &*found);
    by_end_.emplace(entry.ends, &*found);
  }

  // Those changed at `since` or later that have not ended; true if there were more than `most`.
  template <typename Give>
  [[nodiscard]] bool changed_since(WallTime since, WallTime now, size_t most,
                                   const Give& give) const {
    size_t given = 0;
    for (auto i = by_change_.lower_bound({since, nullptr}); i != by_change_.end(); ++i) {
      const Entry& entry = i->second->second;
      if (entry.ends <= now) continue;
      if (given++ == most) return true;
      give(entry.item);
    }
    return false;
  }

  // Those after `id`, or all, that have not ended; the last one looked at if there are more.
  template <typename Give>
  [[nodiscard]] std::optional<Id> page(const std::optional<Id>& after, WallTime now, size_t most,
                                       const Give& give) const {
    size_t given = 0;
    const Id* last = nullptr;
    for (auto i = after ? entries_.upper_bound(*after) : entries_.begin(); i != entries_.end();
         ++i) {
      if (i->second.ends <= now) continue;
      if (given++ == most) return *last;
      give(i->second.item);
      last = &i->first;
    }
    return std::nullopt;
  }

  [[nodiscard]] size_t clean(WallTime now, size_t most) {
    size_t deleted = 0;
    while (deleted < most && !by_end_.empty() && by_end_.begin()->first <= now) {
      const Named& named = *by_end_.begin()->second;
      by_change_.erase({named.second.changed, &named});
      by_end_.erase(by_end_.begin());
      entries_.erase(entries_.find(named.first));
      ++deleted;
    }
    return deleted;
  }

  [[nodiscard]] const std::map<Id, Entry>& entries() const { return entries_; }

 private:
  using Named = typename std::map<Id, Entry>::value_type;  // stays where it is
  using When = std::pair<WallTime, const Named*>;
  // By what the names are, not where they lie: the same run gives the same order.
  struct Earlier {
    bool operator()(const When& a, const When& b) const {
      if (a.first != b.first) return a.first < b.first;
      if (a.second == nullptr || b.second == nullptr) return a.second == nullptr && b.second;
      return a.second->first < b.second->first;
    }
  };

  std::map<Id, Entry> entries_;
  std::set<When, Earlier> by_change_;
  std::set<When, Earlier> by_end_;
};

// Gives what a reader believes to a list, and counts the rest.
template <typename Item>
auto believing(std::vector<Item>& list, uint64_t& absurd) {
  return [&list, &absurd](const Item& item) {
    if (plausible(item)) {
      list.push_back(item);
    } else {
      ++absurd;
    }
  };
}

}  // namespace

struct MemoryLedger::Store {
  explicit Store(const Clock& the_clock) : clock(the_clock) {}

  struct Region {
    uint64_t hidden_ppm = 0;
    WallTime heard{};
  };

  const Clock& clock;
  mutable std::mutex mutex;
  // All guarded by mutex.
  Shelf<RowId, LedgerRow> rows;
  Shelf<PresenceId, LedgerPresence> presences;
  std::map<std::string, Region> regions;
  std::optional<SharingRules> rules;
  uint64_t holders = 0;
  uint64_t cleaner = 0;
  WallTime cleaner_until{};
};

MemoryLedger::MemoryLedger(const Clock& clock) : MemoryLedger(std::make_shared<Store>(clock)) {}

MemoryLedger::MemoryLedger(std::shared_ptr<Store> store)
    : store_(std::move(store)), holder_([this] {
        const std::lock_guard lock(store_->mutex);
        return ++store_->holders;
      }()) {}

MemoryLedger::~MemoryLedger() = default;

std::shared_ptr<MemoryLedger> MemoryLedger::as_seen_by_another() const {
  return std::shared_ptr<MemoryLedger>(new MemoryLedger(store_));
}

void MemoryLedger::publish(LedgerNews news, PublishReply reply) {
  if (const auto misfit = find_misfit(news)) return reply(*misfit);
  const size_t count = news.rows.size();
  {
    const std::lock_guard lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    for (LedgerRow& row : news.rows) {
      const RowId id{identity_of(row.key), row.sequence, row.region};
      const auto [entry, is_new] = store_->rows.at(id, row);
      LedgerRow& stands = entry.item;
      if (!is_new && row.count <= stands.count && row.limit_seen >= stands.limit_seen) continue;
      stands.count = std::max(stands.count, row.count);
      stands.limit_seen = std::min(stands.limit_seen, row.limit_seen);
      store_->rows.note(id, now, row.expires_at());
    }
    for (LedgerPresence& presence : news.presences) {
      const PresenceId id{identity_of(presence.key), presence.region};
      const auto [entry, is_new] = store_->presences.at(id, presence);
      if (!is_new && presence.until <= entry.item.until) continue;
      entry.item.until = presence.until;
      store_->presences.note(id, now, presence.until);
    }
  }
  reply(count);
}

void MemoryLedger::changes_since(LedgerCursor cursor, ChangesReply reply) {
  LedgerChanges changes;
  {
    const std::lock_guard lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    changes.next.position = now.time_since_epoch().count();
    if (cursor.position != 0) {
      const WallTime since(first_told(cursor));
      const auto rows = believing(changes.news.rows, changes.absurd);
      const auto presences = believing(changes.news.presences, changes.absurd);
      changes.cut = store_->rows.changed_since(since, now, kMostChanges, rows);
      changes.cut |= store_->presences.changed_since(since, now, kMostChanges, presences);
    }
  }
  reply(std::move(changes));
}

void MemoryLedger::read_page(LedgerPlace place, PageReply reply) {
  const auto from = decode(place);
  if (!from) return reply(bad_place());
  const bool begins = place.after.empty();
  LedgerPage page;
  {
    const std::lock_guard lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    bool rows_done = from->part == PagePlace::Part::kPresences;
    if (!rows_done) {
      std::optional<RowId> after;
      if (!begins) after = {from->key, from->sequence, from->region};
      const auto last =
          store_->rows.page(after, now, kRowsPerPage, believing(page.news.rows, page.absurd));
      if (last) {
        page.next.after =
            encode({.key = last->key, .sequence = last->sequence, .region = last->region});
      }
      rows_done = !last;
    }
    if (rows_done) {
      std::optional<PresenceId> after;
      if (from->part == PagePlace::Part::kPresences) after = {from->key, from->region};
      const auto last = store_->presences.page(after, now, kRowsPerPage,
                                               believing(page.news.presences, page.absurd));
      if (last) {
        page.next.after =
            encode({.part = PagePlace::Part::kPresences, .key = last->key, .region = last->region});
      }
    }
    page.last = page.next.after.empty();
  }
  reply(std::move(page));
}

void MemoryLedger::attend(LedgerRegion self, SharingRules rules, FleetReply reply) {
  LedgerFleet fleet;
  {
    const std::lock_guard lock(store_->mutex);
    store_->regions[self.region] = {.hidden_ppm = self.hidden_ppm,
                                    .heard = store_->clock.now().wall};
    if (!store_->rules) store_->rules = rules;
    fleet.rules = *store_->rules;
    for (const auto& [name, region] : store_->regions) {
      fleet.regions.push_back({.region = name, .hidden_ppm = region.hidden_ppm});
    }
  }
  reply(std::move(fleet));
}

void MemoryLedger::clean(size_t most, CleaningReply reply) {
  LedgerCleaning cleaning;
  {
    const std::lock_guard lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    cleaning.ours = store_->cleaner == holder_ || store_->cleaner_until <= now;
    if (cleaning.ours) {
      store_->cleaner = holder_;
      store_->cleaner_until = now + kCleaningLease;
      cleaning.deleted = store_->rows.clean(now, most);
      cleaning.deleted += store_->presences.clean(now, most - cleaning.deleted);
      std::erase_if(store_->regions,
                    [&](const auto& each) { return each.second.heard < now - kRegionKept; });
    }
  }
  reply(cleaning);
}

void MemoryLedger::forget_all() {
  const std::lock_guard lock(store_->mutex);
  store_->rows = {};
  store_->presences = {};
  store_->regions.clear();
  store_->rules.reset();
  store_->cleaner = 0;
  store_->cleaner_until = {};
}

LedgerNews MemoryLedger::everything() const {
  LedgerNews all;
  const std::lock_guard lock(store_->mutex);
  for (const auto& [id, entry] : store_->rows.entries()) all.rows.push_back(entry.item);
  for (const auto& [id, entry] : store_->presences.entries()) {
    all.presences.push_back(entry.item);
  }
  return all;
}

void MemoryLedger::decree(SharingRules rules) {
  const std::lock_guard lock(store_->mutex);
  store_->rules = rules;
}

}  // namespace weir::ledgers
