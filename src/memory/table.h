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
//    the origin and it is not full. If nothing may go, create() says so.
//
// Safe from any thread.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/inline.h"
#include "base/keyed_hash.h"
#include "memory/slot.h"
#include "platform/grace.h"
#include "platform/pages.h"

namespace weir::memory {

// Whether what this process accepts is also kept somewhere else.
enum class Company : uint8_t { kAlone, kShared };

enum class Created : uint8_t { kYes, kPresent, kFull };

struct TableStats {
  uint64_t tuples = 0;
  uint64_t evicted = 0;
  uint64_t expired = 0;
  uint64_t rebuilt = 0;
  uint64_t bytes = 0;
};

namespace detail {

inline constexpr uint64_t kLowBits = 0x0101010101010101ULL;
inline constexpr uint64_t kHighBits = 0x8080808080808080ULL;

// Marks the bytes of a word that equal `byte`. A byte after a true match may be marked
// wrongly; keys are compared anyway.
inline uint64_t matches(uint64_t word, uint8_t byte) {
  const uint64_t difference = word ^ (kLowBits * byte);
  return (difference - kLowBits) & ~difference & kHighBits;
}

inline size_t first_marked(uint64_t marks) {
  return static_cast<size_t>(__builtin_ctzll(marks)) / 8;
}

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
  Table(size_t capacity, Company company);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // The caller is pinned, and stays so while it uses the tuple.
  [[nodiscard]] Tuple find(const TupleKey& key) const;

  // Two steps that warm the cache for a find() soon after: the control bytes, then, when
  // those have arrived, the slot they point to.
  void prefetch_control(const TupleKey& key) const;
  void prefetch_slot(const TupleKey& key) const;

  // Makes sure the tuple exists. The caller is not pinned, since a slot may have to be
  // emptied and every reader must be able to let go; it finds the tuple afterwards.
  [[nodiscard]] Created create(const TupleKey& key, const Query& query);

  // Gives the tuple a state that can express the query, if it still cannot.
  [[nodiscard]] Created rebuild(const TupleKey& key, const Query& query);

  // Looks at the next `slots` slots and forgets what has expired; returns how many did.
  size_t sweep(WallTime now, size_t slots);

  // Every tuple there is; pins. Others may come and go meanwhile.
  template <typename Visit>
  void for_each(const Visit& visit) const;

  // The tuple in a slot, or none. The caller is pinned.
  [[nodiscard]] Tuple at(uint32_t index) const;

  [[nodiscard]] size_t slots() const { return buckets_ * kBucketSlots; }
  [[nodiscard]] TableStats stats() const;

 private:
  static constexpr size_t kBucketSlots = 16;
  static constexpr size_t kBucketWords = kBucketSlots / 8;
  static constexpr size_t kStripes = 256;
  static constexpr uint8_t kEmpty = 0;
  static constexpr uint8_t kLimbo = 255;  // hidden, waiting for its grace period

  struct Buckets {
    size_t first = 0;
    size_t second = 0;
  };
  class Locked;
  struct Predecessor;

  [[nodiscard]] size_t first_bucket(uint64_t hash) const;
  [[nodiscard]] size_t second_bucket(uint64_t hash) const;
  [[nodiscard]] Buckets buckets_of(uint64_t hash) const {
    return {.first = first_bucket(hash), .second = second_bucket(hash)};
  }
  [[nodiscard]] static uint8_t fragment_of(uint64_t hash);
  [[nodiscard]] Tuple tuple_at(size_t index) const;
  [[nodiscard]] Tuple find_in(size_t bucket, uint8_t fragment, const TupleKey& key) const;
  [[nodiscard]] uint8_t control(size_t index) const;
  void set_control(size_t index, uint8_t value);  // under the bucket's lock

  [[nodiscard]] Created place(const TupleKey& key, const Query& query,
                              const Predecessor* predecessor);
  [[nodiscard]] bool free_slot(const Buckets& buckets, WallTime now, size_t& index);
  [[nodiscard]] bool reusable_slot(size_t bucket, size_t& index);
  [[nodiscard]] size_t occupied(size_t bucket) const;
  void make_room(const Buckets& buckets, WallTime now);
  bool expire(size_t index, WallTime now);
  void evict(size_t index);
  void hide(size_t index);

  // Fixed after construction.
  size_t buckets_;
  Company company_;
  platform::Pages control_pages_, slot_pages_, cold_pages_;
  std::atomic<uint64_t>* control_;  // 8 control bytes to a word
  Slot* slots_;
  Cold* cold_;

  std::array<std::mutex, kStripes> stripes_;  // guard control bytes and slots' ownership

  // Single numbers: relaxed.
  std::atomic<uint64_t> generation_{1};
  std::atomic<size_t> sweep_at_{0};
  std::atomic<uint64_t> tuples_{0}, evicted_{0}, expired_{0}, rebuilt_{0};
};

inline size_t Table::first_bucket(uint64_t hash) const {
  return (hash & 0xffffffff) * buckets_ >> 32;
}

inline size_t Table::second_bucket(uint64_t hash) const {
  return ((hash * 0x9e3779b97f4a7c15ULL) >> 32) * buckets_ >> 32;
}

inline uint8_t Table::fragment_of(uint64_t hash) {
  return static_cast<uint8_t>(((hash >> 56) * (kLimbo - 1) >> 8) + 1);
}

inline Tuple Table::tuple_at(size_t index) const {
  return {.slot = &slots_[index], .cold = &cold_[index], .index = static_cast<uint32_t>(index)};
}

WEIR_HOT_INLINE Tuple Table::find_in(size_t bucket, uint8_t fragment, const TupleKey& key) const {
  for (size_t w = 0; w < kBucketWords; ++w) {
    // seq_cst: the first look at the structure after pinning; see platform/grace.h.
    // It also acquires the key and state written before the byte was set.
    const uint64_t word = control_[bucket * kBucketWords + w].load(std::memory_order_seq_cst);
    for (uint64_t marks = detail::matches(word, fragment); marks != 0; marks &= marks - 1) {
      const size_t index = bucket * kBucketSlots + w * 8 + detail::first_marked(marks);
      if (detail::same_key(slots_[index], key)) return tuple_at(index);
    }
  }
  return {};
}

WEIR_HOT_INLINE Tuple Table::find(const TupleKey& key) const {
  const uint8_t fragment = fragment_of(key.hash());
  const Tuple tuple = find_in(first_bucket(key.hash()), fragment, key);
  return tuple ? tuple : find_in(second_bucket(key.hash()), fragment, key);
}

template <typename Visit>
void Table::for_each(const Visit& visit) const {
  for (size_t index = 0; index < slots(); ++index) {
    const platform::Pin pin;
    if (const Tuple tuple = at(static_cast<uint32_t>(index))) visit(tuple);
  }
}

}  // namespace weir::memory
