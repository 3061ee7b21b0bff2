#include "tests/schedule/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/schedule/scheduler.h"

namespace weir::schedule {
namespace {

// One for the process: it starts the threads.
Scheduler& scheduler() {
  static Scheduler one;
  return one;
}

// Runs an instance and returns its violation. The check runs as a thread, too: it may not end.
std::string run(const Instance& instance, const Plan& plan, Run& run) {
  run = scheduler().run(plan, instance.threads);
  constexpr const char* kEndless = "a thread does not end";
  if (run.endless) return kEndless;
  std::string what;
  const auto check = [&] { what = instance.violation(); };
  return scheduler().run(sequential_plan(1), {check}).endless ? kEndless : what;
}

struct Measured {
  std::vector<uint64_t> lengths;
  std::optional<Violation> violation;
};

// The number of operations of each thread, from sequential runs.
Measured measure(const Workload& workload) {
  Measured measured;
  for (const bool reversed : {false, true}) {
    const Instance instance = workload();
    Plan plan = sequential_plan(instance.threads.size());
    if (reversed) std::reverse(plan.order.begin(), plan.order.end());
    Run run;
    const std::string what = schedule::run(instance, plan, run);
    measured.lengths.resize(instance.threads.size());
    for (size_t i = 0; i < run.lengths.size(); ++i) {
      measured.lengths[i] = std::max(measured.lengths[i], run.lengths[i]);
    }
    if (what.empty()) continue;
    measured.violation = {.seed = 0, .what = what, .switches = run.switches};
  }
  return measured;
}

std::optional<uint64_t> number_from(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

// `how` precedes the printed command that runs the schedule again.
bool expect_holds(const Workload& workload, uint64_t schedules, const std::string& how) {
  const auto only = number_from("WEIR_SCHEDULE");
  const uint64_t last = schedules * number_from("WEIR_SCHEDULES").value_or(1);
  const auto found = find_violation(workload, only.value_or(1), only.value_or(last));
  if (!found) return true;
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  ADD_FAILURE() << found->what << "\n  with seed " << found->seed
                << "; to run that schedule alone:\n  " << how << "WEIR_SCHEDULE=" << found->seed
                << " build/tests/threads_test --gtest_filter=" << test->test_suite_name() << '.'
                << test->name()
                << "\n  threads, with the operations that each did before the next one ran:\n  "
                << found->switches;
  return false;
}

}  // namespace

std::optional<Violation> find_violation(const Workload& workload, uint64_t first, uint64_t last) {
  const Measured measured = measure(workload);
  if (measured.violation) return measured.violation;
  for (uint64_t seed = first; seed <= last; ++seed) {
    const Instance instance = workload();
    Run run;
    const std::string what = schedule::run(instance, plan_of(seed, measured.lengths), run);
    if (!what.empty()) return Violation{.seed = seed, .what = what, .switches = run.switches};
  }
  return std::nullopt;
}

uint64_t fingerprint_of(const Workload& workload, uint64_t seed) {
  const Measured measured = measure(workload);
  const Instance instance = workload();
  return scheduler().run(plan_of(seed, measured.lengths), instance.threads).fingerprint;
}

void expect_holds(const Workload& workload, uint64_t schedules) {
  (void)expect_holds(workload, schedules, "");
}

void expect_all_hold(const std::function<Workload(uint64_t recipe)>& workloads,
                     const Effort& effort) {
  const auto only = number_from("WEIR_RECIPE");
  for (uint64_t recipe = only.value_or(1); recipe <= only.value_or(effort.recipes); ++recipe) {
    const std::string how = "WEIR_RECIPE=" + std::to_string(recipe) + ' ';
    if (!expect_holds(workloads(recipe), effort.schedules, how)) return;
  }
}

}  // namespace weir::schedule
