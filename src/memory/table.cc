#include "memory/table.h"

#include <cstring>
#include <mutex>
#include <new>

#include "base/check.h"
#include "memory/log_cell.h"
#include "memory/mark.h"
#include "memory/owned_bytes.h"

namespace weir::memory {

// Holds the locks of both buckets of a tuple, always taken in the same order.
class Table::Locked {
 public:
  Locked(Table& table, const Buckets& buckets) {
    size_t low = buckets.first % kStripes;
    size_t high = buckets.second % kStripes;
    if (low > high) std::swap(low, high);
    low_ = std::unique_lock(table.stripes_[low]);
    if (high != low) high_ = std::unique_lock(table.stripes_[high]);
  }

 private:
  std::unique_lock<base::Mutex> low_, high_;
};

// 22 % more slots than tuples: with that, and the choice of preferred_bucket(),
// none of twenty tables of a million tuples left one without a place.
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
      ticket_pages_(buckets_ * kBucketSlots * sizeof(uint64_t)),
      control_(control_pages_.as<base::Atomic<uint64_t>>()),
      slots_(slot_pages_.as<Slot>()),
      cold_(cold_pages_.as<Cold>()),
      retired_at_(ticket_pages_.as<uint64_t>()) {
  WEIR_CHECK(buckets_ < (size_t{1} << 32) / kBucketSlots);
  if (budget_ != nullptr) budget_->take(Part::kTable, bytes_for(capacity));
}

Table::~Table() {
  for (size_t i = 0; i < slots(); ++i) {
    if (control(i) != kEmpty) end(i);
  }
  if (budget_ != nullptr) budget_->give_back(Part::kTable, stats().bytes);
}

uint8_t Table::control(size_t index) const {
  const uint64_t word = control_[index / 8].load(std::memory_order_seq_cst);
  return static_cast<uint8_t>(word >> (index % 8 * 8));
}

void Table::set_control(size_t index, uint8_t value) {
  // Only the holder of the bucket's lock writes this word.
  uint64_t word = control_[index / 8].load(std::memory_order_relaxed);
  const size_t shift = index % 8 * 8;
  word = (word & ~(uint64_t{0xff} << shift)) | uint64_t{value} << shift;
  control_[index / 8].store(word, std::memory_order_seq_cst);
}

Tuple Table::at(uint32_t index) const {
  const uint8_t state = control(index);
  return state == kEmpty || state == kLimbo ? Tuple{} : tuple_at(index);
}

Created Table::create(const TupleKey& key, const Query& query, const Making& making) {
  const Locked locked(*this, buckets_of(key.hash()));
  if (find(key) && !mutated(Mutation::kCreatedTwice)) return Created::kPresent;
  if (making.forbidden && making.forbidden()) return Created::kFull;
  return place(key, query, nullptr, making);
}

bool Table::while_absent(const TupleKey& key, const std::function<void()>& work) {
  const Locked locked(*this, buckets_of(key.hash()));
  if (find(key)) return false;
  work();
  return true;
}

// The slot a rebuilt tuple moves out of.
struct Table::Predecessor {
  Tuple tuple;
  Frozen frozen;
};

Created Table::rebuild(const TupleKey& key, const Query& query, const Making& making) {
  const Locked locked(*this, buckets_of(key.hash()));
  const Tuple old = find(key);
  if (!old) {
    if (making.forbidden && making.forbidden()) return Created::kFull;
    return place(key, query, nullptr, making);
  }
  if (fits(old, query)) return Created::kPresent;
  const auto frozen = freeze(old);
  if (!frozen) return Created::kFull;  // a batch is at work on it
  const Predecessor predecessor{.tuple = old, .frozen = *frozen};
  const Created created = place(key, query, &predecessor, making);
  if (created == Created::kYes) {
    rebuilt_.fetch_add(1, std::memory_order_relaxed);
  } else if (created == Created::kNoMemory && !carries_over(old, *frozen, query)) {
    hide(old.index);
  } else {
    const bool is_log = old.slot->header.cell_class() == CellClass::kLog;
    if (created == Created::kNoMemory && is_log) LogCell(old).put_off_growth(query.now);
    thaw(old, *frozen);
    if (!is_log) return Created::kFull;
  }
  return created;
}

Forgotten Table::forget(const TupleKey& key, WallTime now) {
  const Locked locked(*this, buckets_of(key.hash()));
  const Tuple tuple = find(key);
  if (!tuple) return Forgotten::kAbsent;
  const auto frozen = freeze(tuple);
  if (!frozen) return Forgotten::kBusy;
  const bool expired = expires_at(tuple, *frozen) <= now;
  hide(tuple.index);
  return expired ? Forgotten::kAbsent : Forgotten::kYes;
}

bool Table::has_memory_for(const TupleKey& key, const Query& query) const {
  return has_room(budget_, owned_bytes(key.header(), query));
}

// Fills a free slot and publishes it.
Created Table::place(const TupleKey& key, const Query& query, const Predecessor* predecessor,
                     const Making& making) {
  const OwnedBytes bytes = owned_bytes(key.header(), query);
  if (!reserve(budget_, bytes)) return Created::kNoMemory;
  size_t index = 0;
  if (!free_slot(buckets_of(key.hash()), query.now, index)) {
    give_back(budget_, bytes);
    return Created::kFull;
  }
  const Tuple tuple = tuple_at(index);
  tuple.slot->header = key.header();
  uint64_t* words = tuple.slot->key;
  if (key.word_count() > kInlineKeyWords) {
    words = new uint64_t[key.word_count()];
    tuple.slot->key[0] = reinterpret_cast<uint64_t>(words);
  }
  std::memcpy(words, key.words(), key.word_count() * sizeof(uint64_t));
  Birth birth = next_birth();
  if (mutated(Mutation::kGenerationKept))
    birth.generation = key.hash() & TupleWatch::kGenerationMask;
  if (predecessor != nullptr) {
    begin_from(predecessor->tuple, predecessor->frozen, tuple, query, birth);
    // First hidden, then published: a reader in between finds neither and waits here.
    hide(predecessor->tuple.index);
  } else {
    begin_state(tuple, query, birth);
  }
  if (making.prepare) making.prepare(tuple);
  set_control(index, fragment_of(key.hash()));
  tuples_.fetch_add(1, std::memory_order_relaxed);
  return Created::kYes;
}

// Where only other regions count too, there is nobody to ask before a decision and nobody to be
// told after it: a tuple is fresh for ever, and dirty for ever, so that it is never listed.
Birth Table::next_birth() {
  constexpr uint64_t kFreshForEver = ~uint64_t{1};
  Birth birth{.generation = generation_.fetch_add(1, std::memory_order_relaxed)};
  if (scope_ == Scope::kGlobal) {
    birth.freshness = kFreshForEver;
    birth.marks = TupleWatch::kDirty;
  }
  return birth;
}

size_t Table::occupied(size_t bucket) const {
  size_t count = 0;
  for (size_t i = 0; i < kBucketSlots; ++i) count += control(bucket * kBucketSlots + i) != kEmpty;
  return count;
}

bool Table::free_slot(const Buckets& buckets, WallTime now, size_t& index) {
  const size_t preferred =
      preferred_bucket(buckets, [this](size_t bucket) { return occupied(bucket); });
  const size_t other = preferred == buckets.first ? buckets.second : buckets.first;
  if (reusable_slot(preferred, index) || reusable_slot(other, index)) return true;
  make_room(buckets, now);
  return reusable_slot(preferred, index) || reusable_slot(other, index);
}

bool Table::reusable_slot(size_t bucket, size_t& index) {
  for (size_t i = bucket * kBucketSlots; i < (bucket + 1) * kBucketSlots; ++i) {
    const uint8_t state = control(i);
    const bool over = state == kLimbo && epoch::is_reclaimable(retired_at_[i]);
    if (over) end(i);
    if (over || state == kEmpty) {
      index = i;
      return true;
    }
  }
  return false;
}

// Hides what has expired in the two buckets; if nothing has, the emptiest tuple whose
// counts are safe elsewhere.
void Table::make_room(const Buckets& buckets, WallTime now) {
  bool room = false;
  uint64_t emptiest = kWhole;
  size_t victim = slots();
  for (const size_t bucket : {buckets.first, buckets.second}) {
    for (size_t i = bucket * kBucketSlots; i < (bucket + 1) * kBucketSlots; ++i) {
      if (control(i) == kLimbo) continue;
      if (expire(i, now)) {
        room = true;
      } else if (scope_ == Scope::kRegion && safe_elsewhere(tuple_at(i))) {
        const uint64_t full = fullness(tuple_at(i), now);
        if (full < emptiest) emptiest = full, victim = i;
      }
    }
  }
  if (!room && victim != slots()) evict(victim);
}

// Expired only if still so once no admission can land any more.
bool Table::expire(size_t index, WallTime now) {
  const Tuple tuple = tuple_at(index);
  if (expires_at(tuple) > now) return false;
  const auto frozen = freeze(tuple);
  if (!frozen) return false;
  if (expires_at(tuple, *frozen) > now) {
    thaw(tuple, *frozen);
    return false;
  }
  hide(index);
  expired_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// An admission may have landed since it was chosen: looks again once none can.
void Table::evict(size_t index) {
  const Tuple tuple = tuple_at(index);
  const auto frozen = freeze(tuple);
  if (!frozen) return;
  if (!safe_elsewhere(tuple, *frozen)) {
    thaw(tuple, *frozen);
    return;
  }
  if (on_evict_) on_evict_(tuple, *frozen);
  hide(index);
  evicted_.fetch_add(1, std::memory_order_relaxed);
}

// The tuple is frozen: nothing is charged to it any more. Readers that found it are let
// finish.
void Table::hide(size_t index) {
  set_control(index, kLimbo);
  retired_at_[index] = epoch::retire_epoch();
  tuples_.fetch_sub(1, std::memory_order_relaxed);
}

// No reader can be left.
void Table::end(size_t index) {
  give_back(budget_, owned_bytes(slots_[index]));
  end_state(slots_[index]);
}

// A hidden slot whose grace period is over keeps nothing.
void Table::release(size_t index) {
  if (control(index) != kLimbo) return;
  const std::lock_guard lock(stripes_[index / kBucketSlots % kStripes]);
  if (control(index) != kLimbo) return;
  if (!epoch::is_reclaimable(retired_at_[index])) return;
  end(index);
  set_control(index, kEmpty);
}

size_t Table::sweep(WallTime now, size_t slots) {
  const size_t all = this->slots();
  const size_t call = slots % all;
  size_t swept = 0;
  for (; slots > 0; --slots) {
    const size_t index = sweep_at_.fetch_add(1, std::memory_order_relaxed) % all;
    release((index + all - call) % all);
    const uint8_t state = control(index);
    if (state == kEmpty || state == kLimbo) continue;
    const std::lock_guard lock(stripes_[index / kBucketSlots % kStripes]);
    const uint8_t now_state = control(index);
    if (now_state != kEmpty && now_state != kLimbo && expire(index, now)) ++swept;
  }
  return swept;
}

TableStats Table::stats() const {
  return {.tuples = tuples_.load(std::memory_order_relaxed),
          .evicted = evicted_.load(std::memory_order_relaxed),
          .expired = expired_.load(std::memory_order_relaxed),
          .rebuilt = rebuilt_.load(std::memory_order_relaxed),
          .bytes = control_pages_.bytes() + slot_pages_.bytes() + cold_pages_.bytes() +
                   ticket_pages_.bytes()};
}

}  // namespace weir::memory
