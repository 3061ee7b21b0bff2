#include "lab/state_bytes.h"

#include <cstdlib>

#include "algorithms/strict_ring.h"
#include "memory/byte_budget.h"
#include "memory/log_cell.h"
#include "memory/ring_cell.h"
#include "memory/table.h"

namespace weir::lab {

uint64_t weir_bytes(Algorithm algorithm, Count limit) {
  constexpr size_t kCapacity = size_t{1} << 20;  // of the default settings of a server
  const uint64_t slot = memory::Table::bytes_for(kCapacity) / kCapacity;
  switch (algorithm) {
    case Algorithm::kSlidingWindowStrict:
      return slot + memory::heap_bytes(sizeof(memory::RingBuffer));
    case Algorithm::kSlidingLog:
      return slot + memory::heap_bytes(memory::log_buffer_units(limit) * sizeof(memory::Word));
    default: return slot;
  }
}

uint64_t minimal_bytes(Algorithm algorithm, Count entries) {
  constexpr uint64_t kWord = 8;
  switch (algorithm) {
    case Algorithm::kFixedWindow: return 2 * kWord;
    case Algorithm::kSlidingWindow: return 3 * kWord;
    case Algorithm::kSlidingWindowStrict: return (1 + algorithms::kRingCells) * kWord;
    case Algorithm::kSlidingLog: return entries * kWord;
    case Algorithm::kGcra: return kWord;
    case Algorithm::kTokenBucket: return 2 * kWord;
  }
  std::abort();
}

}  // namespace weir::lab
