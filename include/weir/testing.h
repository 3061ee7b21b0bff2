// Test doubles for code that embeds Weir: time that the test moves, and stores that fail on
// command. Component `testing`, target weir::testing; production code needs none of it.
//
//   weir::test::ManualClock clock;
//   auto limiter = weir::Limiter::create(clock).value();
//   EXPECT_TRUE(limiter.check(request)->admitted());
//   clock.advance(std::chrono::seconds(10));

#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weir/clock.h"
#include "weir/executor.h"
#include "weir/export.h"
#include "weir/ledger.h"
#include "weir/origin.h"
#include "weir/time.h"

namespace weir::test {

// A clock that moves only when the test moves it. It starts at a wall time that is a multiple of
// one hour, and at an unrelated monotonic time. One thread at a time.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const override { return now_; }

  // Both times advance.
  void advance(Millis by) {
    now_.wall += by;
    now_.mono += by;
  }
  // The wall clock is set; monotonic time does not change.
  void step_wall(Millis by) { now_.wall += by; }

 private:
  Instant now_{.wall = WallTime(Millis(1'699'999'200'000)),
               .mono = MonoTime(Nanos(77'000'000'000))};
};
static_assert(1'699'999'200'000 % 3'600'000 == 0);

// An executor that runs nothing until run(). One thread at a time.
class ManualExecutor final : public Executor {
 public:
  explicit ManualExecutor(const Clock& clock) : clock_(clock) {}

  void post(Task task) override { ready_.push_back(std::move(task)); }
  void post_at(MonoTime when, Task task) override { later_.emplace(when, std::move(task)); }

  // Runs all tasks that are ready or due by the clock, and those that they post. Returns how many.
  size_t run() {
    size_t ran = 0;
    for (;;) {
      while (!later_.empty() && later_.begin()->first <= clock_.now().mono) {
        ready_.push_back(std::move(later_.begin()->second));
        later_.erase(later_.begin());
      }
      if (ready_.empty()) return ran;
      const Task task = std::move(ready_.front());
      ready_.pop_front();
      task();
      ++ran;
    }
  }

 private:
  const Clock& clock_;
  std::deque<Task> ready_;
  std::multimap<MonoTime, Task> later_;
};

// A ledger in memory. Each call returns another process's view of the same store, so that several
// limiters can share it: only one of them deletes expired rows. Safe from any thread; replies come
// before the call returns. `clock` must outlive it.
class WEIR_EXPORT MemoryLedgerStore {
 public:
  explicit MemoryLedgerStore(const Clock& clock);
  ~MemoryLedgerStore();
  MemoryLedgerStore(const MemoryLedgerStore&) = delete;
  MemoryLedgerStore& operator=(const MemoryLedgerStore&) = delete;

  [[nodiscard]] std::shared_ptr<GlobalLedger> connect() const;

  // Deletes everything, like a server that was set up again.
  void clear();
  // All rows, expired or not.
  [[nodiscard]] std::vector<LedgerRow> rows() const;

 private:
  struct Store;
  const std::unique_ptr<Store> store_;
};

// The fate of one call to a faulty store.
enum class Fault : uint8_t {
  kNone,
  kFail,     // not executed; the reply is an error
  kTimeout,  // executed; the reply is an error
  kNoReply,  // executed; no reply ever comes
  kDrop,     // not executed; no reply ever comes
};

// Chances of each fault, in 1/1000 of all calls.
struct FaultRates {
  uint32_t fail = 0;
  uint32_t timeout = 0;
  uint32_t no_reply = 0;
  uint32_t drop = 0;
};

// Selects the fault of each call: first those that the test scripted, then by chance, from a seed.
// One thread at a time.
class WEIR_EXPORT FaultPlan {
 public:
  explicit FaultPlan(uint64_t seed, FaultRates rates = {}) : state_(seed), rates_(rates) {}

  // The faults of the next calls.
  void script(std::initializer_list<Fault> faults) {
    script_.insert(script_.end(), faults.begin(), faults.end());
  }
  void set_rates(FaultRates rates) { rates_ = rates; }
  // Until reconnect(), each call fails, and the store reports that it is unreachable.
  void disconnect() { connected_ = false; }
  void reconnect() { connected_ = true; }
  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] uint64_t faults() const { return faults_; }  // so far

  [[nodiscard]] Fault next();

 private:
  uint64_t state_;
  FaultRates rates_;
  std::deque<Fault> script_;
  bool connected_ = true;
  uint64_t faults_ = 0;
};

// An origin that passes calls to another one, with the faults of a plan; so does its bridge store.
// A call without a reply is not executed if it fails. While it is disconnected, no message arrives.
// One thread at a time.
class WEIR_EXPORT FaultyOrigin final : public RegionalOrigin {
 public:
  FaultyOrigin(std::shared_ptr<RegionalOrigin> inner, uint64_t seed, FaultRates rates = {});
  ~FaultyOrigin() override;

  void read(std::vector<CellRead> cells, OriginReply reply) override;
  void replay(std::vector<CellReplay> cells, OriginReply reply) override;
  void retire(std::vector<CellRetirement> cells, RetirementReply reply) override;
  [[nodiscard]] Reach reach() const override;
  [[nodiscard]] uint32_t live_nodes() const override { return inner_->live_nodes(); }
  [[nodiscard]] uint32_t rank() const override { return inner_->rank(); }
  [[nodiscard]] BridgeStore* bridge_store() override { return bridge_store_.get(); }
  [[nodiscard]] uint64_t epoch() const override { return inner_->epoch(); }

  FaultPlan plan;

 private:
  const std::shared_ptr<RegionalOrigin> inner_;
  const std::unique_ptr<BridgeStore> bridge_store_;  // null: `inner_` has none
};

// A ledger that passes calls to another one, with the faults of a plan. One thread at a time.
class WEIR_EXPORT FaultyLedger final : public GlobalLedger {
 public:
  FaultyLedger(std::shared_ptr<GlobalLedger> inner, uint64_t seed, FaultRates rates = {})
      : plan(seed, rates), inner_(std::move(inner)) {}

  void publish(std::string region, FeedPosition known, std::vector<LedgerRow> rows,
               PublishReply reply) override;
  void read_feeds(std::vector<RegionFeed> after, FeedReply reply) override;
  void read_page(std::string region, LedgerPosition position, PageReply reply) override;
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override;
  void clean(size_t most, CleaningReply reply) override;
  [[nodiscard]] bool reachable() const override { return plan.connected() && inner_->reachable(); }

  FaultPlan plan;

 private:
  const std::shared_ptr<GlobalLedger> inner_;
};

}  // namespace weir::test
