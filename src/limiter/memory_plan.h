// How many tuples a limiter holds and how many bytes it may take, where options give one, both or
// none of them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "memory/byte_budget.h"
#include "weir/error.h"
#include "weir/options.h"

namespace weir::limiter {

struct MemoryPlan {
  size_t capacity = 0;  // tuples
  uint64_t memory = 0;  // bytes
};

// What the two are to each other where one is not given. Tuples that other regions count on have an
// entry in the book, too, of some 620 bytes.
inline constexpr uint64_t kBytesPerTuple = 1024;
inline constexpr uint64_t kBytesPerSharedTuple = 2048;
inline constexpr size_t kLeastCapacity = 64;
inline constexpr size_t kMostCapacity = size_t{1} << 28;

struct MemoryWish {
  size_t capacity = 0;        // 0: not given
  uint64_t memory = 0;        // 0: not given
  size_t usual_capacity = 0;  // if neither is given
  bool has_ledger = false;
};
[[nodiscard]] MemoryPlan memory_plan(const MemoryWish& wish);
[[nodiscard]] MemoryPlan memory_plan(const Options& options);
// The same, but ends the process if the memory is too small.
[[nodiscard]] MemoryPlan sound_memory_plan(const Options& options);

// Pages of the two sketches that are theirs whatever else takes memory: durations counted at a
// time. One of each is for all durations that find no other.
inline constexpr size_t kAssuredPages = 5;
inline constexpr size_t kAssuredForgottenPages = 2;

// The parts of fixed size: table, assured pages of the sketches, and the lists of slots that an
// origin and a ledger need.
[[nodiscard]] uint64_t least_memory(size_t capacity);

[[nodiscard]] std::optional<Error> error_in(const MemoryPlan& plan);

// Of what the fixed parts leave, annexes get three quarters at most: logs cannot take the room of
// long names and of other regions' counts.
void bound_buffers(memory::ByteBudget& budget, const MemoryPlan& plan);

}  // namespace weir::limiter
