// The baseline: the cost of memory access alone.
//
// Accesses the cache lines of a decision and does nothing else: reads the control bytes of the
// key's bucket (of both buckets, if the key is in the second), reads the line with the key, and
// reads and writes the line with the counts. The number of slots and buckets, the page size, the
// placement of keys and the order of requests are those of a limiter with the same capacity. The
// locations are computed in advance and read sequentially: no key is read, hashed or compared.

#include <algorithm>
#include <vector>

#include "base/keyed_hash.h"
#include "bench/harness.h"
#include "bench/suites.h"
#include "memory/table.h"
#include "platform/pages.h"

namespace weir::bench {
namespace {

constexpr size_t kGroup = 16;
using memory::kBucketSlots;

struct Bucket {
  uint64_t control[kBucketSlots / 8];
};

struct Slot {
  uint64_t hot[8];
  uint64_t key[8];
};
static_assert(sizeof(Slot) == sizeof(memory::Slot));

// The location of the tuple of one request.
struct Location {
  uint32_t first = 0;   // bucket
  uint32_t second = 0;  // bucket
  uint32_t slot = 0;
};

class MemoryLayout {
 public:
  [[nodiscard]] static MemoryLayout& shared() {
    static MemoryLayout layout;
    return layout;
  }

  [[nodiscard]] const Location& location(size_t at) const { return locations_[at]; }

  void prefetch_control(const Location& location) const {
    __builtin_prefetch(&buckets_[location.first]);
    __builtin_prefetch(&buckets_[location.second]);
  }
  void prefetch_slot(const Location& location) const {
    const Slot& slot = slots_[slot_of(location)];
    __builtin_prefetch(&slot.hot, 1);
    __builtin_prefetch(&slot.key);
  }
  // Returns 0; the processor must load all three lines to compute it.
  uint64_t touch(const Location& location) const {
    Slot& slot = slots_[slot_of(location)];
    const uint64_t loaded = slot.key[0] + slot.hot[1]++;
    return loaded & zero_;
  }

 private:
  MemoryLayout();

  // As in a lookup, the slot depends on the control bytes.
  [[nodiscard]] size_t slot_of(const Location& location) const {
    const uint64_t loaded =
        buckets_[location.first].control[0] + buckets_[location.slot / kBucketSlots].control[1];
    return location.slot + (loaded & zero_);
  }

  platform::Pages bucket_pages_, slot_pages_;
  Bucket* buckets_ = nullptr;
  Slot* slots_ = nullptr;
  std::vector<Location> locations_;
  uint64_t zero_ = 0;
};

MemoryLayout::MemoryLayout() {
  const memory::Table table(kKeys, memory::Scope::kProcess);
  const size_t slots = table.slots();
  const size_t buckets = slots / kBucketSlots;
  bucket_pages_ = platform::Pages(buckets * sizeof(Bucket));
  slot_pages_ = platform::Pages(slots * sizeof(Slot));
  buckets_ = bucket_pages_.as<Bucket>();
  slots_ = slot_pages_.as<Slot>();
  for (size_t i = 0; i < buckets; ++i) buckets_[i].control[0] = i;
  for (size_t i = 0; i < slots; ++i) slots_[i].hot[0] = i;

  const base::KeyedHash hash(1);
  std::vector<size_t> used(buckets);
  std::vector<Location> key_locations(kKeys);
  for (uint64_t key = 0; key < kKeys; ++key) {
    const auto both = table.buckets_of(hash(&key, 1, 0));
    const size_t bucket =
        memory::Table::preferred_bucket(both, [&](size_t which) { return used[which]; });
    const size_t slot = bucket * kBucketSlots + std::min(used[bucket]++, kBucketSlots - 1);
    key_locations[key] = {.first = static_cast<uint32_t>(both.first),
                          .second = static_cast<uint32_t>(both.second),
                          .slot = static_cast<uint32_t>(slot)};
  }
  const Requests& requests = Requests::shared();
  locations_.resize(kRequests);
  for (size_t at = 0; at < kRequests; ++at) locations_[at] = key_locations[requests.key(at)];
  benchmark::DoNotOptimize(zero_);
}

void one_at_a_time(benchmark::State& state) {
  const MemoryLayout& layout = MemoryLayout::shared();
  for_each_chunk(state, kChunk, [&](size_t at) {
    for (size_t i = 0; i < kChunk; ++i) at += 1 + layout.touch(layout.location(at));
    return at;
  });
}

void overlapping(benchmark::State& state) {
  const MemoryLayout& layout = MemoryLayout::shared();
  uint64_t sum = 0;
  for_each_chunk(state, kChunk, [&](size_t at) {
    for (size_t i = 0; i < kChunk; ++i) sum += layout.touch(layout.location(at + i));
    return at + kChunk;
  });
  benchmark::DoNotOptimize(sum);
}

// The three passes of Limiter::check_each.
void batches(benchmark::State& state) {
  const MemoryLayout& layout = MemoryLayout::shared();
  uint64_t sum = 0;
  for_each_chunk(state, kGroup, [&](size_t at) {
    for (size_t i = 0; i < kGroup; ++i) layout.prefetch_control(layout.location(at + i));
    for (size_t i = 0; i < kGroup; ++i) layout.prefetch_slot(layout.location(at + i));
    for (size_t i = 0; i < kGroup; ++i) sum += layout.touch(layout.location(at + i));
    return at + kGroup;
  });
  benchmark::DoNotOptimize(sum);
}

}  // namespace

void add_memory_access() {
  add("many_keys/touch/one_at_a_time", one_at_a_time);
  add("many_keys/touch/overlapping", overlapping);
  add("many_keys/touch/batches", batches)->Threads(1)->Threads(2);
}

}  // namespace weir::bench
