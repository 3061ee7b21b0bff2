// The in-process truth: one table of tuples, of fixed capacity.
//
// A tuple may live in either of two buckets of 16 slots, chosen by its hash; one control
// byte per slot says whether it is empty, being emptied, or holds a tuple with that
// fragment of its hash. So a look-up reads one or two short runs of control bytes, which
// stay cached, and then the one slot that matches.
//
// Invariants
// 1. Looking up and charging a known tuple takes no lock and allocates nothing. Control
//    bytes and slots change hands only under the locks of both buckets.
// 2. A tuple is in at most one slot: whoever creates one looks again under the locks.
// 3. A slot is reused only after a grace period, so a pinned reader's slot stays the
//    tuple it found. Before that its words say kGone, so nothing is charged to it.
// 4. Forgetting a tuple never gives anyone room: it has expired, or its counts are at
//    the origin and it is not full. If nothing may go, create() says so. The exception is
//    forget(), which a client asks for.
// 5. What a tuple owns outside its slot is reserved from the byte budget before it is
//    allocated. If it does not fit, create() and rebuild() say so.
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
#include "epoch/epoch.h"
#include "memory/byte_budget.h"
#include "memory/control.h"
#include "memory/lifecycle.h"
#include "memory/slot.h"
#include "platform/pages.h"

namespace weir::memory {

// Who else counts on the tuples of this process.
enum class Scope : uint8_t {
  kProcess,
  kGlobal,  // other regions: nobody has to be told before a tuple is forgotten, nor asked
  kRegion,  // other processes of the region: what is accepted is also kept at the origin
};

enum class Created : uint8_t {
  kYes,
  kPresent,
  kFull,      // no slot is free
  kNoMemory,  // no bytes are free for what the tuple would own; see rebuild()
};

enum class Forgotten : uint8_t {
  kYes,
  kAbsent,  // or expired
  kBusy,    // a batch is at work on it
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
  // Takes its own bytes from the budget at once; without a budget nothing is bounded but the number
  // of tuples.
  Table(size_t capacity, Scope scope, ByteBudget* budget = nullptr);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // The caller is pinned, and stays so while it uses the tuple.
  [[nodiscard]] Tuple find(const TupleKey& key) const;
  // The same for a key that was not built: same(slot) compares it.
  template <typename Same>
  [[nodiscard]] Slot* find(uint64_t hash, const Same& same) const;
  [[nodiscard]] Tuple tuple_of(const Slot& slot) const {
    return tuple_at(static_cast<size_t>(&slot - slots_));
  }

  // A find() in three steps, for many keys side by side: each step asks memory for what
  // the next one reads. The second guesses the slot, or none; the third is find() again,
  // at the guessed slot first. The second may look relaxed where the platform says that first
  // looks may; then a fence that acquires stands between it and the third.
  void prefetch_control(uint64_t hash) const;
  template <std::memory_order kFirstLook>
  [[nodiscard]] Slot* prefetch_slot(uint64_t hash) const;
  template <typename Same>
  [[nodiscard]] Slot* find(uint64_t hash, Slot* guess, const Same& same) const;

  // Makes sure the tuple exists. The caller is not pinned, since a slot may have to be
  // emptied and every reader must be able to let go; it finds the tuple afterwards.
  [[nodiscard]] Created create(const TupleKey& key, const Query& query) {
    return create(key, query, {});
  }
  // The same where others have a say, under the table's locks: whether it may be made at all, and
  // what it knows before anyone finds it. Each may be none.
  struct Making {
    std::function<bool()> forbidden;  // if so, as if there were no room
    std::function<void(const Tuple&)> prepare;
  };
  [[nodiscard]] Created create(const TupleKey& key, const Query& query, const Making& making);

  // Does something while nobody can make the tuple. False: it is there, and nothing was done.
  [[nodiscard]] bool while_absent(const TupleKey& key, const std::function<void()>& work);

  // Gives the tuple a state that can express the query, if it still cannot. Where there is no
  // memory for that, a log goes on with what it can hold; a tuple whose counts would begin anew,
  // since the clock was set back, is forgotten.
  [[nodiscard]] Created rebuild(const TupleKey& key, const Query& query) {
    return rebuild(key, query, {});
  }
  [[nodiscard]] Created rebuild(const TupleKey& key, const Query& query, const Making& making);

  // Makes the tuple begin anew. What it counted must be told to nobody. A charge that was decided
  // before this one counts no more; one that comes later finds an empty tuple.
  [[nodiscard]] Forgotten forget(const TupleKey& key, WallTime now);

  // Is told of every tuple that makes room for another, with what stood in its words; on the thread
  // that needs the room, under locks of the table. To be set before anything is created.
  using OnEvict = std::function<void(const Tuple& tuple, const Frozen& frozen)>;
  void on_evict(OnEvict listener) { on_evict_ = std::move(listener); }

  // Looks at the next `slots` slots and forgets what has expired; returns how many did. Frees what
  // the tuples owned that the call before this one forgot.
  size_t sweep(WallTime now, size_t slots);

  // Every tuple there is; pins. Others may come and go meanwhile.
  template <typename Visit>
  void for_each(const Visit& visit) const;

  // The tuple in a slot, or none. The caller is pinned.
  [[nodiscard]] Tuple at(uint32_t index) const;

  // The place itself, whatever is in it: only its words may be looked at.
  [[nodiscard]] Tuple place(uint32_t index) const { return tuple_at(index); }

  [[nodiscard]] size_t slots() const { return buckets_ * kBucketSlots; }
  [[nodiscard]] static size_t slots_for(size_t capacity);
  [[nodiscard]] static uint64_t bytes_for(size_t capacity);

  // Whether the budget has room for what the tuple would own.
  [[nodiscard]] bool has_memory_for(const TupleKey& key, const Query& query) const;
  [[nodiscard]] TableStats stats() const;

  // Where tuples are put, also for who wants to touch memory as the table does. Slots are
  // numbered bucket by bucket.
  struct Buckets {
    size_t first = 0;
    size_t second = 0;
  };
  [[nodiscard]] Buckets buckets_of(uint64_t hash) const {
    return {.first = first_bucket(hash), .second = second_bucket(hash)};
  }
  // The one that a newcomer goes to if it can. occupied(bucket) says how many slots of it
  // are taken.
  template <typename Occupied>
  [[nodiscard]] static size_t preferred_bucket(const Buckets& buckets, const Occupied& occupied);

 private:
  static constexpr size_t kStripes = 256;
  // Control bytes: a slot's state, or from kLeast to kMost a fragment of its tuple's hash. They
  // differ in more than the last bit, or Marks might take a hidden tuple for one that is there.
  static constexpr uint8_t kEmpty = 0;
  static constexpr uint8_t kLeast = 2;
  static constexpr uint8_t kMost = 253;
  static constexpr uint8_t kLimbo = 255;  // hidden, waiting for its grace period
  static_assert((kEmpty ^ kLeast) > 1 && (kLimbo ^ kMost) > 1);

  class Locked;
  struct Predecessor;

  [[nodiscard]] size_t first_bucket(uint64_t hash) const;
  [[nodiscard]] size_t second_bucket(uint64_t hash) const;
  [[nodiscard]] static uint8_t fragment_of(uint64_t hash);
  [[nodiscard]] Tuple tuple_at(size_t index) const;
  template <std::memory_order kOrder>
  [[nodiscard]] Marks marks_in(size_t bucket, uint8_t fragment) const;
  [[nodiscard]] Slot* first_slot(size_t bucket, Marks marks) const {
    return &slots_[bucket * kBucketSlots + marks.first()];
  }
  [[nodiscard]] uint8_t control(size_t index) const;
  void set_control(size_t index, uint8_t value);  // under the bucket's lock

  [[nodiscard]] Created place(const TupleKey& key, const Query& query,
                              const Predecessor* predecessor, const Making& making);
  [[nodiscard]] bool free_slot(const Buckets& buckets, WallTime now, size_t& index);
  [[nodiscard]] bool reusable_slot(size_t bucket, size_t& index);
  [[nodiscard]] size_t occupied(size_t bucket) const;
  void make_room(const Buckets& buckets, WallTime now);
  bool expire(size_t index, WallTime now);
  void evict(size_t index);
  void hide(size_t index);
  void release(size_t index);
  void end(size_t index);
  [[nodiscard]] Birth next_birth();

  // Fixed after construction.
  OnEvict on_evict_;
  size_t buckets_;
  Scope scope_;
  ByteBudget* budget_;
  platform::Pages control_pages_, slot_pages_, cold_pages_, ticket_pages_;
  base::Atomic<uint64_t>* control_;  // 8 control bytes to a word
  Slot* slots_;
  Cold* cold_;
  // Of hidden slots, when their grace period is over. In memory of their own: readers that found
  // a tuple before it was hidden still write to all its other words. Under the bucket's lock.
  uint64_t* retired_at_;

  std::array<base::Mutex, kStripes> stripes_;  // guard control bytes and slots' ownership

  // Single numbers: relaxed.
  std::atomic<uint64_t> generation_{1};
  std::atomic<size_t> sweep_at_{0};
  std::atomic<uint64_t> tuples_{0}, evicted_{0}, expired_{0}, rebuilt_{0};
};

// Each half of the hash chooses a bucket by its upper bits; the fragment is of bits that
// hardly matter to that.
inline size_t Table::first_bucket(uint64_t hash) const {
  return uint64_t{static_cast<uint32_t>(hash)} * static_cast<uint32_t>(buckets_) >> 32;
}

inline size_t Table::second_bucket(uint64_t hash) const {
  return first_bucket(hash >> 32);
}

inline uint8_t Table::fragment_of(uint64_t hash) {
  return static_cast<uint8_t>(((hash & 0xff) * (kMost - kLeast + 1) >> 8) + kLeast);
}

// The first while it has some air, since look-ups go there first; else the emptier one.
template <typename Occupied>
size_t Table::preferred_bucket(const Buckets& buckets, const Occupied& occupied) {
  constexpr size_t kAir = 8;
  const size_t in_first = occupied(buckets.first);
  const bool first = in_first + kAir <= kBucketSlots || in_first <= occupied(buckets.second);
  return first ? buckets.first : buckets.second;
}

inline Tuple Table::tuple_at(size_t index) const {
  return {.slot = &slots_[index], .cold = &cold_[index], .index = static_cast<uint32_t>(index)};
}

template <std::memory_order kOrder>
WEIR_HOT_INLINE Marks Table::marks_in(size_t bucket, uint8_t fragment) const {
  return Marks::of<kOrder>(&control_[bucket * kControlWords], fragment);
}

template <typename Same>
WEIR_HOT_INLINE Slot* Table::find(uint64_t hash, const Same& same) const {
  // Every fifth tuple of a full table lives there, and nobody can foretell which.
  __builtin_prefetch(&control_[second_bucket(hash) * kControlWords]);
  const uint8_t fragment = fragment_of(hash);
  size_t bucket = first_bucket(hash);
  for (int turn = 0; turn < 2; ++turn, bucket = second_bucket(hash)) {
    // seq_cst: the first look at the structure after pinning; see epoch/epoch.h.
    // It also acquires the key and state written before the byte was set.
    Marks marks = marks_in<std::memory_order_seq_cst>(bucket, fragment);
    for (; marks.any(); marks.drop_first()) {
      Slot* slot = first_slot(bucket, marks);
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

template <std::memory_order kFirstLook>
WEIR_HOT_INLINE Slot* Table::prefetch_slot(uint64_t hash) const {
  const uint8_t fragment = fragment_of(hash);
  // Both buckets at once, since nobody can foretell which one it is in.
  const Marks first = marks_in<kFirstLook>(first_bucket(hash), fragment);
  const Marks second = marks_in<kFirstLook>(second_bucket(hash), fragment);
  const Marks marks = first.any() ? first : second;
  if (!marks.any()) [[unlikely]]
    return nullptr;
  Slot* slot = first_slot(first.any() ? first_bucket(hash) : second_bucket(hash), marks);
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
  constexpr size_t kGroup = 8;  // to a word of control bytes
  for (size_t group = 0; group < slots(); group += kGroup) {
    // Most of a table may never have been used.
    if (control_[group / kGroup].load(std::memory_order_relaxed) == 0) continue;
    for (size_t index = group; index < group + kGroup; ++index) {
      const epoch::Guard guard;
      if (const Tuple tuple = at(static_cast<uint32_t>(index))) visit(tuple);
    }
  }
}

}  // namespace weir::memory
