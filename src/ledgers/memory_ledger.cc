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

// Rows or presences, by their identity, by when they changed, and by when they end.
template <typename Id, typename Item>
class Shelf {
 public:
  // What stands under that name, if anything does.
  [[nodiscard]] const Item* find(const Id& id) const {
    const auto found = entries_.find(id);
    return found == entries_.end() ? nullptr : &found->second.record().item;
  }

  // Puts it in the place of what stood there.
  void put(const Id& id, const Item& item, WallTime now, WallTime ends) {
    const auto [found, is_new] = entries_.try_emplace(id);
    if (!is_new) leave(*found);
    Chapter& chapter = by_change_[chapter_at(now)];
    found->second = {.chapter = &chapter, .place = chapter.size()};
    chapter.push_back({.item = item, .changed = now, .ends = ends});
    by_end_.emplace(ends, &*found);
  }

  // Those changed at `since` or later that have not ended; when the last one given was changed, if
  // there were more than `most`.
  template <typename Give>
  [[nodiscard]] std::optional<WallTime> changed_since(WallTime since, WallTime now, size_t most,
                                                      const Give& give) const {
    size_t given = 0;
    WallTime last{};
    for (auto i = by_change_.lower_bound(chapter_at(since)); i != by_change_.end(); ++i) {
      for (const Record& record : i->second) {
        if (record.changed < since || record.ends <= now) continue;
        if (given++ == most) return last;
        give(record.item);
        last = record.changed;
      }
    }
    return std::nullopt;
  }

  // Those after `id`, or all, that have not ended; the last one looked at if there are more.
  template <typename Give>
  [[nodiscard]] std::optional<Id> page(const std::optional<Id>& after, WallTime now, size_t most,
                                       const Give& give) const {
    size_t given = 0;
    const Id* last = nullptr;
    for (auto i = after ? entries_.upper_bound(*after) : entries_.begin(); i != entries_.end();
         ++i) {
      const Record& record = i->second.record();
      if (record.ends <= now) continue;
      if (given++ == most) return *last;
      give(record.item);
      last = &i->first;
    }
    return std::nullopt;
  }

  [[nodiscard]] size_t clean(WallTime now, size_t most) {
    size_t deleted = 0;
    while (deleted < most && !by_end_.empty() && by_end_.begin()->first <= now) {
      const Named& named = *by_end_.begin()->second;
      leave(named);
      entries_.erase(entries_.find(named.first));
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
    WallTime ends{};  // long ago, where something newer stands elsewhere
  };
  // What changed at about the same time lies side by side: readers want all of it.
  using Chapter = std::vector<Record>;
  static constexpr Millis kChapter{16};
  static constexpr WallTime kGone = WallTime::min();

  struct Entry {
    Chapter* chapter = nullptr;
    size_t place = 0;
    [[nodiscard]] Record& record() const { return (*chapter)[place]; }
  };
  using Named = typename std::map<Id, Entry>::value_type;  // stays where it is
  using When = std::pair<WallTime, const Named*>;
  // By what the names are, not where they lie: the same run gives the same order.
  struct Earlier {
    bool operator()(const When& a, const When& b) const {
      if (a.first != b.first) return a.first < b.first;
      return a.second->first < b.second->first;
    }
  };

  [[nodiscard]] static int64_t chapter_at(WallTime time) {
    return time.time_since_epoch() / kChapter;
  }

  void leave(const Named& named) {
    Record& record = named.second.record();
    const int64_t at = chapter_at(record.changed);
    by_end_.erase({record.ends, &named});
    record.ends = kGone;
    Chapter& chapter = *named.second.chapter;
    while (!chapter.empty() && chapter.back().ends == kGone) chapter.pop_back();
    if (chapter.empty()) by_change_.erase(at);
  }

  std::map<Id, Entry> entries_;
  std::map<int64_t, Chapter> by_change_;
  std::set<When, Earlier> by_end_;
};

// Gives what a reader believes to a list, and counts the rest.
template <typename Item>
auto believing(std::vector<Item>& list, uint64_t& invalid) {
  return [&list, &invalid](const Item& item) {
    if (plausible(item)) {
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
    WallTime received{};
  };

  const Clock& clock;
  mutable base::StdMutex mutex;
  Shelf<RowId, LedgerRow> rows WEIR_GUARDED_BY(mutex);
  Shelf<PresenceId, LedgerPresence> presences WEIR_GUARDED_BY(mutex);
  std::map<std::string, Region> regions WEIR_GUARDED_BY(mutex);
  std::optional<SyncRules> rules WEIR_GUARDED_BY(mutex);
  uint64_t holders WEIR_GUARDED_BY(mutex) = 0;
  uint64_t cleaner WEIR_GUARDED_BY(mutex) = 0;
  WallTime cleaner_until WEIR_GUARDED_BY(mutex){};
};

MemoryLedger::MemoryLedger(const Clock& clock) : MemoryLedger(std::make_shared<Store>(clock)) {}

MemoryLedger::MemoryLedger(std::shared_ptr<Store> store)
    : store_(std::move(store)), holder_([this] {
        const base::MutexLock lock(store_->mutex);
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
    const base::MutexLock lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    for (LedgerRow& row : news.rows) {
      const RowId id{identity_of(row.key), row.sequence, row.region};
      if (const LedgerRow* const stands = store_->rows.find(id)) {
        if (row.count <= stands->count && row.limit_seen >= stands->limit_seen) continue;
        row.count = std::max(stands->count, row.count);
        row.limit_seen = std::min(stands->limit_seen, row.limit_seen);
      }
      store_->rows.put(id, row, now, row.expires_at());
    }
    for (const LedgerPresence& presence : news.presences) {
      const PresenceId id{identity_of(presence.key), presence.region};
      const LedgerPresence* const stands = store_->presences.find(id);
      if (stands != nullptr && presence.until <= stands->until) continue;
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
      const WallTime since(first_acked(cursor));
      const auto rows = believing(changes.news.rows, changes.invalid);
      const auto presences = believing(changes.news.presences, changes.invalid);
      for (const auto& last :
           {store_->rows.changed_since(since, now, kMostChanges, rows),
            store_->presences.changed_since(since, now, kMostChanges, presences)}) {
        if (last) leave_rest(since.time_since_epoch(), last->time_since_epoch(), changes);
      }
    }
  }
  reply(std::move(changes));
}

void MemoryLedger::read_page(LedgerPosition place, PageReply reply) {
  const auto from = decode(place);
  if (!from) return reply(bad_place());
  const bool begins = place.after.empty();
  LedgerPage page;
  {
    const base::MutexLock lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    bool rows_done = from->part == PagePlace::Part::kPresences;
    if (!rows_done) {
      std::optional<RowId> after;
      if (!begins) after = {from->key, from->sequence, from->region};
      const auto last =
          store_->rows.page(after, now, kRowsPerPage, believing(page.news.rows, page.invalid));
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
                                               believing(page.news.presences, page.invalid));
      if (last) {
        page.next.after =
            encode({.part = PagePlace::Part::kPresences, .key = last->key, .region = last->region});
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
    own.received = now;
    if (self.hidden_ppm >= own.hidden_ppm || own.hidden_at < now - kHiddenKept) {
      own.hidden_ppm = self.hidden_ppm;
      own.hidden_at = now;
    }
    if (!store_->rules) store_->rules = rules;
    fleet.rules = *store_->rules;
    for (const auto& [name, region] : store_->regions) {
      fleet.regions.push_back(
          {.region = name, .hidden_ppm = region.hidden_ppm, .silent = now - region.received});
    }
  }
  reply(std::move(fleet));
}

void MemoryLedger::clean(size_t most, CleaningReply reply) {
  LedgerCleaning cleaning;
  {
    const base::MutexLock lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    cleaning.ours = store_->cleaner == holder_ || store_->cleaner_until <= now;
    if (cleaning.ours) {
      store_->cleaner = holder_;
      store_->cleaner_until = now + kCleaningLease;
      cleaning.deleted = store_->rows.clean(now, most);
      cleaning.deleted += store_->presences.clean(now, most - cleaning.deleted);
      std::erase_if(store_->regions,
                    [&](const auto& each) { return each.second.received < now - kRegionKept; });
    }
  }
  reply(cleaning);
}

void MemoryLedger::forget_all() {
  const base::MutexLock lock(store_->mutex);
  store_->rows = {};
  store_->presences = {};
  store_->regions.clear();
  store_->rules.reset();
  store_->cleaner = 0;
  store_->cleaner_until = {};
}

LedgerNews MemoryLedger::everything() const {
  LedgerNews all;
  const base::MutexLock lock(store_->mutex);
  store_->rows.for_each([&](const LedgerRow& row) { all.rows.push_back(row); });
  store_->presences.for_each([&](const LedgerPresence& each) { all.presences.push_back(each); });
  return all;
}

void MemoryLedger::decree(SyncRules rules) {
  const base::MutexLock lock(store_->mutex);
  store_->rules = rules;
}

}  // namespace weir::ledgers
