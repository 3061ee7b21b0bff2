#include "sim/worlds/region_bugs_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "decide/engine.h"
#include "ledgers/memory_ledger.h"
#include "memory/tuple_key.h"
#include "origins/in_process_origin.h"
#include "tests/doubles/forwarding_origin.h"
#include "tests/doubles/manual_clock.h"

namespace weir::sim {
namespace {

constexpr Count kRegionLimit = 16;
constexpr Millis kRegionPeriod{16'000};

Request region_request(Algorithm algorithm, Count cost, Count limit = kRegionLimit,
                       Millis duration = kRegionPeriod) {
  return {.ns = "mutation",
          .identifier = "alice",
          .limit = limit,
          .duration = duration,
          .cost = cost,
          .algorithm = algorithm};
}

// The origin of one process, whose answers to steps can be held back.
class HeldLink final : public doubles::ForwardingOrigin {
 public:
  HeldLink(const Clock& clock, std::shared_ptr<RegionalOrigin> far_end)
      : ForwardingOrigin(std::move(far_end)), clock_(clock) {}

  void replay(std::vector<CellReplay> cells, OriginReply reply) override {
    replayed.insert(replayed.end(), cells.begin(), cells.end());
    ForwardingOrigin::replay(std::move(cells), std::move(reply));
  }
  void step(std::vector<CellStep> steps, StepReply reply) override {
    ForwardingOrigin::step(std::move(steps), held_back(std::move(reply)));
  }
  void decide(std::vector<ExactCall> calls, ExactReply reply) override {
    ForwardingOrigin::decide(std::move(calls), held_back(std::move(reply)));
  }
  [[nodiscard]] Reach reach() const override { return is_lost ? Reach::kNone : Reach::kPrompt; }
  // It knows that it is alone.
  [[nodiscard]] std::optional<Membership> membership() const override {
    return Membership{.since = since_, .heard_at = clock_.now().mono};
  }

  void release() {
    holds = false;
    for (const auto& answer : std::exchange(held_, {})) answer();
  }

  std::vector<CellReplay> replayed;
  bool holds = false;
  bool is_lost = false;

 private:
  template <typename Value>
  [[nodiscard]] std::function<void(Result<Value>)> held_back(
      std::function<void(Result<Value>)> reply) {
    return [this, reply = std::move(reply)](Result<Value> answer) {
      if (!holds) return reply(std::move(answer));
      held_.push_back([reply, value = answer.value()] { reply(value); });
    };
  }

  const Clock& clock_;
  const MonoTime since_ = clock_.now().mono;
  std::vector<std::function<void()>> held_;
};

// Processes on one origin, and the bridge of their region if there is a ledger.
class SmallRegion {
 public:
  struct Process {
    Process(const doubles::ManualClock& its_clock, std::shared_ptr<RegionalOrigin> far_end)
        : clock(its_clock),
          link(std::make_shared<HeldLink>(its_clock, std::move(far_end))),
          executor(its_clock) {}

    void send(const Request& request, std::function<void(const Verdict&)> done) {
      engine->check_async(
          clock.now(), request, executor,
          [done = std::move(done)](const Result<Verdict>& verdict) { done(*verdict); });
      executor.run();
    }
    Verdict ask(const Request& request) {
      const auto received = std::make_shared<Verdict>();
      send(request, [received](const Verdict& verdict) { *received = verdict; });
      return *received;
    }
    // What is left of the limit of a request without cost.
    Count left(Algorithm algorithm) { return ask(region_request(algorithm, 0)).remaining; }
    // Requests of cost 1 that the process admits.
    [[nodiscard]] std::shared_ptr<Count> send_many(const Request& request, int many) {
      auto admitted = std::make_shared<Count>(0);
      for (int i = 0; i < many; ++i) {
        send(request,
             [admitted](const Verdict& verdict) { *admitted += verdict.admitted() ? 1 : 0; });
      }
      return admitted;
    }
    void replay() {
      engine->run_replay(clock.now(), executor, Flush::kAll);
      executor.run();
    }

    const doubles::ManualClock& clock;
    std::shared_ptr<HeldLink> link;
    doubles::ManualExecutor executor;
    std::shared_ptr<decide::Engine> engine;
  };

  enum class Ledger : uint8_t { kNone, kShared };

  explicit SmallRegion(Consistency consistency, Ledger ledger = Ledger::kNone)
      : consistency_(consistency) {
    if (ledger == Ledger::kShared) ledger_ = std::make_shared<ledgers::MemoryLedger>(clock);
  }
  ~SmallRegion() {
    // Requests in flight keep their engines alive.
    pass(Millis(2000));
  }
  SmallRegion(const SmallRegion&) = delete;
  SmallRegion& operator=(const SmallRegion&) = delete;

  Process& join() {
    Process& process = *processes_.emplace_back(std::make_unique<Process>(clock, origin));
    process.engine =
        decide::Engine::make(clock, {.origin = process.link,
                                     .ledger = ledger_ ? ledger_->another_client() : nullptr,
                                     .region = "east",
                                     .consistency = consistency_,
                                     .capacity = 64,
                                     .seed = processes_.size()});
    return process;
  }
  void pass(Millis time) {
    for (Millis passed{0}; passed < time; passed += Millis(10)) {
      clock.advance(Millis(10));
      for (const auto& process : processes_) {
        process->engine->run_replay(clock.now(), process->executor, Flush::kDue);
        process->engine->run_sync(clock.now());
        process->executor.run();
      }
    }
  }
  // To so long before the end of a window.
  void pass_to_end(Millis before, Millis duration) {
    const Millis rest = duration - clock.now().wall.time_since_epoch() % duration;
    if (rest > before) pass(rest - before);
  }

  doubles::ManualClock clock;
  const std::shared_ptr<origins::InProcessOrigin> origin =
      std::make_shared<origins::InProcessOrigin>(clock);

 private:
  const Consistency consistency_;
  std::shared_ptr<ledgers::MemoryLedger> ledger_;
  std::vector<std::unique_ptr<Process>> processes_;
};

}  // namespace

bool a_conversion_tells_its_own_usage() {
  SmallRegion region(Consistency::kExact);
  SmallRegion::Process& one = region.join();
  EXPECT_TRUE(one.ask(region_request(Algorithm::kFixedWindow, 6)).admitted());
  one.link->is_lost = true;
  EXPECT_TRUE(one.ask(region_request(Algorithm::kGcra, 2)).admitted());
  EXPECT_TRUE(one.ask(region_request(Algorithm::kSlidingWindowStrict, 1)).admitted());
  one.link->is_lost = false;
  return one.left(Algorithm::kGcra) != kRegionLimit - 8;
}

bool a_conversion_forgets_the_allowance() {
  constexpr Count kLarge = 160;
  SmallRegion region(Consistency::kConverge);
  SmallRegion::Process& one = region.join();
  SmallRegion::Process& other = region.join();
  region.pass(Millis(8000));
  EXPECT_TRUE(other.ask(region_request(Algorithm::kGcra, 80, kLarge)).admitted());
  EXPECT_TRUE(one.ask(region_request(Algorithm::kGcra, 1, kLarge)).admitted());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(one.ask(region_request(Algorithm::kGcra, 1, kLarge)).basis, Basis::kLocal);
  }
  one.link->is_lost = true;
  return one.ask(region_request(Algorithm::kFixedWindow, 1, kLarge)).remaining != kLarge - 87;
}

bool an_answer_reaches_a_tuple_created_since() {
  SmallRegion region(Consistency::kExact);
  SmallRegion::Process& one = region.join();
  SmallRegion::Process& other = region.join();
  one.link->is_lost = true;
  EXPECT_TRUE(one.ask(region_request(Algorithm::kGcra, 2)).admitted());
  one.link->is_lost = false;
  EXPECT_TRUE(one.ask(region_request(Algorithm::kGcra, 1)).admitted());
  one.link->holds = true;
  (void)one.ask(region_request(Algorithm::kGcra, 1));
  Request relaxed = region_request(Algorithm::kGcra, 1);
  relaxed.consistency = Consistency::kRelaxed;
  EXPECT_TRUE(one.engine->reset(region.clock.now(), relaxed).ok());
  one.link->is_lost = true;
  EXPECT_TRUE(one.ask(region_request(Algorithm::kGcra, 3)).admitted());
  one.link->is_lost = false;
  one.link->release();
  one.executor.run();
  one.replay();
  return other.left(Algorithm::kGcra) != kRegionLimit - 7;
}

bool a_step_ignores_what_others_used_last() {
  const auto request = [](Count cost) {
    return region_request(Algorithm::kSlidingWindow, cost, 100, Millis(10'000));
  };
  SmallRegion region(Consistency::kExact);
  SmallRegion::Process& one = region.join();
  SmallRegion::Process& other = region.join();
  region.pass_to_end(Millis(500), Millis(10'000));
  EXPECT_TRUE(other.ask(request(80)).admitted());
  EXPECT_TRUE(one.ask(request(1)).admitted());
  region.origin->clear();
  region.clock.advance(Millis(500));
  EXPECT_FALSE(one.ask(request(50)).admitted());
  const memory::TupleKey key(request(1), base::KeyedHash(0));
  const int64_t window = region.clock.now().wall.time_since_epoch() / Millis(10'000);
  Count granted = 0;
  for (const auto& [component, count] : region.origin->components({key.encoded(), window})) {
    granted += count;
  }
  return granted > 0;
}

bool an_own_grant_counts_as_that_of_siblings() {
  const auto request = [](Count cost) {
    return region_request(Algorithm::kFixedWindow, cost, 100, kMaxDuration);
  };
  SmallRegion region(Consistency::kExact, SmallRegion::Ledger::kShared);
  (void)region.join();  // the bridge
  region.pass(Millis(1000));
  SmallRegion::Process& one = region.join();
  region.pass(Millis(5000));
  EXPECT_TRUE(one.ask(request(1)).admitted());
  one.link->holds = true;
  const auto answered = std::make_shared<Verdict>();
  one.send(request(59), [answered](const Verdict& verdict) { *answered = verdict; });
  // Before the request gives up.
  region.pass(Millis(280));
  one.link->release();
  one.executor.run();
  return !answered->admitted() || one.ask(request(0)).evidence.siblings > 0;
}

bool a_replay_takes_back_a_grant() {
  constexpr Count kGranted = 10;
  SmallRegion region(Consistency::kExact);
  SmallRegion::Process& one = region.join();
  one.link->holds = true;
  (void)one.ask(region_request(Algorithm::kFixedWindow, kGranted));
  region.pass(Millis(400));
  one.link->release();
  one.link->is_lost = true;
  EXPECT_TRUE(one.ask(region_request(Algorithm::kFixedWindow, 1)).admitted());
  one.link->is_lost = false;
  one.link->replayed.clear();
  one.replay();
  Count most = 0;
  for (const CellReplay& replay : one.link->replayed) most = std::max(most, replay.total);
  EXPECT_GT(most, 0U);
  return most < kGranted;
}

bool a_late_answer_forgets_the_own_last_window() {
  constexpr Count kLarge = 400;
  constexpr Count kLast = 300;
  constexpr Millis kWidth{10'000};
  SmallRegion region(Consistency::kConverge);
  SmallRegion::Process& one = region.join();
  region.pass(Millis(8000));
  region.pass_to_end(Millis(500), kWidth);
  const auto request = [](Count cost) {
    return region_request(Algorithm::kSlidingWindow, cost, kLarge, kWidth);
  };
  EXPECT_TRUE(one.ask(request(kLast)).admitted());
  region.pass(Millis(500));
  one.link->holds = true;
  const auto admitted = one.send_many(request(1), 150);
  region.pass(Millis(400));
  // The allowance is a quarter of what is left, and was used once before.
  return *admitted > 2 * (kLarge - kLast) / 4;
}

}  // namespace weir::sim
