// What is run under many schedules: some threads on a state that is made anew for each, and what
// must hold once they have ended.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace weir::schedule {

struct Play {
  std::vector<std::function<void()>> threads;
  // What does not hold; empty if all does. Called once, after the threads.
  std::function<std::string()> broken;
};

using Scene = std::function<Play()>;

struct Found {
  uint64_t seed = 0;  // 0: with the threads one after the other
  std::string what;
  std::string switches;  // see Run
};

// The first of the seeds from `first` to `last` under which something is broken.
[[nodiscard]] std::optional<Found> look_for_trouble(const Scene& scene, uint64_t first,
                                                    uint64_t last);

// Runs one schedule; for a test of the scheduler itself.
[[nodiscard]] uint64_t fingerprint_of(const Scene& scene, uint64_t seed);

// Fails the test, and says how to run the schedule again, if something is broken under one of
// this many schedules. WEIR_SCHEDULES is how many times as many to run, WEIR_SCHEDULE the one seed.
void expect_holds(const Scene& scene, uint64_t schedules);

// The same for scenes that are drawn from a number. WEIR_RECIPE is the one to run.
struct Effort {
  uint64_t recipes = 0;
  uint64_t schedules = 0;  // of each
};
void expect_all_hold(const std::function<Scene(uint64_t recipe)>& scenes, const Effort& effort);

}  // namespace weir::schedule
