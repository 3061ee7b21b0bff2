// Runs threads one at a time, and chooses at each operation on an atomic or a mutex which thread
// runs next. All choices follow from a seed.
//
// The algorithm is PCT (probabilistic concurrency testing, Burckhardt et al. 2010). Each thread has
// a priority, and the runnable thread with the highest priority runs. At a few points, drawn from
// the seed, the running thread gets the lowest priority; so does a thread that waits. A bug that
// needs d such points shows in about one of n (n k)^d schedules or more often, for n threads of k
// operations. PCT draws points from all operations uniformly; this draws a thread first, so that a
// short thread beside a long one is interrupted as often.
//
// The threads are real, because the engine keeps a record per thread. They hand over by semaphores,
// so each one sees all writes of the one before: this explores interleavings, but no reordering of
// memory.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weir::schedule {

// The operations at which another thread takes over.
struct Plan {
  struct Change {
    size_t thread = 0;
    uint64_t operation = 0;  // of that thread
  };
  uint64_t seed = 0;          // for messages
  std::vector<size_t> order;  // of the threads, the first one first
  std::vector<Change> changes;
};

// Each thread runs to its end, in the given order.
[[nodiscard]] Plan sequential_plan(size_t threads);

// `lengths` is the approximate number of operations of each thread.
[[nodiscard]] Plan plan_of(uint64_t seed, const std::vector<uint64_t>& lengths);

struct Run {
  bool endless = false;           // a thread did not end
  std::vector<uint64_t> lengths;  // operations of each thread
  uint64_t fingerprint = 0;       // of the order of all operations
  std::string switches;           // "0:12 1:3": thread 0 did 12 operations, then thread 1 did 3
};

// From one thread at a time, and one Scheduler at a time.
class Scheduler {
 public:
  static constexpr size_t kMaxThreads = 4;
  // A longer schedule counts as endless: its threads are unwound.
  static constexpr uint64_t kMaxOperations = 1'000'000;

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
