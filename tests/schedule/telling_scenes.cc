#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/atomic.h"
#include "base/keyed_hash.h"
#include "ledgers/memory_ledger.h"
#include "limiter/engine.h"
#include "memory/tuple_key.h"
#include "origins/in_process_origin.h"
#include "tests/doubles/manual_clock.h"
#include "tests/doubles/scripted_origin.h"
#include "tests/schedule/scenes.h"

namespace weir::schedule {
namespace {

using limiter::Engine;

constexpr uint64_t kSeed = 1;
constexpr Millis kHour{3'600'000};

// An engine that tells an origin what it accepts.
struct Telling {
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
  // What the origin has once everything has been told.
  [[nodiscard]] std::string unacked(const Request& request, Instant when) {
    for (int turn = 0; turn < 3; ++turn) replay();
    const Count has = acked(request, when);
    if (has == accepted) return {};
    return "the origin has " + std::to_string(has) + " of " + std::to_string(accepted) +
           " that were accepted";
  }
};

Request request_for(std::string_view identifier, int64_t limit, int64_t cost) {
  return {
      .ns = "schedule", .identifier = identifier, .limit = limit, .duration = kHour, .cost = cost};
}

}  // namespace

Scene refused_batch_beside_a_replay(Accepted accepted) {
  return [accepted] {
    const auto world = std::make_shared<Telling>();
    // A batch takes its tuples in the order of their hashes: the one that refuses comes last.
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
    return Play{.threads = {[=] { (void)world->engine->check_all(world->clock.now(), batch); },
                            [=] { world->replay(); }},
                .broken = [=] { return world->unacked(batch[0], first); }};
  };
}

Scene charges_beside_replays(Path path) {
  return [path] {
    const auto world = std::make_shared<Telling>();
    const Request request = request_for("a", 1'000'000, 1);
    const Instant now = world->clock.now();
    const auto count = [=](const Result<Verdict>& verdict) {
      if (verdict->admitted()) ++world->accepted;
    };
    // A tuple that was read lately is charged without a look at anything else.
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
    return Play{.threads = {twice, twice,
                            [=] {
                              for (int i = 0; i < 2; ++i) world->replay();
                            }},
                .broken = [=] { return world->unacked(request, now); }};
  };
}

Scene replays_on_two_threads() {
  return [] {
    const auto world = std::make_shared<Telling>();
    const Request request = request_for("a", 1'000'000, 1);
    const Instant now = world->clock.now();
    const auto charge = [=] {
      if (world->engine->check(now, request)->admitted()) ++world->accepted;
    };
    charge();
    return Play{.threads = {[=] { world->replay(); }, [=] { world->replay(); },
                            [=] {
                              for (int i = 0; i < 2; ++i) charge();
                            }},
                .broken = [=]() -> std::string {
                  const std::string wrong = world->unacked(request, now);
                  const uint64_t unacked = world->engine->stats().unacked;
                  if (!wrong.empty() || unacked == 0) return wrong;
                  return std::to_string(unacked) + " cells seem to wait";
                }};
  };
}

Scene waiters_of_one_read() {
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
    const auto wait = [=](size_t who) {
      world->engine->check_async(now, request_for("a", 10, 1), world->executor,
                                 [=](const Result<Verdict>&) { ++world->answers[who]; });
    };
    return Play{.threads = {[=] { wait(0); }, [=] { wait(1); },
                            [=] {
                              // Until there is something to answer, or there will not be.
                              constexpr int kTurns = 8;
                              for (int turn = 0; turn < kTurns; ++turn) {
                                base::while_waiting();
                                if (!world->origin->reads.empty()) world->origin->answer_read({});
                              }
                            },
                            [=] {
                              world->clock.advance(Millis(300));
                              world->executor.run();
                            }},
                .broken = [=]() -> std::string {
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

// Two regions that have heard of each other.
struct Regions {
  doubles::ManualClock clock;
  std::shared_ptr<ledgers::MemoryLedger> ledger = std::make_shared<ledgers::MemoryLedger>(clock);
  std::shared_ptr<Engine> east = region("east", ledger);
  std::shared_ptr<Engine> west = region("west", ledger->as_seen_by_another());

  Regions() {
    for (int turn = 0; turn < 8; ++turn) {
      west->run_sync(clock.now());
      share();
      clock.advance(Millis(10));
    }
  }
  [[nodiscard]] std::shared_ptr<Engine> region(std::string name,
                                               std::shared_ptr<GlobalLedger> seen) const {
    return Engine::make(
        clock,
        {.ledger = std::move(seen), .region = std::move(name), .capacity = 1, .seed = kSeed});
  }
  void share() { east->run_sync(clock.now()); }
};

}  // namespace

Scene charges_beside_sync() {
  return [] {
    const auto world = std::make_shared<Regions>();
    // A quarter of the limit must not stay hidden.
    const auto charge = [=](int64_t cost) {
      for (int i = 0; i < 2; ++i) {
        (void)world->east->check(world->clock.now(), request_for("a", 100, cost));
      }
    };
    charge(1);
    world->share();
    return Play{.threads = {[=] { charge(4); }, [=] { charge(8); },
                            [=] {
                              for (int i = 0; i < 2; ++i) world->share();
                            }},
                .broken = [=] {
                  std::string wrong;
                  world->share();
                  if (!world->east->sync_stats().ready) wrong = "not all was heard";
                  world->east->inspect_sync(
                      world->clock.now(), [&](const limiter::SharedCell& cell) {
                        if (cell.rule == limiter::Publish::kNothing || cell.waits) return;
                        wrong = "the rule wants " + std::to_string(cell.holding.counted) +
                                " published, and the cell does not wait for it";
                      });
                  return wrong;
                }};
  };
}

Scene creation_beside_news_of_another_region() {
  return [] {
    const auto world = std::make_shared<Regions>();
    (void)world->west->check(world->clock.now(), request_for("a", 100, 80));
    world->west->run_sync(world->clock.now(), Flush::kAll);
    world->clock.advance(Millis(400));  // by then it is time to hear of it
    const auto accepted = std::make_shared<Count>(0);
    return Play{.threads = {[=] {
                              for (int turn = 0; turn < 2; ++turn) world->share();
                            },
                            [=] {
                              const auto verdict =
                                  world->east->check(world->clock.now(), request_for("a", 100, 1));
                              if (verdict->admitted()) ++*accepted;
                            }},
                .broken = [=]() -> std::string {
                  for (int turn = 0; turn < 2; ++turn) world->share();
                  const Count remaining =
                      world->east->check(world->clock.now(), request_for("a", 100, 0))->remaining;
                  if (remaining == 20 - *accepted) return {};
                  return "of 100 remain " + std::to_string(remaining) + " where west has 80";
                }};
  };
}

Scene creation_of_a_tuple_known_abroad() {
  return [] {
    const auto world = std::make_shared<Regions>();
    (void)world->west->check(world->clock.now(), request_for("a", 100, 80));
    world->west->run_sync(world->clock.now(), Flush::kAll);
    world->clock.advance(Millis(400));
    for (int turn = 0; turn < 2; ++turn) world->share();
    const auto admitted = std::make_shared<Count>(0);
    const auto ask = [=] {
      const auto verdict = world->east->check(world->clock.now(), request_for("a", 100, 90));
      if (verdict->admitted()) *admitted += 90;
    };
    return Play{.threads = {ask, ask}, .broken = [=]() -> std::string {
                  if (*admitted == 0) return {};
                  return "admitted " + std::to_string(*admitted) +
                         " of 100, and it was known that west has 80";
                }};
  };
}

Scene replays_that_are_answered_late() {
  // Answers when it is asked to, with what an origin says then.
  class Held final : public RegionalOrigin {
   public:
    explicit Held(const Clock& clock) : store_(clock) {}
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
    std::shared_ptr<Held> origin = std::make_shared<Held>(clock);
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
    return Play{.threads = {[=] {
                              charge();
                              charge();
                            },
                            [=] {
                              world->replay();
                              world->replay();
                            },
                            [=] {
                              for (int turn = 0; turn < 4; ++turn) {
                                base::while_waiting();
                                world->origin->answer();
                              }
                            },
                            [=] {
                              base::while_waiting();
                              world->clock.advance(Millis(300));
                              world->executor.run();
                            }},
                .broken = [=]() -> std::string {
                  for (int turn = 0; turn < 4; ++turn) {
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
                         " cells seem to wait";
                }};
  };
}

}  // namespace weir::schedule
