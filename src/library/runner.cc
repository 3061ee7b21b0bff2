#include "weir/runner.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <utility>

#include "platform/thread_group.h"
#include "weir/executor.h"

namespace weir {
namespace {

constexpr Millis kDrainPause{20};

// One kind of work on its own thread, again and again.
class Loop {
 public:
  using Body = std::function<void(Instant now)>;

  Loop(const Clock& clock, Millis every, Body body)
      : clock_(clock), every_(std::max(every, Millis(1))), body_(std::move(body)), thread_(clock) {}

  void start() {
    started_ = true;
    thread_.start();
    thread_.post([this, now = clock_.now().mono] { run(now); });
  }
  void pause() { paused_.store(true, std::memory_order_relaxed); }
  void stop() {
    pause();
    thread_.stop();
  }
  [[nodiscard]] bool started() const { return started_; }
  [[nodiscard]] Executor& executor() { return thread_; }

  // Runs `work` on the thread and returns its result.
  template <typename Work>
  [[nodiscard]] WorkReport call(const Work& work) {
    std::promise<WorkReport> done;
    thread_.post([&] { done.set_value(work(clock_.now())); });
    return done.get_future().get();
  }

 private:
  void run(MonoTime planned) {
    if (paused_.load(std::memory_order_relaxed)) return;
    const Instant now = clock_.now();
    body_(now);
    const MonoTime next = std::max(planned + every_, now.mono);
    thread_.post_at(next, [this, next] { run(next); });
  }

  const Clock& clock_;
  const Millis every_;
  const Body body_;
  bool started_ = false;             // of the owner's thread
  std::atomic<bool> paused_{false};  // a flag alone: relaxed
  ThreadExecutor thread_;            // last: its thread uses the members above
};

// Calls `step` until it returns 0 or the time is over; returns its last result.
template <typename Step>
size_t repeat(const Clock& clock, Millis within, const Step& step) {
  const MonoTime deadline = clock.now().mono + within;
  size_t left = step();
  while (left > 0 && clock.now().mono < deadline) {
    platform::ThreadGroup::sleep(kDrainPause);
    left = step();
  }
  return left;
}

size_t slots_per_sweep(const Limiter& limiter, const RunnerOptions& options) {
  const Millis every = std::max(options.sweep_every, Millis(1));
  const auto sweeps = static_cast<size_t>(std::max<int64_t>(1, options.sweep_round / every));
  return limiter.capacity() / sweeps + 1;
}

}  // namespace

struct Runner::Threads {
  Threads(const Clock& the_clock, Limiter& the_limiter, RunnerOptions options)
      : clock(the_clock),
        limiter(the_limiter),
        replay(clock, options.replay_every,
               [this, after = std::move(options.after_replay)](Instant now) {
                 limiter.run_replay(now, replay.executor());
                 if (after) after(now);
               }),
        sync(clock, options.sync_every,
             [this, after = std::move(options.after_sync)](Instant now) {
               limiter.run_sync(now);
               if (after) after(now);
             }),
        sweep(clock, options.sweep_every,
              [this, slots = slots_per_sweep(limiter, options)](Instant now) {
                limiter.run_sweep(now, slots);
              }) {}

  // Sent is not enough: the origin must have acknowledged it.
  [[nodiscard]] size_t flush_origin() {
    const WorkReport report = replay.call(
        [this](Instant now) { return limiter.run_replay(now, replay.executor(), Flush::kAll); });
    const size_t unacked = limiter.stats().unacked;
    return std::max({report.done, report.waiting, unacked});
  }
  [[nodiscard]] size_t flush_ledger() {
    return sync.call([this](Instant now) { return limiter.run_sync(now, Flush::kAll); }).waiting;
  }

  const Clock& clock;
  Limiter& limiter;
  bool started = false;
  bool stopped = false;
  DrainReport drained;  // the last report
  Loop replay;
  Loop sync;
  Loop sweep;
};

Runner::Runner(const Clock& clock, Limiter& limiter, RunnerOptions options)
    : threads_(std::make_unique<Threads>(clock, limiter, std::move(options))) {}

Runner::~Runner() {
  stop();
}

void Runner::start() {
  if (std::exchange(threads_->started, true)) return;
  if (threads_->limiter.may_wait()) threads_->replay.start();
  if (threads_->limiter.has_ledger()) threads_->sync.start();
  threads_->sweep.start();
}

DrainReport Runner::drain(DrainDeadlines deadlines) {
  Threads& threads = *threads_;
  if (threads.stopped) return threads.drained;
  if (!threads.started) start();
  DrainReport report;
  if (threads.replay.started()) {
    threads.replay.pause();
    report.not_replayed =
        repeat(threads.clock, deadlines.replay, [&] { return threads.flush_origin(); });
    // A process whose counts are not all at the origin must stay their owner.
    if (report.not_replayed == 0) {
      report.not_retired = repeat(threads.clock, deadlines.retire, [&] {
        return threads.limiter.run_shutdown(threads.clock.now()).waiting;
      });
    }
  }
  if (threads.sync.started()) {
    threads.sync.pause();
    report.not_published =
        repeat(threads.clock, deadlines.publish, [&] { return threads.flush_ledger(); });
  }
  threads.drained = report;
  return report;
}

void Runner::stop() {
  threads_->stopped = true;
  threads_->sweep.stop();
  threads_->sync.stop();
  threads_->replay.stop();
}

}  // namespace weir
