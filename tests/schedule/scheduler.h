// Runs threads one at a time, and decides at each of their operations on an atomic or a mutex which
// one goes on. Everything that is decided follows from a seed.
//
// The decisions are those of PCT (probabilistic concurrency testing, Burckhardt et al. 2010). Each
// thread has a priority, and of those that can go on the one with the highest does. At a few
// points, drawn from the seed, the thread that runs becomes the last of all; so does one that
// waits. A bug that needs d such points shows in about one of n (n k)^d schedules or more often,
// for n threads of k operations. Unlike PCT, which draws points from all operations alike, this
// draws a thread first: a short thread beside a long one is interrupted as often.
//
// The threads are real ones, as the engine keeps a record of each. They hand over by semaphores, so
// whatever one has written, the next one sees: interleavings, but no reordering of memory.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weir::schedule {

// At which operations of which threads another one takes over.
struct Plan {
  struct Change {
    size_t thread = 0;
    uint64_t operation = 0;  // of that thread
  };
  uint64_t seed = 0;          // for messages
  std::vector<size_t> order;  // of the threads, the first one first
  std::vector<Change> changes;
};

// Each thread to its end, in the order in which they are given.
[[nodiscard]] Plan one_after_the_other(size_t threads);

// `lengths` is how many operations each thread has, about.
[[nodiscard]] Plan plan_of(uint64_t seed, const std::vector<uint64_t>& lengths);

struct Run {
  bool endless = false;           // some thread would never have ended
  std::vector<uint64_t> lengths;  // operations of each thread
  uint64_t fingerprint = 0;       // of which thread did which operation when
  std::string switches;           // "0:12 1:3": thread 0 did 12 operations, then thread 1 did 3
};

// From one thread at a time, and one Scheduler at a time.
class Scheduler {
 public:
  static constexpr size_t kMostThreads = 4;
  // A schedule that is longer does not end: its threads are made to leave what they do.
  static constexpr uint64_t kMostOperations = 1'000'000;

  Scheduler();
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  Run run(const Plan& plan, const std::vector<std::function<void()>>& bodies);

 private:
  struct Worker;
  struct State;

  static void before_operation();
  static void while_waiting();

  const std::unique_ptr<State> state_;
};

}  // namespace weir::schedule
