#include "tests/schedule/scene.h"

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

struct Measured {
  std::vector<uint64_t> lengths;
  std::optional<Found> trouble;
};

// How long each thread is, from the runs without any interruption.
Measured measure(const Scene& scene) {
  Measured measured;
  for (const bool reversed : {false, true}) {
    const Play play = scene();
    Plan plan = one_after_the_other(play.threads.size());
    if (reversed) std::reverse(plan.order.begin(), plan.order.end());
    const Run run = scheduler().run(plan, play.threads);
    measured.lengths.resize(play.threads.size());
    for (size_t i = 0; i < run.lengths.size(); ++i) {
      measured.lengths[i] = std::max(measured.lengths[i], run.lengths[i]);
    }
    const std::string what = play.broken();
    if (what.empty()) continue;
    measured.trouble = {.seed = 0, .what = what, .switches = run.switches};
  }
  return measured;
}

std::optional<uint64_t> number_from(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

}  // namespace

std::optional<Found> look_for_trouble(const Scene& scene, uint64_t first, uint64_t last) {
  const Measured measured = measure(scene);
  if (measured.trouble) return measured.trouble;
  for (uint64_t seed = first; seed <= last; ++seed) {
    const Play play = scene();
    const Run run = scheduler().run(plan_of(seed, measured.lengths), play.threads);
    const std::string what = play.broken();
    if (!what.empty()) return Found{.seed = seed, .what = what, .switches = run.switches};
  }
  return std::nullopt;
}

uint64_t fingerprint_of(const Scene& scene, uint64_t seed) {
  const Measured measured = measure(scene);
  const Play play = scene();
  return scheduler().run(plan_of(seed, measured.lengths), play.threads).fingerprint;
}

void expect_holds(const Scene& scene, uint64_t schedules) {
  const auto only = number_from("WEIR_SCHEDULE");
  const uint64_t last = number_from("WEIR_SCHEDULES").value_or(schedules);
  const auto found = look_for_trouble(scene, only.value_or(1), only.value_or(last));
  if (!found) return;
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  ADD_FAILURE() << found->what << "\n  with seed " << found->seed
                << "; to run that schedule alone:\n  WEIR_SCHEDULE=" << found->seed
                << " build/tests/threads_test --gtest_filter=" << test->test_suite_name() << '.'
                << test->name()
                << "\n  threads, and how many operations each had done when the next one went on:\n  "
                << found->switches;
}

}  // namespace weir::schedule
