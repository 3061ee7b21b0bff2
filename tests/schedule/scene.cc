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

// Runs a play and says what is broken. That it looks at the end is a thread, too: it may not end.
std::string run(const Play& play, const Plan& plan, Run& run) {
  run = scheduler().run(plan, play.threads);
  constexpr const char* kEndless = "a thread does not end";
  if (run.endless) return kEndless;
  std::string what;
  const auto look = [&] { what = play.broken(); };
  return scheduler().run(one_after_the_other(1), {look}).endless ? kEndless : what;
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
    Run run;
    const std::string what = schedule::run(play, plan, run);
    measured.lengths.resize(play.threads.size());
    for (size_t i = 0; i < run.lengths.size(); ++i) {
      measured.lengths[i] = std::max(measured.lengths[i], run.lengths[i]);
    }
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

// `how` stands before the command that runs it again.
bool expect_holds(const Scene& scene, uint64_t schedules, const std::string& how) {
  const auto only = number_from("WEIR_SCHEDULE");
  const uint64_t last = schedules * number_from("WEIR_SCHEDULES").value_or(1);
  const auto found = look_for_trouble(scene, only.value_or(1), only.value_or(last));
  if (!found) return true;
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  ADD_FAILURE()
      << found->what << "\n  with seed " << found->seed << "; to run that schedule alone:\n  "
      << how << "WEIR_SCHEDULE=" << found->seed
      << " build/tests/threads_test --gtest_filter=" << test->test_suite_name() << '.'
      << test->name()
      << "\n  threads, and how many operations each had done when the next one went on:\n  "
      << found->switches;
  return false;
}

}  // namespace

std::optional<Found> look_for_trouble(const Scene& scene, uint64_t first, uint64_t last) {
  const Measured measured = measure(scene);
  if (measured.trouble) return measured.trouble;
  for (uint64_t seed = first; seed <= last; ++seed) {
    const Play play = scene();
    Run run;
    const std::string what = schedule::run(play, plan_of(seed, measured.lengths), run);
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
  (void)expect_holds(scene, schedules, "");
}

void expect_all_hold(const std::function<Scene(uint64_t recipe)>& scenes, const Effort& effort) {
  const auto only = number_from("WEIR_RECIPE");
  for (uint64_t recipe = only.value_or(1); recipe <= only.value_or(effort.recipes); ++recipe) {
    const std::string how = "WEIR_RECIPE=" + std::to_string(recipe) + ' ';
    if (!expect_holds(scenes(recipe), effort.schedules, how)) return;
  }
}

}  // namespace weir::schedule
