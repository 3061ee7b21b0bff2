// Namespaces that requests have named and that do not exist yet, on their way from the request
// threads to the thread of the catalog.
//
// A request must wait neither for the database nor for another request. So it claims one of a fixed
// number of slots by compare-and-swap, and gives up if a few are taken: the next request with the
// name tries again. A claim is the hash of the names, and stays until the namespace was written.
// Requests with the same name see it and add nothing.
//
// add() is safe from any thread; drain() and release() run on one thread.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::catalog {

class CreationQueue {
 public:
  static constexpr size_t kSlots = 128;
  static constexpr size_t kMaxProbes = 16;

  struct Creation {
    std::string workspace;
    std::string name;
    std::string actor;  // as in AuditEntry
  };
  // What drain() has taken; the slots stay claimed until release().
  struct Drained {
    std::vector<Creation> creations;
    std::vector<size_t> slots;
  };

  // True: it was added, and drain() must be called. False: it waits already, or there is no place.
  bool add(std::string_view workspace, std::string_view name, std::string_view actor) {
    const uint64_t claim = claim_of(workspace, name);
    for (size_t probe = 0; probe < kMaxProbes; ++probe) {
      Slot& slot = slots_[(claim + probe) % kSlots];
      uint64_t found = slot.claim.load(std::memory_order_relaxed);
      // Acquire: release() has finished with the texts of the slot.
      if (found == 0 && slot.claim.compare_exchange_strong(found, claim, std::memory_order_acquire,
                                                           std::memory_order_relaxed)) {
        slot.creation.workspace = workspace;
        slot.creation.name = name;
        slot.creation.actor = actor;
        slot.filled.store(true, std::memory_order_release);  // publishes the texts
        return true;
      }
      if (found == claim) return false;
    }
    return false;
  }

  [[nodiscard]] Drained drain() {
    Drained drained;
    for (size_t i = 0; i < kSlots; ++i) {
      Slot& slot = slots_[i];
      if (!slot.filled.load(std::memory_order_acquire)) continue;  // pairs with add()
      slot.filled.store(false, std::memory_order_relaxed);
      drained.creations.push_back(std::move(slot.creation));
      drained.slots.push_back(i);
    }
    return drained;
  }

  void release(const Drained& drained) {
    // Release: the next owner of a slot comes after drain().
    for (const size_t i : drained.slots) slots_[i].claim.store(0, std::memory_order_release);
  }

 private:
  struct Slot {
    std::atomic<uint64_t> claim{0};
    std::atomic<bool> filled{false};
    Creation creation;
  };

  // Not 0.
  [[nodiscard]] static uint64_t claim_of(std::string_view workspace, std::string_view name) {
    const std::hash<std::string_view> hash;
    return (hash(name) + 31 * hash(workspace)) | uint64_t{1} << 63;
  }

  std::array<Slot, kSlots> slots_;
};

}  // namespace weir::catalog
