#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/atomic.h"
#include "base/keyed_hash.h"
#include "decide/engine.h"
#include "ledgers/memory_ledger.h"
#include "memory/tuple_key.h"
#include "origins/in_process_origin.h"
#include "tests/doubles/manual_clock.h"
#include "tests/doubles/scripted_origin.h"
#include "tests/schedule/workloads.h"

namespace weir::schedule {
namespace {

using decide::Engine;

constexpr uint64_t kSeed = 1;
constexpr Millis kHour{3'600'000};

// An engine that replays its counts to an origin.
struct Replaying {
  doubles::ManualClock clock;
  doubles::ManualExecutor executor{clock};
  std::shared_ptr<origins::InProcessOrigin> origin =
      std::make_shared<origins::InProcessOrigin>(clock);
  std::shared_ptr<Engine> engine = Engine::make(
      clock, {.origin = origin, .replay_within = Millis(0), .capacity = 1, .seed = kSeed});
  Count accepted = 0;

  void replay() { engine->run_replay(clock.now(), executor, Flush::kAll); }
  [[nodiscard]] Count acked(const Request& request, Instant when) const {
    const CellId cell{memory::TupleKey(request, base::KeyedHash(0)).encoded(),
                      when.wall.time_since_epoch() / request.duration};
    Count sum = 0;
    for (const auto& [component, count] : origin->components(cell)) sum += count;
    return sum;
  }
  // Compares the origin's count with the accepted one after all replays.
  [[nodiscard]] std::string unacked(const Request& request, Instant when) {
    for (int round = 0; round < 3; ++round) replay();
    const Count has = acked(request, when);
    if (has == accepted) return {};
    return "the origin has " + std::to_string(has) + " of " + std::to_string(accepted) +
           " that were accepted";
  }
};

Request request_for(std::string_view identifier, Count limit, Count cost) {
  return {
      .ns = "schedule", .identifier = identifier, .limit = limit, .duration = kHour, .cost = cost};
}

}  // namespace

Workload refused_batch_beside_a_replay(Accepted accepted) {
  return [accepted] {
    const auto world = std::make_shared<Replaying>();
    // A batch charges tuples in the order of their hashes: the one that denies comes last.
    std::array<Request, 2> batch = {request_for("a", 100, 50), request_for("b", 100, 50)};
    const base::KeyedHash hash(kSeed);
    if (memory::TupleKey(batch[1], hash) < memory::TupleKey(batch[0], hash)) {
      std::swap(batch[0], batch[1]);
    }
    batch[1].limit = batch[1].cost = 1;
    const Instant first = world->clock.now();
    if (world->engine->check(first, batch[0])->admitted()) world->accepted = 50;
    if (accepted == Accepted::kInTheLastWindow) world->clock.advance(kHour);
    (void)world->engine->check(world->clock.now(), batch[1]);
    return Instance{.threads = {[=] { (void)world->engine->check_all(world->clock.now(), batch); },
                                [=] { world->replay(); }},
                    .violation = [=] { return world->unacked(batch[0], first); }};
  };
}

Workload charges_beside_replays(Path path) {
  return [path] {
    const auto world = std::make_shared<Replaying>();
    const Request request = request_for("a", 1'000'000, 1);
    const Instant now = world->clock.now();
    const auto count = [=](const Result<Verdict>& verdict) {
      if (verdict->admitted()) ++world->accepted;
    };
    // A fresh tuple is charged on the fast path.
    world->engine->check_async(now, request, world->executor, count);
    world->executor.run();
    const auto twice = [=] {
      if (path == Path::kSlow) {
        for (int i = 0; i < 2; ++i) count(world->engine->check(now, request));
        return;
      }
      const std::array requests = {request, request};
      std::array<Result<Verdict>, 2> verdicts;
      world->engine->check_each(now, requests, verdicts);
      for (const auto& verdict : verdicts) count(verdict);
    };
    return Instance{.threads = {twice, twice,
                                [=] {
                                  for (int i = 0; i < 2; ++i) world->replay();
                                }},
                    .violation = [=] { return world->unacked(request, now); }};
  };
}

Workload replays_on_two_threads() {
  return [] {
    const auto world = std::make_shared<Replaying>();
    const Request request = request_for("a", 1'000'000, 1);
    const Instant now = world->clock.now();
    const auto charge = [=] {
      if (world->engine->check(now, request)->admitted()) ++world->accepted;
    };
    charge();
    return Instance{.threads = {[=] { world->replay(); }, [=] { world->replay(); },
                                [=] {
                                  for (int i = 0; i < 2; ++i) charge();
                                }},
                    .violation = [=]() -> std::string {
                      const std::string wrong = world->unacked(request, now);
                      const uint64_t unacked = world->engine->stats().unacked;
                      if (!wrong.empty() || unacked == 0) return wrong;
                      return std::to_string(unacked) + " cells seem unacknowledged";
                    }};
  };
}

Workload waiters_of_one_read() {
  struct Reading {
    doubles::ManualClock clock;
    doubles::ManualExecutor executor{clock};
    std::shared_ptr<doubles::ScriptedOrigin> origin = std::make_shared<doubles::ScriptedOrigin>();
    std::shared_ptr<Engine> engine =
        Engine::make(clock, {.origin = origin, .capacity = 1, .seed = kSeed});
    std::array<int, 2> answers{};
  };
  return [] {
    const auto world = std::make_shared<Reading>();
    const Instant now = world->clock.now();
    const auto wait = [=](size_t waiter) {
      world->engine->check_async(now, request_for("a", 10, 1), world->executor,
                                 [=](const Result<Verdict>&) { ++world->answers[waiter]; });
    };
    return Instance{.threads = {[=] { wait(0); }, [=] { wait(1); },
                                [=] {
                                  // Answers reads for a few rounds, if there are any.
                                  constexpr int kRounds = 8;
                                  for (int round = 0; round < kRounds; ++round) {
                                    base::while_waiting();
                                    if (!world->origin->reads.empty())
                                      world->origin->answer_read({});
                                  }
                                },
                                [=] {
                                  world->clock.advance(Millis(300));
                                  world->executor.run();
                                }},
                    .violation = [=]() -> std::string {
                      while (!world->origin->reads.empty()) world->origin->answer_read({});
                      world->clock.advance(Millis(300));
                      world->executor.run();
                      for (const int answers : world->answers) {
                        if (answers != 1) {
                          return "a request was answered " + std::to_string(answers) + " times";
                        }
                      }
                      return {};
                    }};
  };
}

namespace {

// Two regions that know of each other.
struct Regions {
  doubles::ManualClock clock;
  std::shared_ptr<ledgers::MemoryLedger> ledger = std::make_shared<ledgers::MemoryLedger>(clock);
  std::shared_ptr<Engine> east = region("east", ledger);
  std::shared_ptr<Engine> west = region("west", ledger->another_client());

  Regions() {
    // East follows the feed of west, which begins with the first row.
    const auto pass = [this](Millis time) {
      for (Millis passed{0}; passed < time; passed += Millis(10)) {
        clock.advance(Millis(10));
        west->run_sync(clock.now());
        sync();
      }
    };
    pass(Millis(300));
    (void)west->check(clock.now(), request_for("first", 100, 80));
    pass(Millis(500));
  }
  [[nodiscard]] std::shared_ptr<Engine> region(std::string name,
                                               std::shared_ptr<GlobalLedger> seen) const {
    return Engine::make(
        clock,
        {.ledger = std::move(seen), .region = std::move(name), .capacity = 1, .seed = kSeed});
  }
  void sync() { east->run_sync(clock.now()); }
};

}  // namespace

Workload charges_beside_sync() {
  return [] {
    const auto world = std::make_shared<Regions>();
    // A quarter of the limit must be published.
    const auto charge = [=](Count cost) {
      for (int i = 0; i < 2; ++i) {
        (void)world->east->check(world->clock.now(), request_for("a", 100, cost));
      }
    };
    charge(1);
    world->sync();
    return Instance{
        .threads = {[=] { charge(4); }, [=] { charge(8); },
                    [=] {
                      for (int i = 0; i < 2; ++i) world->sync();
                    }},
        .violation = [=] {
          std::string wrong;
          world->sync();
          if (!world->east->sync_stats().ready) wrong = "the first full read has not ended";
          world->east->inspect_sync(world->clock.now(), [&](const global::SharedCell& cell) {
            if (cell.reason == global::PublishReason::kNone || cell.waits) return;
            wrong = "the rule requires to publish " + std::to_string(cell.usage.counted) +
                    ", and the cell is not queued";
          });
          return wrong;
        }};
  };
}

Workload creation_beside_an_import() {
  return [] {
    const auto world = std::make_shared<Regions>();
    (void)world->west->check(world->clock.now(), request_for("a", 100, 80));
    world->west->run_sync(world->clock.now(), Flush::kAll);
    world->clock.advance(Millis(400));  // the next import is due
    const auto accepted = std::make_shared<Count>(0);
    return Instance{
        .threads = {[=] {
                      for (int round = 0; round < 2; ++round) world->sync();
                    },
                    [=] {
                      const auto verdict =
                          world->east->check(world->clock.now(), request_for("a", 100, 1));
                      if (verdict->admitted()) ++*accepted;
                    }},
        .violation = [=]() -> std::string {
          for (int round = 0; round < 2; ++round) world->sync();
          const Count remaining =
              world->east->check(world->clock.now(), request_for("a", 100, 0))->remaining;
          if (remaining == 20 - *accepted) return {};
          return std::to_string(remaining) + " of 100 remain, and west has 80";
        }};
  };
}

Workload creation_of_a_tuple_with_imported_counts() {
  return [] {
    const auto world = std::make_shared<Regions>();
    (void)world->west->check(world->clock.now(), request_for("a", 100, 80));
    world->west->run_sync(world->clock.now(), Flush::kAll);
    world->clock.advance(Millis(400));
    for (int round = 0; round < 2; ++round) world->sync();
    const auto admitted = std::make_shared<Count>(0);
    const auto ask = [=] {
      const auto verdict = world->east->check(world->clock.now(), request_for("a", 100, 90));
      if (verdict->admitted()) *admitted += 90;
    };
    return Instance{.threads = {ask, ask}, .violation = [=]() -> std::string {
                      if (*admitted == 0) return {};
                      return "admitted " + std::to_string(*admitted) +
                             " of 100 after the import of 80 from west";
                    }};
  };
}

Workload replays_that_are_answered_late() {
  // Holds replies until answer() is called.
  class DelayedOrigin final : public RegionalOrigin {
   public:
    explicit DelayedOrigin(const Clock& clock) : store_(clock) {}
    void read(std::vector<CellRead> cells, OriginReply reply) override {
      store_.read(std::move(cells), std::move(reply));
    }
    void replay(std::vector<CellReplay> cells, OriginReply reply) override {
      waiting_.push_back([this, cells = std::move(cells), reply = std::move(reply)]() mutable {
        store_.replay(std::move(cells), std::move(reply));
      });
    }
    void answer() {
      if (waiting_.empty()) return;
      const auto next = std::move(waiting_.front());
      waiting_.erase(waiting_.begin());
      next();
    }
    [[nodiscard]] bool waits() const { return !waiting_.empty(); }
    [[nodiscard]] const origins::InProcessOrigin& store() const { return store_; }

   private:
    origins::InProcessOrigin store_;
    std::vector<std::function<void()>> waiting_;
  };
  struct Late {
    doubles::ManualClock clock;
    doubles::ManualExecutor executor{clock};
    std::shared_ptr<DelayedOrigin> origin = std::make_shared<DelayedOrigin>(clock);
    std::shared_ptr<Engine> engine = Engine::make(
        clock, {.origin = origin, .replay_within = Millis(0), .capacity = 1, .seed = kSeed});
    Count accepted = 0;
    void replay() { engine->run_replay(clock.now(), executor, Flush::kAll); }
  };
  return [] {
    const auto world = std::make_shared<Late>();
    const Request request = request_for("a", 1'000'000, 1);
    const Instant now = world->clock.now();
    const auto charge = [=] {
      if (world->engine->check(now, request)->admitted()) ++world->accepted;
    };
    charge();
    return Instance{
        .threads = {[=] {
                      charge();
                      charge();
                    },
                    [=] {
                      world->replay();
                      world->replay();
                    },
                    [=] {
                      for (int round = 0; round < 4; ++round) {
                        base::while_waiting();
                        world->origin->answer();
                      }
                    },
                    [=] {
                      base::while_waiting();
                      world->clock.advance(Millis(300));
                      world->executor.run();
                    }},
        .violation = [=]() -> std::string {
          for (int round = 0; round < 4; ++round) {
            while (world->origin->waits()) world->origin->answer();
            world->replay();
          }
          const CellId cell{memory::TupleKey(request, base::KeyedHash(0)).encoded(),
                            now.wall.time_since_epoch() / request.duration};
          Count acked = 0;
          for (const auto& [component, count] : world->origin->store().components(cell)) {
            acked += count;
          }
          const uint64_t unacked = world->engine->stats().unacked;
          if (acked == world->accepted && unacked == 0) return {};
          return "the origin has " + std::to_string(acked) + " of " +
                 std::to_string(world->accepted) + ", and " + std::to_string(unacked) +
                 " cells seem unacknowledged";
        }};
  };
}

}  // namespace weir::schedule
