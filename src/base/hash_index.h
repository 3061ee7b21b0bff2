// Things found by a hash that they were given: one array, searched from the hash on.
//
// Beside a thing's hash stands only where it is, so that a search that fails touches little else;
// a thing of the same hash is told apart by who asks. Things stay where they are.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace weir::base {

// One thread at a time. Hashes should differ in their low bits.
template <typename Thing>
class HashIndex {
 public:
  // The one of that hash of which `is` is true.
  template <typename Is>
  [[nodiscard]] Thing* find(uint64_t hash, const Is& is) const {
    if (slots_.empty()) return nullptr;
    for (size_t i = home_of(hash); slots_[i].thing; i = after(i)) {
      if (slots_[i].hash == hash && is(*slots_[i].thing)) return slots_[i].thing.get();
    }
    return nullptr;
  }

  // To be called for what find() does not find.
  Thing& add(uint64_t hash, std::unique_ptr<Thing> thing) {
    if (4 * (size_ + 1) > 3 * slots_.size()) grow();
    ++size_;
    return *put({hash, std::move(thing)});
  }

  void erase(uint64_t hash, const Thing& thing) {
    size_t hole = home_of(hash);
    while (slots_[hole].thing.get() != &thing) hole = after(hole);
    slots_[hole] = {};
    --size_;
    // What was pushed beyond its home by what stood here moves up.
    for (size_t i = after(hole); slots_[i].thing; i = after(i)) {
      const size_t from_home = (i - home_of(slots_[i].hash)) & mask();
      if (from_home < ((i - hole) & mask())) continue;
      slots_[hole] = std::exchange(slots_[i], {});
      hole = i;
    }
  }

  template <typename Visit>
  void for_each(const Visit& visit) {
    for (Slot& slot : slots_) {
      if (slot.thing) visit(*slot.thing);
    }
  }

  [[nodiscard]] size_t size() const { return size_; }

 private:
  struct Slot {
    uint64_t hash = 0;
    std::unique_ptr<Thing> thing = {};
  };

  [[nodiscard]] size_t mask() const { return slots_.size() - 1; }
  [[nodiscard]] size_t home_of(uint64_t hash) const { return static_cast<size_t>(hash) & mask(); }
  [[nodiscard]] size_t after(size_t i) const { return (i + 1) & mask(); }

  Thing* put(Slot slot) {
    size_t i = home_of(slot.hash);
    while (slots_[i].thing) i = after(i);
    slots_[i] = std::move(slot);
    return slots_[i].thing.get();
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
    old.swap(slots_);
    for (Slot& slot : old) {
      if (slot.thing) put(std::move(slot));
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, at most three quarters in use
  size_t size_ = 0;
};

}  // namespace weir::base
