// What one tuple costs in memory, all in.

#pragma once

#include <cstdint>
#include <optional>

namespace weir::bench {

struct MemoryUse {
  uint64_t tuples = 0;          // held in the end
  uint64_t sketched = 0;        // decisions that found no place in the table
  uint64_t resident_bytes = 0;  // what the process grew by
  uint64_t reserved_bytes = 0;  // what the table reserved; 0 for a peer
  [[nodiscard]] double bytes_per_tuple() const {
    return tuples == 0 ? 0 : static_cast<double>(resident_bytes) / static_cast<double>(tuples);
  }
};

struct MemoryUses {
  MemoryUse weir, map, rate;
};

// Fills each contestant with one million identifiers of 40 bytes, in a process of its
// own. To be called while this process has one thread. Nothing, if a child failed.
[[nodiscard]] std::optional<MemoryUses> measure_memory();

}  // namespace weir::bench
