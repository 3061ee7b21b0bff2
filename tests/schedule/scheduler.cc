#include "tests/schedule/scheduler.h"

#include <semaphore.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <numeric>
#include <thread>

#include "base/atomic.h"
#include "base/check.h"
#include "base/split_mix.h"
#include "epoch/epoch.h"
#include "sim/random.h"

namespace weir::schedule {
namespace {

// A thread that runs for so long without waiting yields to the others: its loop may depend on them.
constexpr uint64_t kPatience = 5000;

// Ends a thread in an endless loop.
struct Endless {};

// Longer than any schedule takes on a loaded machine.
constexpr time_t kMaxSeconds = 120;

class Semaphore {
 public:
  Semaphore() { WEIR_CHECK(sem_init(&semaphore_, 0, 0) == 0); }
  ~Semaphore() { sem_destroy(&semaphore_); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  void post() { sem_post(&semaphore_); }
  void wait() {
    while (sem_wait(&semaphore_) != 0) {
    }
  }
  // False: no thread posted for that long.
  [[nodiscard]] bool wait_for(time_t seconds) {
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    while (sem_timedwait(&semaphore_, &until) != 0) {
      if (errno == ETIMEDOUT) return false;
    }
    return true;
  }

 private:
  sem_t semaphore_;
};

}  // namespace

Plan sequential_plan(size_t threads) {
  Plan plan;
  plan.order.resize(threads);
  std::iota(plan.order.begin(), plan.order.end(), size_t{0});
  return plan;
}

Plan plan_of(uint64_t seed, const std::vector<uint64_t>& lengths) {
  constexpr int64_t kMaxChanges = 5;
  sim::Random random(seed);
  Plan plan = sequential_plan(lengths.size());
  plan.seed = seed;
  const auto last = static_cast<int64_t>(lengths.size()) - 1;
  for (auto i = static_cast<size_t>(last); i > 0; --i) {
    std::swap(plan.order[i], plan.order[random.next() % (i + 1)]);
  }
  const int64_t changes = random.between(1, kMaxChanges);
  for (int64_t i = 0; i < changes; ++i) {
    const auto thread = static_cast<size_t>(random.between(0, last));
    // A few more than in the sequential run: an interrupted thread may retry some.
    const uint64_t length = lengths[thread] + lengths[thread] / 8 + 2;
    plan.changes.push_back({.thread = thread, .operation = random.next() % length});
  }
  return plan;
}

struct Scheduler::Worker {
  Scheduler::State* state = nullptr;
  size_t number = 0;
  Semaphore go;
  std::thread thread;

  // Of the run.
  const std::function<void()>* body = nullptr;
  int64_t priority = 0;
  bool ended = true;
  bool unwinds = false;  // by an exception; not interrupted meanwhile
  uint64_t operations = 0;
  std::vector<uint64_t> changes;  // the next one last
  uint64_t since_switch = 0;
};

struct Scheduler::State {
  std::vector<std::unique_ptr<Worker>> workers;
  Semaphore idle;  // all have ended
  bool stops = false;

  // Of the run.
  uint64_t seed = 0;
  int64_t lowest = 0;  // priority
  uint64_t operations = 0;
  uint64_t fingerprint = 0;
  std::string switches;

  static inline thread_local Worker* current = nullptr;

  void serve(Worker& worker);
  void operate(Worker& worker);
  void lower(Worker& worker);
  [[nodiscard]] Worker* next() const;
  void note_switch(Worker& worker);
  [[noreturn]] void give_up(const char* why) const;
};

Scheduler::Scheduler() : state_(std::make_unique<State>()) {
  // Thread records are listed in the order of their creation, and a scan of the list does one
  // operation per record: so the order must be the same in every process.
  (void)epoch::this_thread_record();
  for (size_t i = 0; i < kMaxThreads; ++i) {
    Worker& worker = *state_->workers.emplace_back(std::make_unique<Worker>());
    worker.state = state_.get();
    worker.number = i;
    worker.thread = std::thread([this, &worker] { state_->serve(worker); });
    state_->idle.wait();
  }
  // The epoch starts at a number that no limit in a workload equals, so that a confusion of the two
  // shows.
  constexpr uint64_t kMoreThanLimits = 10'000;
  uint64_t retired = 0;
  while (retired < kMoreThanLimits) retired = epoch::retire_epoch();
  WEIR_CHECK(epoch::is_reclaimable(retired));
  base::thread_hooks = {.before_operation = before_operation, .while_waiting = while_waiting};
}

Scheduler::~Scheduler() {
  base::thread_hooks = {};
  state_->stops = true;
  for (const auto& worker : state_->workers) {
    worker->go.post();
    worker->thread.join();
  }
}

Run Scheduler::run(const Plan& plan, const std::vector<std::function<void()>>& bodies) {
  State& state = *state_;
  WEIR_CHECK(bodies.size() == plan.order.size() && bodies.size() <= kMaxThreads);
  state.seed = plan.seed;
  state.operations = 0;
  state.fingerprint = plan.seed;
  state.switches.clear();
  state.lowest = 0;
  for (size_t i = 0; i < bodies.size(); ++i) {
    Worker& worker = *state.workers[plan.order[i]];
    worker.body = &bodies[plan.order[i]];
    worker.priority = -static_cast<int64_t>(i);
    worker.ended = false;
    worker.unwinds = false;
    worker.operations = 0;
    worker.since_switch = 0;
    worker.changes.clear();
    state.lowest = worker.priority;
  }
  for (const Plan::Change& change : plan.changes) {
    state.workers[change.thread]->changes.push_back(change.operation);
  }
  for (const auto& worker : state.workers) {
    std::sort(worker->changes.begin(), worker->changes.end(), std::greater<>());
  }
  state.next()->go.post();
  if (!state.idle.wait_for(kMaxSeconds)) {
    state.give_up("a thread waits for something that is no atomic and no mutex of base/atomic.h");
  }
  Run run{.endless = state.operations > kMaxOperations,
          .lengths = {},
          .fingerprint = state.fingerprint,
          .switches = state.switches};
  for (size_t i = 0; i < bodies.size(); ++i) run.lengths.push_back(state.workers[i]->operations);
  return run;
}

void Scheduler::before_operation() {
  if (Worker* const worker = State::current) worker->state->operate(*worker);
}

void Scheduler::while_waiting() {
  Worker* const worker = State::current;
  if (worker == nullptr) return std::this_thread::yield();
  worker->state->operate(*worker);
  worker->state->lower(*worker);
}

void Scheduler::State::serve(Worker& worker) {
  (void)epoch::this_thread_record();
  idle.post();
  for (;;) {
    worker.go.wait();
    if (stops) return;
    current = &worker;
    try {
      (*worker.body)();
    } catch (const Endless&) {
    }
    current = nullptr;
    note_switch(worker);
    worker.ended = true;
    Worker* const other = next();
    if (other != nullptr) {
      other->go.post();
    } else {
      idle.post();
    }
  }
}

// Called before each operation. Priorities change only here and in lower(), so no other place has
// to compare them.
void Scheduler::State::operate(Worker& worker) {
  if (worker.unwinds) return;
  if (++operations > kMaxOperations) {
    worker.unwinds = true;
    throw Endless{};
  }
  ++worker.since_switch;
  const uint64_t number = worker.operations++;
  const bool changes = !worker.changes.empty() && worker.changes.back() <= number;
  if (changes) worker.changes.pop_back();
  if (changes || worker.since_switch > kPatience) lower(worker);
}

// Gives the thread the lowest priority and runs the one with the highest.
void Scheduler::State::lower(Worker& worker) {
  if (worker.unwinds) return;
  worker.priority = --lowest;
  Worker* const other = next();
  if (other == &worker) {
    worker.since_switch = 0;
    return;
  }
  note_switch(worker);
  other->go.post();
  worker.go.wait();
}

Scheduler::Worker* Scheduler::State::next() const {
  Worker* first = nullptr;
  for (const auto& worker : workers) {
    if (worker->ended) continue;
    if (first == nullptr || worker->priority > first->priority) first = worker.get();
  }
  return first;
}

void Scheduler::State::note_switch(Worker& worker) {
  uint64_t state = fingerprint ^ (worker.number << 32 | worker.operations);
  fingerprint = base::split_mix(state);
  constexpr size_t kMaxShown = 400;
  if (switches.size() < kMaxShown) {
    switches += std::to_string(worker.number) + ':' + std::to_string(worker.operations) + ' ';
  }
  worker.since_switch = 0;
}

// Production code cannot be unwound half-way: the process ends.
void Scheduler::State::give_up(const char* why) const {
  std::fprintf(stderr,
               "schedule of seed %llu: %s\n  run it alone: WEIR_SCHEDULE=%llu and this test's "
               "name\n  threads and how many operations each has done: %s\n",
               static_cast<unsigned long long>(seed), why, static_cast<unsigned long long>(seed),
               switches.c_str());
  std::abort();
}

}  // namespace weir::schedule
