// The counts of other regions, and the counts that our region published: kept beside the table,
// because few tuples have either.
//
// Imported counts are kept per region, merged by max and summed: an answer with some regions only
// changes nothing for the others. A tuple without traffic here has an entry, too, up to a bound, so
// that its first request is decided on the known counts. Entries of tuples that only our own region
// published have a bound of their own: siblings use these tuples, so requests will come, and a
// process that did not know that its region published would publish again.
//
// The bytes of entries are reserved from the byte budget; see RemoteCounts::cell.
//
// The mutex guards everything. Only the thread that runs the sync changes entries or keeps
// references to them, so it may read them without the mutex; totals() is for any thread.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "base/hash_index.h"
#include "base/mutex.h"
#include "global/publish_rule.h"
#include "memory/byte_budget.h"
#include "memory/tuple_key.h"
#include "memory/window_cells.h"
#include "weir/ledger.h"
#include "weir/time.h"

namespace weir::global {

// Why a cell waits to be published, since when, and which process of the region may publish it.
struct PendingPublish {
  enum class Stage : uint8_t {
    kReady,    // this process publishes
    kWaiting,  // a sibling publishes first
    kAsking,   // asks the origin whether the sibling did
    kAsked,    // it did not, or the origin did not answer
    kNoted,    // it did; its presence has not been imported yet
  };
  PublishReason reason = PublishReason::kNone;
  MonoTime since{};
  Stage stage = Stage::kReady;
  Count noted = 0;  // RemoteCell::noted at the time
};

// A region, numbered in the order of first import. Two names never share a number: a process has no
// memory for 2^32 names.
using RegionNumber = uint32_t;

struct RemoteCell {
  static constexpr int64_t kNone = -1;

  int64_t sequence = kNone;
  Count counted = 0;    // by our region, at the last evaluation
  Count published = 0;  // of that, in the ledger
  Count sent = 0;       // in flight to the ledger
  Count noted = 0;      // published, as a sibling noted at the origin
  Count limit = 0;      // the smallest asked here; 0: none
  Count remote_limit = 0;
  MonoTime published_at{};
  bool refused = false;            // and the refusal is not published yet
  bool refusal_published = false;  // at least once
  uint32_t row_read = 0;           // the number of the last full read that had our row
  Count row_count = 0;             // the count of that row
  PendingPublish pending;
  std::vector<std::pair<RegionNumber, Count>> foreign;  // by region

  // Our own row in a full read.
  void note_row(uint32_t read, Count count) {
    row_count = row_read == read ? std::max(row_count, count) : count;
    row_read = read;
  }
  [[nodiscard]] Count row_in(uint32_t read) const { return row_read == read ? row_count : 0; }

  [[nodiscard]] Count foreign_sum() const;
  [[nodiscard]] Count published_or_sent() const { return std::max(published, sent); }
  // A sibling published this count; true if it is a change. If the region has not counted twice as
  // much by now, the sibling's row also tells of our refusal.
  bool raise_published(Count count) {
    const bool replaces = memory::mutated(memory::Mutation::kOwnRowReplaces);
    if (replaces ? count == published : count <= published) return false;
    published = count;
    if (refused && 2 * count > counted) {
      refusal_published = true;
      refused = false;
    }
    return true;
  }
};

// Why an entry exists.
enum class EntrySource : uint8_t { kTraffic, kOwnRegion, kOtherRegion };

// The time during which the other regions know that we count on a tuple. They use the wall clock,
// which may be set; so a lease ends when either clock reaches its end.
struct Lease {
  MonoTime until{};
  WallTime until_wall{};
  MonoTime taken_at{};
  [[nodiscard]] bool holds(Instant now) const { return now.mono < until && now.wall < until_wall; }
};

// The lease of a presence that others believe in until then. It ends for us before it ends for
// them.
[[nodiscard]] inline Lease lease_of(Instant now, WallTime until, const SyncRules& rules) {
  const Millis margin = lease_margin(rules);
  return {.until = now.mono + (until - now.wall) - margin,
          .until_wall = until - margin,
          .taken_at = now.mono};
}

struct RemoteEntry;
// Entries by the time of their next evaluation.
using RemoteTimers = std::multimap<MonoTime, RemoteEntry*>;

struct RemoteEntry {
  std::string tuple;  // encoded
  uint64_t hash = 0;
  // The last window, the current one, and the next where clocks differ; most entries have one.
  std::array<std::unique_ptr<RemoteCell>, 3> cells;
  Lease lease;
  std::vector<std::pair<RegionNumber, WallTime>> present;
  std::optional<RemoteTimers::iterator> timer;
  bool queued = false;
  EntrySource source = EntrySource::kTraffic;
  uint32_t presence_read = 0;  // the number of the last full read that had our presence
  uint32_t in_flight = 0;      // cells sent and not answered
  uint64_t bytes = 0;          // reserved for it

  [[nodiscard]] Millis duration() const { return memory::header_of(tuple).duration(); }
  // The cell of a window, while `current` is the present window. Replaces an older cell, and one
  // beyond the next window, which is of a clock that was ahead. RemoteCounts::cell reserves the
  // memory for a new one.
  [[nodiscard]] RemoteCell& cell(int64_t sequence, int64_t current);
  [[nodiscard]] const RemoteCell* find(int64_t sequence) const;
  [[nodiscard]] RemoteCell* find(int64_t sequence) {
    return const_cast<RemoteCell*>(std::as_const(*this).find(sequence));
  }
  // From then on the cell influences no decision.
  [[nodiscard]] WallTime end_of(const RemoteCell& cell) const {
    return WallTime((cell.sequence + 2) * duration());
  }
  template <typename Visit>
  void each_cell(const Visit& visit) const {
    for (const std::unique_ptr<RemoteCell>& cell : cells) {
      if (cell) visit(*cell);
    }
  }
  [[nodiscard]] bool has_pending() const;
  // Regions that count in a window: ours, those present, those with a count.
  [[nodiscard]] uint32_t regions(int64_t sequence, WallTime now) const;
};

// The ledger's counts of one window.
struct LedgerCounts {
  Count foreign = 0;     // of all other regions
  Count own_region = 0;  // a lower bound of our whole region's count
};
struct LedgerTotals {
  LedgerCounts current, last;
};

class RemoteCounts {
 public:
  // `max_imported` bounds the entries without traffic here that other regions published; the bound
  // is twice as high for those that our own region published.
  RemoteCounts(std::string region, size_t max_imported, memory::ByteBudget* budget)
      : region_(std::move(region)), max_imported_(max_imported), budget_(budget) {}

  [[nodiscard]] const std::string& region() const { return region_; }
  [[nodiscard]] base::Mutex& mutex() const WEIR_RETURN_CAPABILITY(mutex_) { return mutex_; }

  // Under the mutex. Null if there is no memory for a new entry.
  [[nodiscard]] RemoteEntry* find(const memory::TupleKey& tuple) const WEIR_REQUIRES(mutex_);
  [[nodiscard]] RemoteEntry* obtain(const memory::TupleKey& tuple) WEIR_REQUIRES(mutex_);
  // The same for a tuple without traffic here; null also if the bound is reached.
  [[nodiscard]] RemoteEntry* obtain_imported(const memory::TupleKey& tuple, EntrySource source)
      WEIR_REQUIRES(mutex_);
  // The cell of a window, and the value of a region in a list of the entry.
  [[nodiscard]] RemoteCell* cell(RemoteEntry& entry, int64_t sequence, int64_t current)
      WEIR_REQUIRES(mutex_);
  template <typename Number, typename Value>
  [[nodiscard]] Value* of_region(RemoteEntry& entry, std::vector<std::pair<Number, Value>>& values,
                                 Number region) WEIR_REQUIRES(mutex_);
  void erase(RemoteEntry& entry) WEIR_REQUIRES(mutex_);
  [[nodiscard]] RegionNumber number_of(const std::string& region) WEIR_REQUIRES(mutex_);
  [[nodiscard]] size_t size() const WEIR_NO_THREAD_SAFETY_ANALYSIS { return entries_.size(); }
  [[nodiscard]] size_t imported_only() const WEIR_NO_THREAD_SAFETY_ANALYSIS {
    return own_imported_ + others_imported_;
  }
  // Under the mutex, or from the thread that runs the sync.
  template <typename Visit>
  void for_each(const Visit& visit) WEIR_NO_THREAD_SAFETY_ANALYSIS {
    entries_.for_each(visit);
  }

  // From any thread.
  [[nodiscard]] LedgerTotals totals(const memory::TupleKey& tuple, int64_t sequence) const;

 private:
  [[nodiscard]] size_t& imported_by(EntrySource source) WEIR_REQUIRES(mutex_) {
    return source == EntrySource::kOwnRegion ? own_imported_ : others_imported_;
  }
  void set_traffic(RemoteEntry& entry) WEIR_REQUIRES(mutex_) {
    if (entry.source != EntrySource::kTraffic) --imported_by(entry.source);
    entry.source = EntrySource::kTraffic;
  }

  [[nodiscard]] bool reserve(RemoteEntry& entry, uint64_t bytes) WEIR_REQUIRES(mutex_);

  const std::string region_;
  const size_t max_imported_;
  memory::ByteBudget* const budget_;
  mutable base::Mutex mutex_;
  base::HashIndex<RemoteEntry> entries_ WEIR_GUARDED_BY(mutex_);
  std::map<std::string, RegionNumber> numbers_ WEIR_GUARDED_BY(mutex_);
  // Rows of one region come together.
  std::pair<std::string, RegionNumber> last_number_ WEIR_GUARDED_BY(mutex_);
  size_t own_imported_ WEIR_GUARDED_BY(mutex_) = 0;
  size_t others_imported_ WEIR_GUARDED_BY(mutex_) = 0;
};

template <typename Number, typename Value>
Value* RemoteCounts::of_region(RemoteEntry& entry, std::vector<std::pair<Number, Value>>& values,
                               Number region) {
  for (auto& [known, value] : values) {
    if (known == region) return &value;
  }
  if (values.size() == values.capacity()) {
    constexpr size_t kGrowth = 4;
    constexpr uint64_t kBytes = sizeof(std::pair<Number, Value>);
    const uint64_t before = values.empty() ? 0 : memory::heap_bytes(values.capacity() * kBytes);
    const uint64_t after = memory::heap_bytes((values.capacity() + kGrowth) * kBytes);
    if (!reserve(entry, after - before)) return nullptr;
    values.reserve(values.capacity() + kGrowth);
  }
  return &values.emplace_back(region, Value{}).second;
}

// Merges the ledger's counts of one window into a tuple; the caller holds an epoch guard. Returns
// whether a count rose.
bool merge_into(const memory::Tuple& tuple, int64_t sequence, const LedgerCounts& counts);

}  // namespace weir::global
