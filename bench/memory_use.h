// Memory per tuple, including all overhead.

#pragma once

#include <cstdint>
#include <optional>

namespace weir::bench {

struct MemoryUse {
  uint64_t tuples = 0;          // in the table at the end
  uint64_t sketched = 0;        // decisions that the sketch made
  uint64_t resident_bytes = 0;  // growth of the process
  uint64_t reserved_bytes = 0;  // by the table; 0 for a peer
  [[nodiscard]] double bytes_per_tuple() const {
    return tuples == 0 ? 0 : static_cast<double>(resident_bytes) / static_cast<double>(tuples);
  }
};

struct MemoryUses {
  MemoryUse weir, map, rate;
};

// Fills Weir and each peer with one million identifiers of 40 bytes, each in a child process. Call
// it while this process has one thread. Empty if a child failed.
[[nodiscard]] std::optional<MemoryUses> measure_memory();

}  // namespace weir::bench
