// What this process knows of tuples on which other regions count, and of what its own region has
// told them: beside the table, since few tuples have any of it.
//
// Counts heard are kept per region, merged by max and summed: an answer that has some regions only
// takes nothing from the others. A tuple without traffic here has its place all the same, up to a
// bound, so that the first request on it is decided on what is known. Tuples of our own region have
// room of their own: siblings use them, so requests will come, and who does not know that its
// region has told of one would tell again.
//
// What entries take is reserved from the byte budget; see Book::cell.
//
// The mutex guards everything. Only the thread that runs the sharing changes entries or keeps
// references to them, so it may look at them without the mutex; abroad() is for any thread.

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
#include "limiter/publish_rule.h"
#include "memory/byte_budget.h"
#include "memory/tuple_key.h"
#include "memory/window_cells.h"
#include "weir/ledger.h"
#include "weir/time.h"

namespace weir::limiter {

// Why a cell waits to be published, since when, and whose turn it is.
struct PendingPublish {
  enum class Turn : uint8_t {
    kOurs,
    kSiblings,  // another process of the region goes first
    kAsking,    // the origin, whether it has
    kAsked,
    kAcked,  // it has; that we are here is on its way back
  };
  Publish rule = Publish::kNothing;
  MonoTime since{};
  Turn turn = Turn::kOurs;
  Count word = 0;  // what siblings had left word of then
};

// A region in the book, by the order in which it was first heard of. Two names never share one: a
// process has no memory for 2^32 names.
using RegionNumber = uint32_t;

struct RemoteCell {
  static constexpr int64_t kNone = -1;

  int64_t sequence = kNone;
  Count counted = 0;    // by our region, when it was last looked at
  Count published = 0;  // of that, what the ledger has
  Count sent = 0;       // on its way there
  Count word = 0;       // what a sibling left word of
  Count limit = 0;      // the smallest asked here; 0: none
  Count limit_abroad = 0;
  MonoTime published_at{};
  bool refused = false;     // something, and that is still to be told
  bool acked_full = false;  // once already
  uint32_t seen_in = 0;     // the last read of everything that showed our row, by its number
  Count seen = 0;           // what it showed
  PendingPublish pending;
  std::vector<std::pair<RegionNumber, Count>> foreign;  // by region

  // Our row, as that read of everything shows it.
  void see(uint32_t read, Count count) {
    seen = seen_in == read ? std::max(seen, count) : count;
    seen_in = read;
  }
  [[nodiscard]] Count shown_by(uint32_t read) const { return seen_in == read ? seen : 0; }

  [[nodiscard]] Count foreign_sum() const;
  [[nodiscard]] Count acked() const { return std::max(published, sent); }
  // A sibling wrote this much; true if that is news. If there is not twice as much by now, as where
  // a region refuses again, then it told of what we refused, too.
  bool hear_published(Count count) {
    const bool replaces = memory::mutated(memory::Mutation::kOwnRowReplaces);
    if (replaces ? count == published : count <= published) return false;
    published = count;
    if (refused && 2 * count > counted) {
      acked_full = true;
      refused = false;
    }
    return true;
  }
};

enum class MadeBy : uint8_t { kTraffic, kOurNews, kOthersNews };

// The others know that we count on a tuple. They go by the wall clock, so a lease is over by
// whichever clock comes first: that one may be set, and all of them together.
struct Lease {
  MonoTime until{};
  WallTime until_wall{};
  MonoTime taken_at{};
  [[nodiscard]] bool holds(Instant now) const { return now.mono < until && now.wall < until_wall; }
};

// A lease that others believe in until then. It is over for us sooner than it is for them.
[[nodiscard]] inline Lease lease_of(Instant now, WallTime until, const SyncRules& rules) {
  const Millis margin = lease_margin(rules);
  return {.until = now.mono + (until - now.wall) - margin,
          .until_wall = until - margin,
          .taken_at = now.mono};
}

struct RemoteEntry;
// Entries by when they are looked at again by themselves.
using RemoteTimers = std::multimap<MonoTime, RemoteEntry*>;

struct RemoteEntry {
  std::string tuple;  // its encoding
  uint64_t hash = 0;
  // The last window, this one, and the next where clocks differ; most entries have but one.
  std::array<std::unique_ptr<RemoteCell>, 3> cells;
  Lease lease;
  std::vector<std::pair<RegionNumber, WallTime>> present;
  std::optional<RemoteTimers::iterator> timer;
  bool queued = false;
  MadeBy made_by = MadeBy::kTraffic;
  uint32_t seen_in = 0;    // the last read of everything that showed our presence
  uint32_t under_way = 0;  // cells that were sent
  uint64_t bytes = 0;      // reserved for it

  [[nodiscard]] Millis duration() const { return memory::header_of(tuple).duration(); }
  // The cell of a window, of which there may be news while `current` is the present one. Whatever
  // older one was in its place is over; a later one than the next is of a clock that was ahead. One
  // that must be made is made by Book::cell.
  [[nodiscard]] RemoteCell& cell(int64_t sequence, int64_t current);
  [[nodiscard]] const RemoteCell* find(int64_t sequence) const;
  [[nodiscard]] RemoteCell* find(int64_t sequence) {
    return const_cast<RemoteCell*>(std::as_const(*this).find(sequence));
  }
  // When a window is over for good.
  [[nodiscard]] WallTime end_of(const RemoteCell& cell) const {
    return WallTime((cell.sequence + 2) * duration());
  }
  // Those there are.
  template <typename Visit>
  void each_cell(const Visit& visit) const {
    for (const std::unique_ptr<RemoteCell>& cell : cells) {
      if (cell) visit(*cell);
    }
  }
  // Whether some cell waits to be published.
  [[nodiscard]] bool owes() const;
  // Regions that count in a window: ours, those present, those with a count.
  [[nodiscard]] uint32_t regions(int64_t sequence, WallTime now) const;
};

// What the ledger says of one window, as a process learns it.
struct AbroadCell {
  Count foreign = 0;
  Count ours = 0;  // the whole region's, at least
};
struct Abroad {
  AbroadCell current, last;
};

class RemoteCounts {
 public:
  // `most_heard` bounds the entries made by news of others alone; of our own there are twice as
  // many.
  RemoteCounts(std::string region, size_t most_received, memory::ByteBudget* budget)
      : region_(std::move(region)), most_received_(most_received), budget_(budget) {}

  [[nodiscard]] const std::string& region() const { return region_; }
  [[nodiscard]] base::Mutex& mutex() const WEIR_RETURN_CAPABILITY(mutex_) { return mutex_; }

  // Under the mutex. Nothing, where there is no memory for what would have to be made.
  [[nodiscard]] RemoteEntry* find(const memory::TupleKey& tuple) const WEIR_REQUIRES(mutex_);
  [[nodiscard]] RemoteEntry* obtain(const memory::TupleKey& tuple) WEIR_REQUIRES(mutex_);
  // The same for news; nothing either, if there is no room for more.
  [[nodiscard]] RemoteEntry* obtain_received(const memory::TupleKey& tuple, MadeBy news)
      WEIR_REQUIRES(mutex_);
  // The cell of a window, and the value of a region in a list of the entry.
  [[nodiscard]] RemoteCell* cell(RemoteEntry& entry, int64_t sequence, int64_t current)
      WEIR_REQUIRES(mutex_);
  template <typename Number, typename Value>
  [[nodiscard]] Value* of_region(RemoteEntry& entry, std::vector<std::pair<Number, Value>>& values,
                                 Number region) WEIR_REQUIRES(mutex_);
  void erase(RemoteEntry& entry) WEIR_REQUIRES(mutex_);
  [[nodiscard]] RegionNumber number_of(const std::string& region) WEIR_REQUIRES(mutex_);
  // Under the mutex, or from the thread that runs the sharing.
  [[nodiscard]] size_t size() const WEIR_NO_THREAD_SAFETY_ANALYSIS { return entries_.size(); }
  [[nodiscard]] size_t received() const WEIR_NO_THREAD_SAFETY_ANALYSIS {
    return our_received_ + others_received_;
  }
  template <typename Visit>
  void for_each(const Visit& visit) WEIR_NO_THREAD_SAFETY_ANALYSIS {
    entries_.for_each(visit);
  }

  // From any thread.
  [[nodiscard]] Abroad abroad(const memory::TupleKey& tuple, int64_t sequence) const;

 private:
  [[nodiscard]] size_t& received_by(MadeBy news) WEIR_REQUIRES(mutex_) {
    return news == MadeBy::kOurNews ? our_received_ : others_received_;
  }
  // It is no longer, or not, one that news alone made.
  void leave_received(RemoteEntry& entry) WEIR_REQUIRES(mutex_) {
    if (entry.made_by != MadeBy::kTraffic) --received_by(entry.made_by);
    entry.made_by = MadeBy::kTraffic;
  }

  [[nodiscard]] bool reserve(RemoteEntry& entry, uint64_t bytes) WEIR_REQUIRES(mutex_);

  const std::string region_;
  const size_t most_received_;
  memory::ByteBudget* const budget_;
  mutable base::Mutex mutex_;
  base::HashIndex<RemoteEntry> entries_ WEIR_GUARDED_BY(mutex_);
  std::map<std::string, RegionNumber> numbers_ WEIR_GUARDED_BY(mutex_);
  // News of one region come together.
  std::pair<std::string, RegionNumber> last_number_ WEIR_GUARDED_BY(mutex_);
  size_t our_received_ WEIR_GUARDED_BY(mutex_) = 0;
  size_t others_received_ WEIR_GUARDED_BY(mutex_) = 0;
};

template <typename Number, typename Value>
Value* RemoteCounts::of_region(RemoteEntry& entry, std::vector<std::pair<Number, Value>>& values,
                               Number region) {
  for (auto& [known, value] : values) {
    if (known == region) return &value;
  }
  if (values.size() == values.capacity()) {
    constexpr size_t kMore = 4;
    constexpr uint64_t kBytes = sizeof(std::pair<Number, Value>);
    const uint64_t had = values.empty() ? 0 : memory::heap_bytes(values.capacity() * kBytes);
    const uint64_t has = memory::heap_bytes((values.capacity() + kMore) * kBytes);
    if (!reserve(entry, has - had)) return nullptr;
    values.reserve(values.capacity() + kMore);
  }
  return &values.emplace_back(region, Value{}).second;
}

// A tuple learns what is known of one window; by a pinned caller. Returns whether it was news.
bool take_in(const AbroadCell& known, const memory::Tuple& tuple, int64_t sequence);

// The words of a tuple, and back.
[[nodiscard]] LedgerKey ledger_key_of(const std::string& tuple);
[[nodiscard]] Request request_of(const LedgerKey& key);

}  // namespace weir::limiter
