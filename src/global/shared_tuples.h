// What this process knows of the tuples that it serves and that other regions count, too: the
// counts and leases of other regions, and what our own region has published.
//
// Kept beside the table, because few tuples have any of it. Counts are kept per region, merged by
// max and summed, so a message about some regions changes nothing for the others. When its tuple is
// gone, an entry is erased, at the end of a window at the latest.
//
// The bytes of entries are reserved from the byte budget. The thread that runs the sync erases an
// entry when its tuple is gone, so it must learn of each one: take_new().
//
// Safe from any thread; the mutex guards everything. Only the thread that runs the sync erases
// entries, so it may keep references to them.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "base/hash_index.h"
#include "base/mutex.h"
#include "global/publish_rule.h"
#include "memory/byte_budget.h"
#include "memory/tuple_key.h"
#include "memory/uncertain_grants.h"
#include "memory/window_cells.h"
#include "weir/ledger.h"
#include "weir/origin.h"
#include "weir/time.h"

namespace weir::global {

// The counts that the ledger has of one window.
struct LedgerCounts {
  Count foreign = 0;     // of all other regions
  Count own_region = 0;  // a lower bound of our whole region's count
};
struct LedgerTotals {
  LedgerCounts current, last;
};

// The same, from the counts of each region.
[[nodiscard]] LedgerTotals totals_of(std::span<const RegionCount> counts, std::string_view region,
                                     int64_t sequence);

// The end of a window, which is also how far a lease must reach to cover it.
[[nodiscard]] inline WallTime end_of_window(int64_t sequence, Millis duration) {
  return WallTime((sequence + 1) * duration);
}

// A region, numbered in the order of first use. Two names never share a number: a process has no
// memory for 2^32 names.
using RegionNumber = uint32_t;

// One window of a shared tuple.
struct SharedWindow {
  static constexpr int64_t kNone = -1;
  // The bridge publishes a count that is due well within this time. Then the rule is evaluated
  // again.
  static constexpr Nanos kDueRetry = Millis(1000);

  int64_t sequence = kNone;
  Count counted = 0;    // by our region, at the last evaluation
  Count published = 0;  // of that, in the ledger
  Count due = 0;        // the count when this process last asked the bridge to publish it
  MonoTime due_since{};
  // Since when this process has waited for the bridge, whatever it asked for since.
  std::optional<MonoTime> waits_since;
  bool end_is_due = false;  // the bridge evaluates the rule at the end of the window
  Count limit = 0;          // the smallest asked here; 0: none
  Count remote_limit = 0;
  bool refused = false;                                 // and the refusal is not published yet
  bool refusal_published = false;                       // at least once
  std::vector<std::pair<RegionNumber, Count>> foreign;  // by region

  [[nodiscard]] Count foreign_sum() const;
  [[nodiscard]] bool is_due(MonoTime now) const {
    return due > published && now - due_since < kDueRetry;
  }
  // Further refusals ask for no row while the bridge publishes this one.
  [[nodiscard]] bool refusal_is_due(MonoTime now) const { return refused && is_due(now); }
  [[nodiscard]] Count published_or_due(MonoTime now) const {
    return is_due(now) ? std::max(published, due) : published;
  }
  // Our region published this count; true if it is a change. If the region has not counted twice as
  // much by now, the row also tells of our refusal.
  bool raise_published(Count count) {
    const bool replaces = memory::mutated(memory::Mutation::kOwnRowReplaces);
    if (replaces ? count == published : count <= published) return false;
    published = count;
    // The bridge may have answered what this process asked since by that row: it publishes no more
    // than its rule says. So the rule is evaluated again.
    due = std::min(due, count);
    if (refused && 2 * count > counted) {
      refusal_published = true;
      refused = false;
    }
    return true;
  }
  // A refusal that the rows told of must be told again.
  void forget_published() {
    published = 0;
    refused = refused || refusal_published;
    refusal_published = false;
  }
};

struct SharedTuple;
// Tuples by the time of their next evaluation.
using SharedTupleTimers = std::multimap<MonoTime, SharedTuple*>;

struct SharedTuple {
  std::string tuple;  // encoded
  uint64_t hash = 0;
  MonoTime timer_expires = MonoTime::max();  // as `timer`, which is elsewhere in memory; max: none
  // The last window, the current one, and the next where clocks differ; most tuples have one.
  std::array<std::unique_ptr<SharedWindow>, 3> windows;
  WallTime leased_until{};  // our region's lease
  std::vector<std::pair<RegionNumber, WallTime>> leases;
  std::optional<SharedTupleTimers::iterator> timer;
  uint64_t bytes = 0;  // reserved for it

  [[nodiscard]] Millis duration() const { return memory::header_of(tuple).duration(); }
  [[nodiscard]] static size_t place_of(int64_t sequence) {
    return static_cast<size_t>((sequence % 3 + 3) % 3);  // a clock may be at its very beginning
  }
  // The window, while `current` is the present one. Replaces an older window, and one beyond the
  // next, which is of a clock that was ahead. SharedTuples::window() reserves the memory.
  [[nodiscard]] SharedWindow& window(int64_t sequence, int64_t current);
  [[nodiscard]] const SharedWindow* find(int64_t sequence) const;
  [[nodiscard]] SharedWindow* find(int64_t sequence) {
    return const_cast<SharedWindow*>(std::as_const(*this).find(sequence));
  }
  // Whether the other regions count ours as present in a window.
  [[nodiscard]] bool is_leased(int64_t sequence) const {
    return leased_until >= end_of_window(sequence, duration());
  }
  // Regions that count in a window: ours, those with a lease on it, those with a count.
  [[nodiscard]] uint32_t regions(int64_t sequence) const;
};

class SharedTuples {
 public:
  SharedTuples(std::string region, memory::ByteBudget* budget,
               const memory::UncertainGrants& uncertain = memory::kNoUncertainGrants)
      : region_(std::move(region)), budget_(budget), uncertain_(uncertain) {}

  // The name of our region.
  [[nodiscard]] const std::string& region() const { return region_; }
  [[nodiscard]] base::Mutex& mutex() const WEIR_RETURN_CAPABILITY(mutex_) { return mutex_; }

  // Null if there is no memory for a new entry or window.
  [[nodiscard]] SharedTuple* find(const memory::TupleKey& key) const WEIR_REQUIRES(mutex_);
  [[nodiscard]] SharedTuple* obtain(const memory::TupleKey& key) WEIR_REQUIRES(mutex_);
  [[nodiscard]] SharedWindow* window(SharedTuple& tuple, int64_t sequence, int64_t current)
      WEIR_REQUIRES(mutex_);
  void erase(SharedTuple& tuple) WEIR_REQUIRES(mutex_);
  [[nodiscard]] size_t size() const WEIR_REQUIRES(mutex_) { return entries_.size(); }
  // The entries that were added since the last call. Only for the thread that runs the sync.
  [[nodiscard]] std::vector<SharedTuple*> take_new() {
    const base::MutexLock lock(mutex_);
    return std::exchange(new_, {});
  }

  enum class Merge : uint8_t { kUnchanged, kChanged, kNoMemory };
  // Merges a count of the ledger into an entry. Counts of past windows and of a wrong future are
  // ignored.
  Merge merge(SharedTuple& entry, int64_t current, const RegionCount& count) WEIR_REQUIRES(mutex_);
  // Merges counts of the ledger into the entry and into the cells of a tuple in the table; the
  // caller holds an epoch guard.
  Merge merge(WallTime now, const memory::Tuple& tuple, const memory::TupleKey& key,
              std::span<const RegionCount> counts);

  // Merges the known counts into the cells of a tuple, which may have been created or begun a
  // window since they arrived; the caller holds an epoch guard.
  void merge_known(WallTime now, const memory::Tuple& tuple, const memory::TupleKey& key);

  // What our region published of a tuple may be missing in the ledger.
  void forget_published(const memory::TupleKey& key);

  [[nodiscard]] LedgerTotals totals(const memory::TupleKey& key, int64_t sequence) const;

 private:
  template <typename Value>
  [[nodiscard]] Value* of_region(SharedTuple& tuple,
                                 std::vector<std::pair<RegionNumber, Value>>& values,
                                 RegionNumber region) WEIR_REQUIRES(mutex_);
  [[nodiscard]] Merge merge_lease(SharedTuple& entry, int64_t current, const RegionCount& count)
      WEIR_REQUIRES(mutex_);
  [[nodiscard]] bool reserve(SharedTuple& tuple, uint64_t bytes) WEIR_REQUIRES(mutex_);
  [[nodiscard]] RegionNumber number_of(const std::string& region) WEIR_REQUIRES(mutex_);
  [[nodiscard]] static LedgerTotals totals_in(const SharedTuple& tuple, int64_t sequence);

  const std::string region_;
  memory::ByteBudget* const budget_;
  const memory::UncertainGrants& uncertain_;
  mutable base::Mutex mutex_;
  base::HashIndex<SharedTuple> entries_ WEIR_GUARDED_BY(mutex_);
  std::vector<SharedTuple*> new_ WEIR_GUARDED_BY(mutex_);
  std::map<std::string, RegionNumber> numbers_ WEIR_GUARDED_BY(mutex_);
};

// Merges the ledger's counts of one window into a tuple; the caller holds an epoch guard. Returns
// whether a count rose.
bool merge_into(const memory::Tuple& tuple, int64_t sequence, const LedgerCounts& counts,
                const memory::UncertainGrants& uncertain);

}  // namespace weir::global
