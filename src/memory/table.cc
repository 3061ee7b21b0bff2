#include "memory/table.h"

#include <cstring>
#include <mutex>
#include <new>

#include "base/check.h"
#include "base/mutex.h"
#include "memory/log_cell.h"
#include "memory/owned_bytes.h"
#include "memory/tuple_watch.h"

namespace weir::memory {

// Locks both buckets of a tuple, always in the same order.
class Table::BucketLocks {
 public:
  BucketLocks(Table& table, const Buckets& buckets) {
    size_t low = buckets.first % kStripes;
    size_t high = buckets.second % kStripes;
    if (low > high) std::swap(low, high);
    low_ = std::unique_lock(table.stripes_[low]);
    if (high != low) high_ = std::unique_lock(table.stripes_[high]);
  }

 private:
  std::unique_lock<base::Mutex> low_, high_;
};

// 22 % more slots than tuples: with that, and the choice of preferred_bucket(), twenty tables of a
// million tuples each found a slot for every tuple.
size_t Table::slots_for(size_t capacity) {
  return ((capacity + capacity * 11 / 50) / kBucketSlots + 1) * kBucketSlots;
}

uint64_t Table::bytes_for(size_t capacity) {
  return slots_for(capacity) * (1 + sizeof(Slot) + sizeof(Cold) + sizeof(uint64_t));
}

Table::Table(size_t capacity, Scope scope, ByteBudget* budget)
    : buckets_(slots_for(capacity) / kBucketSlots),
      scope_(scope),
      budget_(budget),
      control_pages_(buckets_ * kBucketSlots),
      slot_pages_(buckets_ * kBucketSlots * sizeof(Slot)),
      cold_pages_(buckets_ * kBucketSlots * sizeof(Cold)),
      retired_at_pages_(buckets_ * kBucketSlots * sizeof(uint64_t)),
      control_(control_pages_.as<base::Atomic<uint64_t>>()),
      slots_(slot_pages_.as<Slot>()),
      cold_(cold_pages_.as<Cold>()),
      retired_at_(retired_at_pages_.as<uint64_t>()) {
  WEIR_CHECK(buckets_ < (size_t{1} << 32) / kBucketSlots);
  if (budget_ != nullptr) budget_->reserve_fixed(MemoryPart::kTable, bytes_for(capacity));
}

Table::~Table() {
  for (size_t i = 0; i < slots(); ++i) {
    if (control(i) != kEmpty) destroy(i);
  }
  if (budget_ != nullptr) budget_->release(MemoryPart::kTable, stats().bytes);
}

uint8_t Table::control(size_t index) const {
  const uint64_t word = control_[index / 8].load(std::memory_order_seq_cst);
  return static_cast<uint8_t>(word >> (index % 8 * 8));
}

void Table::set_control(size_t index, uint8_t value) {
  // Only a thread that holds the bucket's lock writes this word.
  uint64_t word = control_[index / 8].load(std::memory_order_relaxed);
  const size_t shift = index % 8 * 8;
  word = (word & ~(uint64_t{0xff} << shift)) | uint64_t{value} << shift;
  control_[index / 8].store(word, std::memory_order_seq_cst);
}

Tuple Table::at(uint32_t index) const {
  const uint8_t state = control(index);
  return state == kEmpty || state == kRetired ? Tuple{} : tuple_at(index);
}

CreateResult Table::create(const TupleKey& key, const Query& query, const CreateHooks& hooks) {
  const BucketLocks locks(*this, buckets_of(key.hash()));
  if (find(key) && !mutated(Mutation::kCreatedTwice)) return CreateResult::kExists;
  if (hooks.veto && hooks.veto()) return CreateResult::kFull;
  return insert(key, query, nullptr, hooks);
}

bool Table::while_absent(const TupleKey& key, const std::function<void()>& work) {
  const BucketLocks locks(*this, buckets_of(key.hash()));
  if (find(key)) return false;
  work();
  return true;
}

// The former slot of a rebuilt tuple.
struct Table::Predecessor {
  Tuple tuple;
  FrozenWords frozen;
};

CreateResult Table::rebuild(const TupleKey& key, const Query& query, const CreateHooks& hooks) {
  const BucketLocks locks(*this, buckets_of(key.hash()));
  const Tuple old = find(key);
  if (!old) {
    if (hooks.veto && hooks.veto()) return CreateResult::kFull;
    return insert(key, query, nullptr, hooks);
  }
  if (fits(old, query)) return CreateResult::kExists;
  const auto frozen = freeze(old);
  if (!frozen) return CreateResult::kFull;  // a batch is charging it
  const Predecessor predecessor{.tuple = old, .frozen = *frozen};
  const CreateResult created = insert(key, query, &predecessor, hooks);
  if (created == CreateResult::kCreated) {
    rebuilt_.fetch_add(1, std::memory_order_relaxed);
  } else if (!carries_over(old, *frozen, query)) {
    // It holds nothing that matters, and would deny for as long as there is no space.
    retire(old.index);
    return CreateResult::kNoMemory;
  } else {
    const bool is_log = old.slot->header.cell_class() == CellClass::kLog;
    if (created == CreateResult::kNoMemory && is_log) LogCell(old).postpone_growth(query.now);
    thaw(old, *frozen);
    if (!is_log) return CreateResult::kFull;
  }
  return created;
}

EraseResult Table::erase(const TupleKey& key, WallTime now) {
  const BucketLocks locks(*this, buckets_of(key.hash()));
  const Tuple tuple = find(key);
  if (!tuple) return EraseResult::kAbsent;
  const auto frozen = freeze(tuple);
  if (!frozen) return EraseResult::kBusy;
  const bool expired = expires_at(tuple, *frozen) <= now;
  retire(tuple.index);
  return expired ? EraseResult::kAbsent : EraseResult::kErased;
}

bool Table::has_memory_for(const TupleKey& key, const Query& query) const {
  return has_space(budget_, owned_bytes(key.header(), query));
}

// Fills a free slot and publishes it.
CreateResult Table::insert(const TupleKey& key, const Query& query, const Predecessor* predecessor,
                           const CreateHooks& hooks) {
  const OwnedBytes bytes = owned_bytes(key.header(), query);
  if (!reserve(budget_, bytes)) return CreateResult::kNoMemory;
  size_t index = 0;
  if (!find_free_slot(buckets_of(key.hash()), query.now, index)) {
    release(budget_, bytes);
    return CreateResult::kFull;
  }
  const Tuple tuple = tuple_at(index);
  tuple.slot->header = key.header();
  uint64_t* words = tuple.slot->key;
  if (key.word_count() > kInlineKeyWords) {
    words = new uint64_t[key.word_count()];
    tuple.slot->key[0] = reinterpret_cast<uint64_t>(words);
  }
  std::memcpy(words, key.words(), key.word_count() * sizeof(uint64_t));
  InitialState initial = next_initial_state();
  if (mutated(Mutation::kGenerationKept))
    initial.generation = key.hash() & TupleWatch::kGenerationMask;
  if (predecessor != nullptr) {
    init_from(predecessor->tuple, predecessor->frozen, tuple, query, initial);
    // Retires the old slot before it publishes the new one: a reader in between finds neither and
    // waits for the locks.
    retire(predecessor->tuple.index);
  } else {
    init_state(tuple, query, initial);
  }
  if (hooks.prepare) hooks.prepare(tuple);
  set_control(index, fragment_of(key.hash()));
  tuples_.fetch_add(1, std::memory_order_relaxed);
  return CreateResult::kCreated;
}

// With Scope::kGlobal no origin has to be read before a decision or updated after it: a tuple stays
// fresh and dirty forever, so that it is never listed for a replay.
InitialState Table::next_initial_state() {
  constexpr uint64_t kFreshForever = ~uint64_t{1};
  InitialState initial{.generation = generation_.fetch_add(1, std::memory_order_relaxed)};
  if (scope_ == Scope::kGlobal) {
    initial.freshness = kFreshForever;
    initial.watch_bits = TupleWatch::kDirty;
  }
  return initial;
}

size_t Table::occupied(size_t bucket) const {
  size_t count = 0;
  for (size_t i = 0; i < kBucketSlots; ++i) count += control(bucket * kBucketSlots + i) != kEmpty;
  return count;
}

bool Table::find_free_slot(const Buckets& buckets, WallTime now, size_t& index) {
  const size_t preferred =
      preferred_bucket(buckets, [this](size_t bucket) { return occupied(bucket); });
  const size_t other = preferred == buckets.first ? buckets.second : buckets.first;
  if (reusable_slot(preferred, index) || reusable_slot(other, index)) return true;
  free_up(buckets, now);
  return reusable_slot(preferred, index) || reusable_slot(other, index);
}

bool Table::reusable_slot(size_t bucket, size_t& index) {
  for (size_t i = bucket * kBucketSlots; i < (bucket + 1) * kBucketSlots; ++i) {
    const uint8_t state = control(i);
    const bool over = state == kRetired && epoch::is_reclaimable(retired_at_[i]);
    if (over) destroy(i);
    if (over || state == kEmpty) {
      index = i;
      return true;
    }
  }
  return false;
}

// Removes the expired tuples of the two buckets; if there are none, evicts the tuple with the least
// usage among those that the origin has acknowledged.
void Table::free_up(const Buckets& buckets, WallTime now) {
  bool freed = false;
  uint64_t least_usage = kFullUsage;
  size_t victim = slots();
  for (const size_t bucket : {buckets.first, buckets.second}) {
    for (size_t i = bucket * kBucketSlots; i < (bucket + 1) * kBucketSlots; ++i) {
      if (control(i) == kRetired) continue;
      if (expire(i, now)) {
        freed = true;
      } else if (scope_ == Scope::kRegion && fully_acked(tuple_at(i))) {
        const uint64_t usage = usage_share(tuple_at(i), now);
        if (usage < least_usage) least_usage = usage, victim = i;
      }
    }
  }
  if (!freed && victim != slots()) evict(victim);
}

// Without the lock: most tuples that are swept have not expired.
bool Table::may_expire(size_t index, WallTime now) const {
  const uint8_t state = control(index);
  if (state == kEmpty || state == kRetired) return false;
  const epoch::Guard guard;
  const Tuple tuple = at(static_cast<uint32_t>(index));
  return tuple && expires_at(tuple) <= now;
}

// Checks again after the freeze, when no admission can change the tuple any more.
bool Table::expire(size_t index, WallTime now) {
  // The origin does not know all that was admitted: the tuple waits for it for a while.
  constexpr Millis kUnreportedKept{10'000};
  const Tuple tuple = tuple_at(index);
  if (expires_at(tuple) > now) return false;
  const auto frozen = freeze(tuple);
  if (!frozen) return false;
  if (expires_at(tuple, *frozen) + (has_unreported(tuple) ? kUnreportedKept : Millis(0)) > now) {
    thaw(tuple, *frozen);
    return false;
  }
  retire(index);
  expired_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// The tuple may have been charged since it was chosen: checks again after the freeze.
void Table::evict(size_t index) {
  const Tuple tuple = tuple_at(index);
  const auto frozen = freeze(tuple);
  if (!frozen) return;
  if (!fully_acked(tuple, *frozen)) {
    thaw(tuple, *frozen);
    return;
  }
  if (on_evict_) on_evict_(tuple, *frozen);
  retire(index);
  evicted_.fetch_add(1, std::memory_order_relaxed);
}

// Unpublishes a frozen tuple. Readers that found it may finish.
void Table::retire(size_t index) {
  set_control(index, kRetired);
  retired_at_[index] = epoch::retire_epoch();
  tuples_.fetch_sub(1, std::memory_order_relaxed);
}

// Needs a slot without readers.
void Table::destroy(size_t index) {
  release(budget_, owned_bytes(slots_[index]));
  destroy_state(slots_[index]);
}

// Frees the memory of a retired slot whose epoch is reclaimable.
void Table::reclaim(size_t index) {
  if (control(index) != kRetired) return;
  const base::MutexLock lock(stripes_[index / kBucketSlots % kStripes]);
  if (control(index) != kRetired) return;
  if (!epoch::is_reclaimable(retired_at_[index])) return;
  destroy(index);
  set_control(index, kEmpty);
}

size_t Table::sweep(WallTime now, size_t slots) {
  constexpr size_t kAhead = 8;
  const size_t all = this->slots();
  const auto after = [all](size_t index) { return index + 1 == all ? 0 : index + 1; };
  size_t index = sweep_at_.fetch_add(slots, std::memory_order_relaxed) % all;
  // What the call before this one retired.
  size_t retired = (index + all - slots % all) % all;
  size_t swept = 0;
  for (; slots > 0; --slots, index = after(index), retired = after(retired)) {
    reclaim(retired);
    const size_t soon = index + kAhead < all ? index + kAhead : index;
    if (control(soon) != kEmpty) prefetch_at(soon);
    if (!may_expire(index, now)) continue;
    const base::MutexLock lock(stripes_[index / kBucketSlots % kStripes]);
    const uint8_t state = control(index);
    if (state != kEmpty && state != kRetired && expire(index, now)) ++swept;
  }
  return swept;
}

TableStats Table::stats() const {
  return {.tuples = tuples_.load(std::memory_order_relaxed),
          .evicted = evicted_.load(std::memory_order_relaxed),
          .expired = expired_.load(std::memory_order_relaxed),
          .rebuilt = rebuilt_.load(std::memory_order_relaxed),
          .bytes = control_pages_.bytes() + slot_pages_.bytes() + cold_pages_.bytes() +
                   retired_at_pages_.bytes()};
}

}  // namespace weir::memory
