// The tuples of this process: a hash table of fixed capacity.
//
// A tuple is in one of two buckets of 16 slots, chosen by its hash. One control byte per slot
// stores whether the slot is empty, retired, or contains a tuple with that fragment of its hash.
// So a look-up reads one or two short runs of control bytes, which stay cached, and then the one
// slot that matches.
//
// Invariants
// 1. A look-up and a charge of an existing tuple take no lock and allocate nothing. Control bytes
//    and the ownership of slots change only under the locks of both buckets.
// 2. A tuple is in at most one slot: create() looks it up again under the locks.
// 3. A slot is reused only after its epoch is reclaimable, so the slot that a reader found remains
//    the same tuple while the reader holds its epoch guard. Before that its words are kFrozen, so
//    nothing is charged to it.
// 4. The removal of a tuple never admits more: the tuple has expired, or the origin has its counts
//    and the limit is not used up. If no tuple may be removed, create() returns kFull. The
//    exception is erase(), which a client requests.
// 5. The memory that a tuple owns outside its slot is reserved from the byte budget before it is
//    allocated. If it does not fit, create() and rebuild() return kNoMemory.
//
// Safe from any thread.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/atomic.h"
#include "base/inline.h"
#include "base/keyed_hash.h"
#include "base/mutex.h"
#include "epoch/epoch.h"
#include "memory/byte_budget.h"
#include "memory/control.h"
#include "memory/lifecycle.h"
#include "memory/slot.h"
#include "platform/pages.h"

namespace weir::memory {

// Where else the tuples of this process are counted.
enum class Scope : uint8_t {
  kProcess,
  kGlobal,  // in other regions only: no origin has to be read or updated
  kRegion,  // in other processes of the region: the origin also stores the counts
};

enum class CreateResult : uint8_t {
  kCreated,
  kExists,
  kFull,      // no slot is free
  kNoMemory,  // the byte budget has no space for the buffer or key of the tuple; see rebuild()
};

enum class EraseResult : uint8_t {
  kErased,
  kAbsent,  // or expired
  kBusy,    // a batch is charging it
};

struct TableStats {
  uint64_t tuples = 0;
  uint64_t evicted = 0;
  uint64_t expired = 0;
  uint64_t rebuilt = 0;
  uint64_t bytes = 0;
};

namespace detail {

inline bool same_key(const Slot& slot, const TupleKey& key) {
  if (slot.header.word != key.header().word) return false;
  const size_t count = key.word_count();
  const uint64_t* a = slot.key_words(count);
  const uint64_t* b = key.words();
  size_t i = 0;
  while (i < count && a[i] == b[i]) ++i;
  return i == count;
}

}  // namespace detail

class Table {
 public:
  // Reserves its own bytes from the budget. Without a budget only the number of tuples is bounded.
  Table(size_t capacity, Scope scope, ByteBudget* budget = nullptr);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // The caller holds an epoch guard for as long as it uses the tuple.
  [[nodiscard]] Tuple find(const TupleKey& key) const;
  // Without a TupleKey: same(slot) compares the key.
  template <typename Same>
  [[nodiscard]] Slot* find(uint64_t hash, const Same& same) const;
  [[nodiscard]] Tuple tuple_of(const Slot& slot) const {
    return tuple_at(static_cast<size_t>(&slot - slots_));
  }

  // find() in three steps, to interleave many keys: each step prefetches what the next one reads.
  // The second guesses the slot, or none; the third is find() again, with the guessed slot first.
  // The second may use a relaxed load if epoch::first_load_may_be_relaxed(); then an acquire fence
  // must separate it from the third.
  void prefetch_control(uint64_t hash) const;
  template <std::memory_order kFirstLoad>
  [[nodiscard]] Slot* prefetch_slot(uint64_t hash) const;
  template <typename Same>
  [[nodiscard]] Slot* find(uint64_t hash, Slot* guess, const Same& same) const;

  // Makes sure that the tuple exists. The caller holds no epoch guard, because a slot may have to
  // be reclaimed, which waits for all guards; it calls find() afterwards.
  [[nodiscard]] CreateResult create(const TupleKey& key, const Query& query) {
    return create(key, query, {});
  }
  // Callbacks under the table's locks. Each may be empty.
  struct CreateHooks {
    std::function<bool()> veto;                 // true: create() returns kFull
    std::function<void(const Tuple&)> prepare;  // writes to the tuple before it is published
  };
  [[nodiscard]] CreateResult create(const TupleKey& key, const Query& query,
                                    const CreateHooks& hooks);

  // Runs `work` while no thread can create the tuple. False: the tuple exists, and nothing was run.
  [[nodiscard]] bool while_absent(const TupleKey& key, const std::function<void()>& work);

  // Replaces the state by one that can represent the query, unless it already can. Without memory
  // for that, a log continues with its current size; a tuple whose counts would be reset, because
  // the clock was set back, is removed.
  [[nodiscard]] CreateResult rebuild(const TupleKey& key, const Query& query) {
    return rebuild(key, query, {});
  }
  [[nodiscard]] CreateResult rebuild(const TupleKey& key, const Query& query,
                                     const CreateHooks& hooks);

  // Removes the tuple and its counts. Only for tuples whose counts no other process needs. A charge
  // decided before this call is lost; a later one starts with an empty tuple.
  [[nodiscard]] EraseResult erase(const TupleKey& key, WallTime now);

  // Called for every evicted tuple with its frozen words, on the thread that needs the slot, under
  // locks of the table. Set it before the first create().
  using OnEvict = std::function<void(const Tuple& tuple, const FrozenWords& frozen)>;
  void on_evict(OnEvict listener) { on_evict_ = std::move(listener); }

  // Checks the next `slots` slots and removes expired tuples; returns their number. Also frees the
  // memory of the tuples that the previous call removed.
  size_t sweep(WallTime now, size_t slots);

  // Visits every tuple under an epoch guard. Tuples may be added and removed meanwhile.
  template <typename Visit>
  void for_each(const Visit& visit) const;

  // The tuple in a slot, or none. The caller holds an epoch guard.
  [[nodiscard]] Tuple at(uint32_t index) const;

  // The slot itself, with or without a tuple: the caller may only read its words.
  [[nodiscard]] Tuple slot_at(uint32_t index) const { return tuple_at(index); }
  // Prefetches a slot that will be read soon.
  void prefetch_at(size_t index) const {
    __builtin_prefetch(&slots_[index].hot);
    __builtin_prefetch(&slots_[index].header);
  }

  [[nodiscard]] size_t slots() const { return buckets_ * kBucketSlots; }
  [[nodiscard]] static size_t slots_for(size_t capacity);
  [[nodiscard]] static uint64_t bytes_for(size_t capacity);

  // Whether the budget has space for the memory that the tuple would own.
  [[nodiscard]] bool has_memory_for(const TupleKey& key, const Query& query) const;
  [[nodiscard]] TableStats stats() const;

  // The buckets of a tuple; public for benchmarks that access memory as the table does. Slots are
  // numbered bucket by bucket.
  struct Buckets {
    size_t first = 0;
    size_t second = 0;
  };
  [[nodiscard]] Buckets buckets_of(uint64_t hash) const {
    return {.first = first_bucket(hash), .second = second_bucket(hash)};
  }
  // The bucket that a new tuple uses if it has a free slot. occupied(bucket) returns the number of
  // used slots.
  template <typename Occupied>
  [[nodiscard]] static size_t preferred_bucket(const Buckets& buckets, const Occupied& occupied);

 private:
  static constexpr size_t kStripes = 256;
  // Control bytes: the state of a slot, or from kMinFragment to kMaxFragment a fragment of its
  // tuple's hash. They differ in more than the last bit, or SlotMatches could match a retired slot.
  static constexpr uint8_t kEmpty = 0;
  static constexpr uint8_t kMinFragment = 2;
  static constexpr uint8_t kMaxFragment = 253;
  static constexpr uint8_t kRetired = 255;  // unpublished, until its epoch is reclaimable
  static_assert((kEmpty ^ kMinFragment) > 1 && (kRetired ^ kMaxFragment) > 1);

  class BucketLocks;
  struct Predecessor;

  [[nodiscard]] size_t first_bucket(uint64_t hash) const;
  [[nodiscard]] size_t second_bucket(uint64_t hash) const;
  [[nodiscard]] static uint8_t fragment_of(uint64_t hash);
  [[nodiscard]] Tuple tuple_at(size_t index) const;
  template <std::memory_order kOrder>
  [[nodiscard]] SlotMatches matches_in(size_t bucket, uint8_t fragment) const;
  [[nodiscard]] Slot* first_slot(size_t bucket, SlotMatches matches) const {
    return &slots_[bucket * kBucketSlots + matches.first()];
  }
  [[nodiscard]] uint8_t control(size_t index) const;
  void set_control(size_t index, uint8_t value);  // under the bucket's lock

  [[nodiscard]] CreateResult insert(const TupleKey& key, const Query& query,
                                    const Predecessor* predecessor, const CreateHooks& hooks);
  [[nodiscard]] bool find_free_slot(const Buckets& buckets, WallTime now, size_t& index);
  [[nodiscard]] bool reusable_slot(size_t bucket, size_t& index);
  [[nodiscard]] size_t occupied(size_t bucket) const;
  void free_up(const Buckets& buckets, WallTime now);
  [[nodiscard]] bool may_expire(size_t index, WallTime now) const;
  bool expire(size_t index, WallTime now);
  void evict(size_t index);
  void retire(size_t index);
  void reclaim(size_t index);
  void destroy(size_t index);
  [[nodiscard]] InitialState next_initial_state();

  // Fixed after construction.
  OnEvict on_evict_;
  size_t buckets_;
  Scope scope_;
  ByteBudget* budget_;
  platform::Pages control_pages_, slot_pages_, cold_pages_, retired_at_pages_;
  base::Atomic<uint64_t>* control_;  // 8 control bytes to a word
  Slot* slots_;
  Cold* cold_;
  // The retire epoch of each retired slot. In separate memory: readers that found a tuple before it
  // was retired still write to all words of its slot. Guarded by the bucket's lock.
  uint64_t* retired_at_;

  std::array<base::Mutex, kStripes> stripes_;  // guard control bytes and the ownership of slots

  // Single numbers: relaxed.
  std::atomic<uint64_t> generation_{1};
  std::atomic<size_t> sweep_at_{0};
  std::atomic<uint64_t> tuples_{0}, evicted_{0}, expired_{0}, rebuilt_{0};
};

// Each half of the hash chooses a bucket by its upper bits; the fragment uses bits that hardly
// influence that.
inline size_t Table::first_bucket(uint64_t hash) const {
  return uint64_t{static_cast<uint32_t>(hash)} * static_cast<uint32_t>(buckets_) >> 32;
}

inline size_t Table::second_bucket(uint64_t hash) const {
  return first_bucket(hash >> 32);
}

inline uint8_t Table::fragment_of(uint64_t hash) {
  return static_cast<uint8_t>(((hash & 0xff) * (kMaxFragment - kMinFragment + 1) >> 8) +
                              kMinFragment);
}

// The first bucket while it has spare slots, because look-ups search it first; else the emptier
// one.
template <typename Occupied>
size_t Table::preferred_bucket(const Buckets& buckets, const Occupied& occupied) {
  constexpr size_t kSpare = 8;
  const size_t in_first = occupied(buckets.first);
  const bool first = in_first + kSpare <= kBucketSlots || in_first <= occupied(buckets.second);
  return first ? buckets.first : buckets.second;
}

inline Tuple Table::tuple_at(size_t index) const {
  return {.slot = &slots_[index], .cold = &cold_[index], .index = static_cast<uint32_t>(index)};
}

template <std::memory_order kOrder>
WEIR_HOT_INLINE SlotMatches Table::matches_in(size_t bucket, uint8_t fragment) const {
  return SlotMatches::of<kOrder>(&control_[bucket * kControlWords], fragment);
}

template <typename Same>
WEIR_HOT_INLINE Slot* Table::find(uint64_t hash, const Same& same) const {
  // Every fifth tuple of a full table is there, and which one cannot be predicted.
  __builtin_prefetch(&control_[second_bucket(hash) * kControlWords]);
  const uint8_t fragment = fragment_of(hash);
  size_t bucket = first_bucket(hash);
  for (int attempt = 0; attempt < 2; ++attempt, bucket = second_bucket(hash)) {
    // seq_cst: the first load from the structure under the epoch guard; see epoch/epoch.h.
    // It also acquires the key and the state that were written before the byte was set.
    SlotMatches matches = matches_in<std::memory_order_seq_cst>(bucket, fragment);
    for (; matches.any(); matches.drop_first()) {
      Slot* slot = first_slot(bucket, matches);
      if (same(*slot)) [[likely]]
        return slot;
    }
  }
  return nullptr;
}

WEIR_HOT_INLINE Tuple Table::find(const TupleKey& key) const {
  const Slot* slot =
      find(key.hash(), [&](const Slot& found) { return detail::same_key(found, key); });
  return slot == nullptr ? Tuple{} : tuple_of(*slot);
}

WEIR_HOT_INLINE void Table::prefetch_control(uint64_t hash) const {
  __builtin_prefetch(&control_[first_bucket(hash) * kControlWords]);
  __builtin_prefetch(&control_[second_bucket(hash) * kControlWords]);
}

template <std::memory_order kFirstLoad>
WEIR_HOT_INLINE Slot* Table::prefetch_slot(uint64_t hash) const {
  const uint8_t fragment = fragment_of(hash);
  // Both buckets at once, because the right one cannot be predicted.
  const SlotMatches first = matches_in<kFirstLoad>(first_bucket(hash), fragment);
  const SlotMatches second = matches_in<kFirstLoad>(second_bucket(hash), fragment);
  const SlotMatches matches = first.any() ? first : second;
  if (!matches.any()) [[unlikely]]
    return nullptr;
  Slot* slot = first_slot(first.any() ? first_bucket(hash) : second_bucket(hash), matches);
  __builtin_prefetch(&slot->hot, 1);
  __builtin_prefetch(&slot->header);
  return slot;
}

template <typename Same>
WEIR_HOT_INLINE Slot* Table::find(uint64_t hash, Slot* guess, const Same& same) const {
  if (guess != nullptr) [[likely]] {
    if (same(*guess)) [[likely]]
      return guess;
  }
  return find(hash, same);
}

template <typename Visit>
void Table::for_each(const Visit& visit) const {
  constexpr size_t kGroup = 8;  // control bytes in a word
  for (size_t group = 0; group < slots(); group += kGroup) {
    // Skips slots that were never used.
    if (control_[group / kGroup].load(std::memory_order_relaxed) == 0) continue;
    for (size_t index = group; index < group + kGroup; ++index) {
      const epoch::Guard guard;
      if (const Tuple tuple = at(static_cast<uint32_t>(index))) visit(tuple);
    }
  }
}

}  // namespace weir::memory
