// The floor: what memory alone costs.
//
// Touches the cache lines that a decision touches and does nothing else: the control
// bytes of the key's bucket (of both buckets, if the key lives in its second), the line
// with the key, which is read, and the line with the counts, which is read and written.
// There are as many slots and buckets as in a limiter of the same capacity, on the same
// pages, keys are placed by the same rule, and requests come in the same order. The
// places are computed beforehand and streamed in, so no key is read, hashed or compared.

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

// Where one request finds its tuple.
struct Place {
  uint32_t first = 0;   // bucket
  uint32_t second = 0;  // bucket
  uint32_t slot = 0;
};

class Ground {
 public:
  [[nodiscard]] static Ground& shared() {
    static Ground ground;
    return ground;
  }

  [[nodiscard]] const Place& place(size_t at) const { return places_[at]; }

  void prefetch_control(const Place& place) const {
    __builtin_prefetch(&buckets_[place.first]);
    __builtin_prefetch(&buckets_[place.second]);
  }
  void prefetch_slot(const Place& place) const {
    const Slot& slot = slots_[slot_of(place)];
    __builtin_prefetch(&slot.hot, 1);
    __builtin_prefetch(&slot.key);
  }
  // Returns 0, but nobody knows before all three lines have arrived.
  uint64_t touch(const Place& place) const {
    Slot& slot = slots_[slot_of(place)];
    const uint64_t seen = slot.key[0] + slot.hot[1]++;
    return seen & zero_;
  }

 private:
  Ground();

  // As in a look-up, the slot is known when the control bytes have arrived.
  [[nodiscard]] size_t slot_of(const Place& place) const {
    const uint64_t seen =
        buckets_[place.first].control[0] + buckets_[place.slot / kBucketSlots].control[1];
    return place.slot + (seen & zero_);
  }

  platform::Pages bucket_pages_, slot_pages_;
  Bucket* buckets_ = nullptr;
  Slot* slots_ = nullptr;
  std::vector<Place> places_;
  uint64_t zero_ = 0;
};

Ground::Ground() {
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
  std::vector<Place> homes(kKeys);
  for (uint64_t key = 0; key < kKeys; ++key) {
    const auto both = table.buckets_of(hash(&key, 1, 0));
    const size_t bucket =
        memory::Table::preferred_bucket(both, [&](size_t which) { return used[which]; });
    const size_t slot = bucket * kBucketSlots + std::min(used[bucket]++, kBucketSlots - 1);
    homes[key] = {.first = static_cast<uint32_t>(both.first),
                  .second = static_cast<uint32_t>(both.second),
                  .slot = static_cast<uint32_t>(slot)};
  }
  const Requests& requests = Requests::shared();
  places_.resize(kRequests);
  for (size_t at = 0; at < kRequests; ++at) places_[at] = homes[requests.key(at)];
  benchmark::DoNotOptimize(zero_);
}

void one_at_a_time(benchmark::State& state) {
  const Ground& ground = Ground::shared();
  walk(state, kChunk, [&](size_t at) {
    for (size_t i = 0; i < kChunk; ++i) at += 1 + ground.touch(ground.place(at));
    return at;
  });
}

void overlapping(benchmark::State& state) {
  const Ground& ground = Ground::shared();
  uint64_t seen = 0;
  walk(state, kChunk, [&](size_t at) {
    for (size_t i = 0; i < kChunk; ++i) seen += ground.touch(ground.place(at + i));
    return at + kChunk;
  });
  benchmark::DoNotOptimize(seen);
}

// The three passes of Limiter::check_each.
void batches(benchmark::State& state) {
  const Ground& ground = Ground::shared();
  uint64_t seen = 0;
  walk(state, kGroup, [&](size_t at) {
    for (size_t i = 0; i < kGroup; ++i) ground.prefetch_control(ground.place(at + i));
    for (size_t i = 0; i < kGroup; ++i) ground.prefetch_slot(ground.place(at + i));
    for (size_t i = 0; i < kGroup; ++i) seen += ground.touch(ground.place(at + i));
    return at + kGroup;
  });
  benchmark::DoNotOptimize(seen);
}

}  // namespace

void add_touch() {
  add("many_keys/touch/one_at_a_time", one_at_a_time);
  add("many_keys/touch/overlapping", overlapping);
  add("many_keys/touch/batches", batches)->Threads(1)->Threads(2);
}

}  // namespace weir::bench
