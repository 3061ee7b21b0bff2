// Asks the origin for admissions: one step per tuple is in flight, and requests that come meanwhile
// are asked for together by the next one.
//
// A request waits until a step decides it or its deadline passes. The reply charges the tuple
// before it answers, so what the origin granted is never admitted twice. A grant for a request that
// did not wait stays at the origin, where the next step finds it.
//
// Requests on windows ask by StepStore::step(), all others by ExactStore::decide(), which needs no
// tuple in the table. Such a call is repeated if its reply is missing: the origin remembers what it
// granted. If nobody waits any more, the grant stays charged there.
//
// If the table has no place for the tuple of a window, the origin decides by its own counts. Such a
// step writes a component of its own, since nothing here would remember a shared one.
//
// While the origin refuses requests on a tuple, steps are kPace apart: a process takes at most 50
// of them a second.
//
// Safe from any thread. Holds no lock while it calls the origin.

#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "base/mutex.h"
#include "memory/publish_watch.h"
#include "memory/tuple_key.h"
#include "memory/tuple_store.h"
#include "regional/caller.h"
#include "regional/foreign_use.h"
#include "regional/merger.h"
#include "regional/region_state.h"
#include "telemetry/limiter_counters.h"
#include "weir/executor.h"
#include "weir/origin.h"

namespace weir::regional {

struct StepRequest {
  const memory::TupleKey* key = nullptr;
  const memory::Query* query = nullptr;
};

struct StepResult {
  enum class Status : uint8_t {
    // By the origin. An admitted cost of a window was charged in the table, too; if there is no
    // tuple, the decision has no generation.
    kDecided,
    kLate,     // the deadline passed
    kEvicted,  // the tuple was removed while its step was in flight
  };
  Status status = Status::kLate;
  memory::CellDecision decision{};
};

using StepHandler = UniqueFunction<void(const std::vector<StepResult>&)>;

// Of decisions without counts that could not be read.
[[nodiscard]] inline StepHandler as_approximate(StepHandler done) {
  return [done = std::move(done)](const std::vector<StepResult>& results) mutable {
    std::vector<StepResult> approximate = results;
    for (StepResult& each : approximate) each.decision.approximate = true;
    done(approximate);
  };
}

class Steps : public std::enable_shared_from_this<Steps> {
 public:
  static constexpr Nanos kPace = Millis(20);

  // `publish_watch` is null without a ledger. The origin has steps.
  Steps(std::shared_ptr<memory::TupleStore> tuples, std::shared_ptr<RegionState> region,
        std::shared_ptr<memory::PublishWatch> publish_watch, std::shared_ptr<const Merger> merger,
        std::shared_ptr<telemetry::LimiterCounters> counters);
  ~Steps();
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  // Asks for all requests, then calls `done` on the caller's executor with one result for each, in
  // order. The keys need not outlive the call.
  void ask(Instant now, const std::vector<StepRequest>& requests, const Caller& caller,
           StepHandler done);

  // Tells the origin what this process has admitted by itself of tuples whose whole state it keeps,
  // by their index in the table. Returns those that have another call in flight. A call that fails
  // marks its tuple again.
  [[nodiscard]] std::vector<uint32_t> report(Instant now, const std::vector<uint32_t>& tuples,
                                             Executor& timers);
  [[nodiscard]] size_t reports_in_flight() const {
    return reports_.load(std::memory_order_relaxed);
  }

 private:
  struct Waiter;
  struct Ask;
  class Finished;
  struct Flight;
  struct Line;
  using WaiterPtr = std::shared_ptr<Waiter>;
  using FlightPtr = std::shared_ptr<Flight>;
  static constexpr size_t kShards = 16;
  struct Shard {
    base::Mutex mutex;
    std::unordered_map<std::string, Line> lines WEIR_GUARDED_BY(mutex);  // by encoded tuple
    // Lines that may be idle when their pause ends, in order.
    std::deque<std::pair<MonoTime, std::string>> paced WEIR_GUARDED_BY(mutex);
  };

  [[nodiscard]] Shard& shard_of(const memory::TupleKey& key) {
    return shards_[key.hash() % kShards];
  }
  static void drop_idle_lines(Shard& shard, MonoTime now) WEIR_REQUIRES(shard.mutex);
  [[nodiscard]] FlightPtr next_flight(Line& line, Instant now);
  void launch(const std::vector<FlightPtr>& flights);
  void resume_after_pause(Line& line, const memory::TupleKey& key, MonoTime now);
  void resume(const memory::TupleKey& key, Instant now);
  [[nodiscard]] bool prepare(Flight& flight, CellStep& step);
  void prepare_apart(Flight& flight, CellStep& step);
  [[nodiscard]] static Count add_asks(Flight& flight, CellStep& step);
  void expire(const WaiterPtr& waiter);
  void on_reply(const std::vector<FlightPtr>& flights, Result<std::vector<StepTotals>> totals);
  void land(const FlightPtr& flight, const StepTotals& totals);
  [[nodiscard]] ExactCall exact_call(Flight& flight);
  void on_answers(const std::vector<FlightPtr>& flights, Result<std::vector<ExactAnswer>> answers);
  [[nodiscard]] bool land_exact(const FlightPtr& flight, const ExactAnswer& answer);
  void note_answer(const Flight& flight, const std::vector<Ask>& asks,
                   const ExactAnswer& answer) const;
  void report_again(const Flight& flight) const;
  [[nodiscard]] ForeignUse foreign_use(const memory::TupleKey& key, const memory::Query& query,
                                       WallTime now) const;
  bool end(Flight& flight);
  [[nodiscard]] bool may_repeat(const FlightPtr& flight, Instant now);
  void end_without_reply(const FlightPtr& flight, StepResult::Status status);
  void go_on(const FlightPtr& flight, std::vector<Ask> again, bool refused, Finished& finished);
  [[nodiscard]] std::vector<Ask> take_asks(const FlightPtr& flight);
  [[nodiscard]] bool merge(const Flight& flight, const memory::Tuple& tuple,
                           const StepTotals& totals) const;
  [[nodiscard]] bool decide(const Flight& flight, std::vector<Ask>& asks, const StepTotals& totals,
                            Finished& finished) const;
  [[nodiscard]] bool decide_apart(const Flight& flight, std::vector<Ask>& asks,
                                  const StepTotals& totals, Finished& finished) const;
  static void count_unused_grants(const memory::Tuple& tuple, const Flight& flight,
                                  const StepTotals& totals, const memory::Query& query,
                                  memory::CellDecision& result);
  [[nodiscard]] memory::CellDecision charge(const memory::Tuple& tuple, const Ask& ask,
                                            memory::Effect effect) const;

  const std::shared_ptr<memory::TupleStore> tuples_;
  const std::shared_ptr<RegionState> region_;
  const std::shared_ptr<memory::PublishWatch> publish_watch_;
  const std::shared_ptr<const Merger> merger_;
  const std::shared_ptr<telemetry::LimiterCounters> counters_;
  base::Atomic<uint64_t> exact_calls_{0};  // numbers them: relaxed
  base::Atomic<uint64_t> apart_{0};        // steps without a tuple, numbers them: relaxed
  base::Atomic<size_t> reports_{0};        // in flight: relaxed
  std::array<Shard, kShards> shards_;
};

}  // namespace weir::regional
