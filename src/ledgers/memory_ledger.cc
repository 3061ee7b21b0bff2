#include "ledgers/memory_ledger.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/split_mix.h"
#include "ledgers/rows.h"

namespace weir::ledgers {
namespace {

struct RowId {
  std::string key;  // identity_of
  int64_t sequence = 0;
  friend auto operator<=>(const RowId&, const RowId&) = default;
};

// The rows of one region, by identity and by the end of their retention.
class Rows {
 public:
  Rows() = default;
  Rows(const Rows& other) : rows_(other.rows_) { index(); }
  Rows& operator=(const Rows& other) {
    if (this != &other) {
      rows_ = other.rows_;
      by_end_.clear();
      index();
    }
    return *this;
  }
  Rows(Rows&&) = default;
  Rows& operator=(Rows&&) = default;
  ~Rows() = default;

  void merge(const LedgerRow& row) {
    const auto [found, is_new] =
        rows_.try_emplace({.key = identity_of(row.key), .sequence = row.sequence}, row);
    LedgerRow& stored = found->second;
    const WallTime end = stored.kept_until();
    if (!is_new) {
      stored.count = std::max(stored.count, row.count);
      stored.limit_seen = std::min(stored.limit_seen, row.limit_seen);
      stored.leased_until = std::max(stored.leased_until, row.leased_until);
      if (stored.kept_until() == end) return;
      by_end_.erase({.at = end, .id = &found->first});
    }
    by_end_.insert({.at = stored.kept_until(), .id = &found->first});
  }

  // Visits at most `most` rows after a cursor that are still kept. Returns the last one visited if
  // there are more.
  template <typename Visit>
  [[nodiscard]] std::optional<RowId> page(const std::optional<RowId>& after, WallTime now,
                                          size_t most, const Visit& visit) const {
    std::optional<RowId> last;
    size_t visited = 0;
    for (auto i = after ? rows_.upper_bound(*after) : rows_.begin(); i != rows_.end(); ++i) {
      if (i->second.kept_until() <= now) continue;
      if (visited == most) return last;
      visit(i->second);
      if (++visited == most) last = i->first;
    }
    return std::nullopt;
  }

  size_t delete_expired(WallTime now, size_t most) {
    size_t deleted = 0;
    while (deleted < most && !by_end_.empty() && by_end_.begin()->at <= now) {
      const RowId* const id = by_end_.begin()->id;
      by_end_.erase(by_end_.begin());
      rows_.erase(rows_.find(*id));
      ++deleted;
    }
    return deleted;
  }

  [[nodiscard]] bool empty() const { return rows_.empty(); }
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [id, row] : rows_) visit(row);
  }

 private:
  struct End {
    WallTime at;
    const RowId* id;
    // By content, so that a simulation can be repeated.
    friend bool operator<(const End& a, const End& b) {
      return a.at != b.at ? a.at < b.at : *a.id < *b.id;
    }
  };
  void index() {
    for (const auto& [id, row] : rows_) by_end_.insert({.at = row.kept_until(), .id = &id});
  }

  std::map<RowId, LedgerRow> rows_;
  std::set<End> by_end_;
};

struct StoredBatch {
  WallTime written_at{};
  std::vector<LedgerRow> rows;
};

// The largest report of a span of time, and that of the span before.
struct Reported {
  uint64_t ppm = 0;
  uint64_t before = 0;
  WallTime began{};

  [[nodiscard]] bool is_old(WallTime now) const { return began < now - 2 * kUnpublishedKept; }
  [[nodiscard]] uint64_t largest() const { return std::max(ppm, before); }
  void report(uint64_t new_ppm, WallTime now) {
    if (began < now - kUnpublishedKept) {
      *this = {.ppm = new_ppm, .before = is_old(now) ? 0 : ppm, .began = now};
    } else {
      ppm = std::max(ppm, new_ppm);
    }
  }
};

struct Region {
  FeedPosition head;
  std::map<FeedPosition, std::shared_ptr<const StoredBatch>> batches;
  Rows rows;
  WallTime last_heartbeat{};
  Reported unpublished;
  std::map<std::pair<std::string, std::string>, Reported> namespaces;
};

// Appends valid rows and counts the others.
auto append_valid(std::vector<LedgerRow>& valid, uint64_t& invalid) {
  return [&](const LedgerRow& row) {
    if (is_valid(row)) {
      valid.push_back(row);
    } else {
      ++invalid;
    }
  };
}

}  // namespace

struct MemoryLedger::Snapshot {
  // In the order of their names.
  std::map<std::string, Region> regions;
  std::optional<SyncRules> rules;
  uint64_t cleaner = 0;
  WallTime cleaner_until{};
};

struct MemoryLedger::Store {
  explicit Store(const Clock& the_clock) : clock(the_clock) {}

  Region& region(const std::string& name, WallTime now) {
    const auto [found, is_new] = data.regions.try_emplace(name);
    if (is_new) found->second.last_heartbeat = now;
    return found->second;
  }

  [[nodiscard]] uint64_t new_epoch(WallTime now, uint64_t larger_than) {
    const auto time = static_cast<uint64_t>(now.time_since_epoch().count());
    const uint64_t bits = base::split_mix(epochs) & kEpochRandomMask;
    return std::max(time << kEpochRandomBits | bits, larger_than + 1);
  }

  const Clock& clock;
  mutable base::StdMutex mutex;
  // All guarded by mutex.
  Snapshot data;
  uint64_t epochs = 0;  // seeds the low bits of epochs
  uint64_t clients = 0;
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

void MemoryLedger::publish(std::string region, FeedPosition known, std::vector<LedgerRow> rows,
                           PublishReply reply) {
  if (const auto error = find_unstorable(region, rows)) return reply(*error);
  known = known_position(known);
  FeedPosition at;
  {
    const base::MutexLock lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    Region& own = store_->region(region, now);
    for (const LedgerRow& row : rows) own.rows.merge(row);
    if (known.epoch == 0 || own.head < known) {
      own.head = {.epoch = store_->new_epoch(now, std::max(own.head.epoch, known.epoch))};
    }
    at = {.epoch = own.head.epoch, .number = own.head.number + 1};
    own.head = at;
    own.batches[at] =
        std::make_shared<StoredBatch>(StoredBatch{.written_at = now, .rows = std::move(rows)});
  }
  reply(at);
}

void MemoryLedger::read_feeds(std::vector<RegionFeed> after, FeedReply reply) {
  FeedChanges changes;
  {
    const base::MutexLock lock(store_->mutex);
    const auto& regions = store_->data.regions;
    for (const auto& [name, region] : regions) changes.heads.push_back({name, region.head});
    size_t rows = 0;
    for (const RegionFeed& feed : after) {
      const auto found = regions.find(feed.region);
      if (found == regions.end() || found->second.head.epoch != feed.at.epoch) continue;
      const auto& batches = found->second.batches;
      for (auto i = batches.upper_bound(feed.at); i != batches.end(); ++i) {
        if (rows >= kMaxFeedRows) {
          changes.more = true;
          break;
        }
        FeedBatch& batch = changes.batches.emplace_back(
            FeedBatch{.region = feed.region, .at = i->first, .rows = {}});
        rows += i->second->rows.size();
        const auto append = append_valid(batch.rows, changes.invalid);
        for (const LedgerRow& row : i->second->rows) append(row);
      }
    }
  }
  reply(std::move(changes));
}

void MemoryLedger::read_page(std::string region, LedgerPosition position, PageReply reply) {
  const auto from = decode(position);
  if (!from) return reply(bad_position());
  LedgerPage page;
  {
    const base::MutexLock lock(store_->mutex);
    const auto found = store_->data.regions.find(region);
    if (found != store_->data.regions.end()) {
      page.head = found->second.head;
      std::optional<RowId> after;
      if (!position.after.empty()) after = {.key = from->key, .sequence = from->sequence};
      const auto last = found->second.rows.page(after, store_->clock.now().wall, kRowsPerPage,
                                                append_valid(page.rows, page.invalid));
      if (last) page.next = encode({.key = last->key, .sequence = last->sequence});
    }
  }
  page.last = page.next.after.empty();
  reply(std::move(page));
}

void MemoryLedger::heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) {
  LedgerFleet fleet;
  {
    const base::MutexLock lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    Region& own = store_->region(self.region, now);
    if (self.by_bridge) own.last_heartbeat = now;
    own.unpublished.report(self.unpublished_ppm, now);
    for (const NamespaceReport& each : self.namespaces) {
      own.namespaces[{each.workspace, each.ns}].report(each.unpublished_ppm, now);
    }
    Snapshot& data = store_->data;
    if (!data.rules) data.rules = rules;
    fleet.rules = *data.rules;
    fleet.now = now;
    for (auto& [name, region] : data.regions) {
      std::erase_if(region.namespaces, [&](const auto& each) { return each.second.is_old(now); });
      LedgerRegion& listed = fleet.regions.emplace_back();
      listed.region = name;
      listed.unpublished_ppm = region.unpublished.largest();
      listed.silent = now - region.last_heartbeat;
      for (const auto& [names, reported] : region.namespaces) {
        listed.namespaces.push_back(
            {.workspace = names.first, .ns = names.second, .unpublished_ppm = reported.largest()});
      }
    }
  }
  reply(std::move(fleet));
}

void MemoryLedger::clean(size_t most, CleaningReply reply) {
  LedgerCleaning cleaning;
  {
    const base::MutexLock lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    Snapshot& data = store_->data;
    cleaning.ours = data.cleaner == client_ || data.cleaner_until <= now;
    if (cleaning.ours) {
      data.cleaner = client_;
      data.cleaner_until = now + kCleaningLease;
      for (auto& [name, region] : data.regions) {
        cleaning.deleted += region.rows.delete_expired(now, most - cleaning.deleted);
        const auto is_old = [&](const auto& each) {
          return each.second->written_at <= now - kFeedKept;
        };
        while (cleaning.deleted < most && !region.batches.empty() &&
               is_old(*region.batches.begin())) {
          region.batches.erase(region.batches.begin());
          ++cleaning.deleted;
        }
      }
      std::erase_if(data.regions, [&](const auto& each) {
        return each.second.last_heartbeat < now - kRegionRetention && each.second.rows.empty() &&
               each.second.batches.empty();
      });
    }
  }
  reply(cleaning);
}

void MemoryLedger::clear() {
  restore({});
}

std::vector<LedgerRow> MemoryLedger::contents() const {
  std::vector<LedgerRow> all;
  const base::MutexLock lock(store_->mutex);
  for (const auto& [name, region] : store_->data.regions) {
    region.rows.for_each([&](const LedgerRow& row) { all.push_back(row); });
  }
  return all;
}

void MemoryLedger::set_rules(SyncRules rules) {
  const base::MutexLock lock(store_->mutex);
  store_->data.rules = rules;
}

void MemoryLedger::drop_batches(const std::string& region, FeedPosition first, FeedPosition last) {
  const base::MutexLock lock(store_->mutex);
  const auto found = store_->data.regions.find(region);
  if (found == store_->data.regions.end()) return;
  auto& batches = found->second.batches;
  batches.erase(batches.lower_bound(first), batches.upper_bound(last));
}

std::shared_ptr<const MemoryLedger::Snapshot> MemoryLedger::snapshot() const {
  const base::MutexLock lock(store_->mutex);
  return std::make_shared<Snapshot>(store_->data);
}

void MemoryLedger::restore(const Snapshot& snapshot) {
  const base::MutexLock lock(store_->mutex);
  store_->data = snapshot;
}

}  // namespace weir::ledgers
