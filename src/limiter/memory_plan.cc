#include "limiter/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "memory/dirty_list.h"
#include "memory/sketch.h"
#include "memory/table.h"
#include "weir/limiter.h"

namespace weir::limiter {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// The largest capacity whose fixed parts fit, or 0.
size_t most_capacity(uint64_t memory) {
  size_t fits = 0;
  size_t beyond = kMostCapacity + 1;
  while (beyond - fits > 1) {
    const size_t middle = fits + (beyond - fits) / 2;
    (least_memory(middle) <= memory ? fits : beyond) = middle;
  }
  return fits >= kLeastCapacity ? fits : 0;
}

}  // namespace

MemoryPlan memory_plan(const MemoryWish& wish) {
  const uint64_t each = wish.has_ledger ? kBytesPerSharedTuple : kBytesPerTuple;
  MemoryPlan plan{.capacity = wish.capacity, .memory = wish.memory};
  if (plan.capacity == 0) {
    plan.capacity = wish.memory == 0
                        ? wish.usual_capacity
                        : std::clamp(wish.memory / each, kLeastCapacity, kMostCapacity);
  }
  if (plan.memory == 0) plan.memory = std::max(kMiB, plan.capacity * each);
  return plan;
}

MemoryPlan memory_plan(const Options& options) {
  return memory_plan({.capacity = options.capacity,
                      .memory = options.memory,
                      .usual_capacity = size_t{1} << 17,
                      .has_ledger = options.ledger != nullptr});
}

MemoryPlan sound_memory_plan(const Options& options) {
  const MemoryPlan plan = memory_plan(options);
  if (const auto error = error_in(plan)) {
    std::fprintf(stderr, "weir: %s; %s\n", error->detail.c_str(), error->fix.c_str());
    std::abort();
  }
  return plan;
}

uint64_t least_memory(size_t capacity) {
  return memory::Table::bytes_for(capacity) +
         memory::Sketch::bytes_for(capacity, kAssuredPages + kAssuredForgottenPages) +
         2 * memory::DirtyList::bytes_for(memory::Table::slots_for(capacity));
}

std::optional<Error> error_in(const MemoryPlan& plan) {
  const uint64_t least = least_memory(plan.capacity);
  if (plan.memory >= least) return std::nullopt;
  const auto in_mib = [](uint64_t bytes) { return (bytes + kMiB - 1) / kMiB; };
  Error error{.code = ErrorCode::kInvalidArgument, .retry = Retry::kPointless, .field = "memory"};
  error.detail = "memory is " + std::to_string(plan.memory) +
                 " bytes, too little for a capacity of " + std::to_string(plan.capacity);
  error.fix = "give it at least " + std::to_string(in_mib(least)) + "MiB";
  if (const size_t most = most_capacity(plan.memory); most > 0) {
    error.fix += ", or choose a capacity of at most " + std::to_string(most);
  }
  return error;
}

void bound_buffers(memory::ByteBudget& budget, const MemoryPlan& plan) {
  const uint64_t rest = plan.memory - least_memory(plan.capacity);
  budget.bound(memory::MemoryPart::kBuffers, rest - rest / 4);
}

}  // namespace weir::limiter
