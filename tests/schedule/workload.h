// A small concurrent program to run under many schedules: some threads on a fresh state, and an
// invariant to check once they have ended.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace weir::schedule {

struct Instance {
  std::vector<std::function<void()>> threads;
  // Describes the violated invariant; empty if none is. Called once, after the threads.
  std::function<std::string()> violation;
};

using Workload = std::function<Instance()>;

struct Violation {
  uint64_t seed = 0;  // 0: the threads ran sequentially
  std::string what;
  std::string switches;  // see Run
};

// The first violation under the seeds from `first` to `last`.
[[nodiscard]] std::optional<Violation> find_violation(const Workload& workload, uint64_t first,
                                                      uint64_t last);

// Runs one schedule; for a test of the scheduler itself.
[[nodiscard]] uint64_t fingerprint_of(const Workload& workload, uint64_t seed);

// Fails the test on a violation under one of this many schedules, and prints how to run that
// schedule again. WEIR_SCHEDULES multiplies the number, WEIR_SCHEDULE runs one seed only.
void expect_holds(const Workload& workload, uint64_t schedules);

// The same for workloads that are generated from a number. WEIR_RECIPE runs one of them only.
struct Effort {
  uint64_t recipes = 0;
  uint64_t schedules = 0;  // of each
};
void expect_all_hold(const std::function<Workload(uint64_t recipe)>& workloads,
                     const Effort& effort);

}  // namespace weir::schedule
