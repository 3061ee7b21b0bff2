// A hash table of owned objects with open addressing and linear probing.
//
// The table stores only the hash and a pointer of each entry, so that a failed search touches
// little memory. The caller compares entries with equal hashes. Entries never move in memory.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace weir::base {

// One thread at a time. Hashes should differ in their low bits.
template <typename Entry>
class HashIndex {
 public:
  // The entry with this hash for which `is` returns true, or null.
  template <typename Is>
  [[nodiscard]] Entry* find(uint64_t hash, const Is& is) const {
    if (slots_.empty()) return nullptr;
    for (size_t i = home_of(hash); slots_[i].entry; i = after(i)) {
      if (slots_[i].hash == hash && is(*slots_[i].entry)) return slots_[i].entry.get();
    }
    return nullptr;
  }

  // Only for an entry that find() does not find.
  Entry& add(uint64_t hash, std::unique_ptr<Entry> entry) {
    if (4 * (size_ + 1) > 3 * slots_.size()) grow();
    ++size_;
    return *put({hash, std::move(entry)});
  }

  void erase(uint64_t hash, const Entry& entry) {
    size_t hole = home_of(hash);
    while (slots_[hole].entry.get() != &entry) hole = after(hole);
    slots_[hole] = {};
    --size_;
    // Moves later entries of the probe sequence into the hole.
    for (size_t i = after(hole); slots_[i].entry; i = after(i)) {
      const size_t from_home = (i - home_of(slots_[i].hash)) & mask();
      if (from_home < ((i - hole) & mask())) continue;
      slots_[hole] = std::exchange(slots_[i], {});
      hole = i;
    }
  }

  template <typename Visit>
  void for_each(const Visit& visit) {
    for (Slot& slot : slots_) {
      if (slot.entry) visit(*slot.entry);
    }
  }

  [[nodiscard]] size_t size() const { return size_; }

 private:
  struct Slot {
    uint64_t hash = 0;
    std::unique_ptr<Entry> entry = {};
  };

  [[nodiscard]] size_t mask() const { return slots_.size() - 1; }
  [[nodiscard]] size_t home_of(uint64_t hash) const { return static_cast<size_t>(hash) & mask(); }
  [[nodiscard]] size_t after(size_t i) const { return (i + 1) & mask(); }

  Entry* put(Slot slot) {
    size_t i = home_of(slot.hash);
    while (slots_[i].entry) i = after(i);
    slots_[i] = std::move(slot);
    return slots_[i].entry.get();
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
    old.swap(slots_);
    for (Slot& slot : old) {
      if (slot.entry) put(std::move(slot));
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, at most three quarters in use
  size_t size_ = 0;
};

}  // namespace weir::base
