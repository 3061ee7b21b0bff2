#include "memory/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "memory/dirty_list.h"
#include "memory/sketch.h"
#include "memory/table.h"

namespace weir::memory {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// The largest capacity whose fixed parts fit, or 0.
size_t largest_capacity(uint64_t memory) {
  size_t fits = 0;
  size_t beyond = kMaxCapacity + 1;
  while (beyond - fits > 1) {
    const size_t middle = fits + (beyond - fits) / 2;
    (min_memory(middle) <= memory ? fits : beyond) = middle;
  }
  return fits >= kMinCapacity ? fits : 0;
}

}  // namespace

MemoryPlan memory_plan(const MemorySettings& settings) {
  const uint64_t each = settings.has_ledger ? kBytesPerSharedTuple : kBytesPerTuple;
  MemoryPlan plan{.capacity = settings.capacity, .memory = settings.memory};
  if (plan.capacity == 0) {
    plan.capacity = settings.memory == 0
                        ? settings.default_capacity
                        : std::clamp(settings.memory / each, kMinCapacity, kMaxCapacity);
  }
  if (plan.memory == 0) plan.memory = std::max(kMiB, plan.capacity * each);
  return plan;
}

MemoryPlan memory_plan(const Options& options) {
  return memory_plan({.capacity = options.capacity,
                      .memory = options.memory,
                      .default_capacity = size_t{1} << 17,
                      .has_ledger = options.ledger != nullptr});
}

MemoryPlan checked_memory_plan(const Options& options) {
  const MemoryPlan plan = memory_plan(options);
  if (const auto error = error_in(plan)) {
    std::fprintf(stderr, "weir: %s; %s\n", error->detail.c_str(), error->fix.c_str());
    std::abort();
  }
  return plan;
}

uint64_t min_memory(size_t capacity) {
  return Table::bytes_for(capacity) +
         Sketch::bytes_for(capacity, kAssuredPages + kAssuredEvictedPages) +
         2 * DirtyList::bytes_for(Table::slots_for(capacity));
}

std::optional<Error> error_in(const MemoryPlan& plan) {
  const uint64_t minimum = min_memory(plan.capacity);
  if (plan.memory >= minimum) return std::nullopt;
  const auto in_mib = [](uint64_t bytes) { return (bytes + kMiB - 1) / kMiB; };
  Error error{.code = ErrorCode::kInvalidArgument, .retry = Retry::kPointless, .field = "memory"};
  error.detail = "memory is " + std::to_string(plan.memory) +
                 " bytes, too little for a capacity of " + std::to_string(plan.capacity);
  error.fix = "give it at least " + std::to_string(in_mib(minimum)) + "MiB";
  if (const size_t largest = largest_capacity(plan.memory); largest > 0) {
    error.fix += ", or choose a capacity of at most " + std::to_string(largest);
  }
  return error;
}

void limit_annexes(ByteBudget& budget, const MemoryPlan& plan) {
  const uint64_t rest = plan.memory - min_memory(plan.capacity);
  budget.bound(Part::kAnnexes, rest - rest / 4);
}

}  // namespace weir::memory
