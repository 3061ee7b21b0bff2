// How many tuples a limiter holds and how many bytes it may use, where the options give one, both
// or neither of the two.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "memory/byte_budget.h"
#include "weir/error.h"
#include "weir/options.h"

namespace weir::memory {

struct MemoryPlan {
  size_t capacity = 0;  // tuples
  uint64_t memory = 0;  // bytes
};

// The ratio of the two where only one is given. A tuple that other regions count on also has an
// entry in SharedTuples, of about 620 bytes.
inline constexpr uint64_t kBytesPerTuple = 1024;
inline constexpr uint64_t kBytesPerSharedTuple = 2048;
inline constexpr size_t kMinCapacity = 64;
inline constexpr size_t kMaxCapacity = size_t{1} << 28;

struct MemorySettings {
  size_t capacity = 0;          // 0: not given
  uint64_t memory = 0;          // 0: not given
  size_t default_capacity = 0;  // if neither is given
  bool has_ledger = false;
};
[[nodiscard]] MemoryPlan memory_plan(const MemorySettings& settings);
[[nodiscard]] MemoryPlan memory_plan(const Options& options);
// The same, but ends the process if the memory is too small.
[[nodiscard]] MemoryPlan checked_memory_plan(const Options& options);

// Pages reserved for each of the two sketches. One page counts one duration at a time; one page of
// each sketch is for all durations that have no page of their own.
inline constexpr size_t kAssuredPages = 5;
inline constexpr size_t kAssuredEvictedPages = 2;

// The parts of fixed size: the table, the reserved pages of the sketches, and the lists of slots
// that an origin and a ledger need.
[[nodiscard]] uint64_t min_memory(size_t capacity);

[[nodiscard]] std::optional<Error> error_in(const MemoryPlan& plan);

// Limits annexes to three quarters of the memory beside the fixed parts, so that logs cannot use
// the space of long names and of other regions' counts.
void limit_annexes(ByteBudget& budget, const MemoryPlan& plan);

}  // namespace weir::memory
