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
#include "tests/doubles/hand_clock.h"
#include "tests/doubles/scripted_origin.h"
#include "tests/schedule/scenes.h"

namespace weir::schedule {
namespace {

using limiter::Engine;

constexpr uint64_t kSeed = 1;
constexpr Millis kHour{3'600'000};

// An engine that tells an origin what it accepts.
struct Telling {
  doubles::HandClock clock;
  doubles::HandExecutor executor{clock};
  std::shared_ptr<origins::InProcessOrigin> origin =
      std::make_shared<origins::InProcessOrigin>(clock);
  std::shared_ptr<Engine> engine = Engine::make(
      clock, {.origin = origin, .replay_within = Millis(0), .capacity = 1, .seed = kSeed});
  Count accepted = 0;

  void replay() { engine->run_replay(clock.now(), executor, Tell::kAll); }
  [[nodiscard]] Count told(const Request& request, Instant when) const {
    const CellId cell{memory::TupleKey(request, base::KeyedHash(0)).encoded(),
                      when.wall.time_since_epoch() / request.duration};
    Count sum = 0;
    for (const auto& [component, count] : origin->components(cell)) sum += count;
    return sum;
  }
  // What the origin has once everything has been told.
  [[nodiscard]] std::string untold(const Request& request, Instant when) {
    for (int turn = 0; turn < 3; ++turn) replay();
    const Count has = told(request, when);
    if (has == accepted) return {};
    return "the origin has " + std::to_string(has) + " of " + std::to_string(accepted) +
           " that were accepted";
  }
};

Request request_for(std::string_view identifier, int64_t limit, int64_t cost) {
  return {.name_space = "schedule",
          .identifier = identifier,
          .limit = limit,
          .duration = kHour,
          .cost = cost};
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
                .broken = [=] { return world->untold(batch[0], first); }};
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
                .broken = [=] { return world->untold(request, now); }};
  };
}

Scene waiters_of_one_read() {
  struct Reading {
    doubles::HandClock clock;
    doubles::HandExecutor executor{clock};
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

Scene charges_beside_sharing() {
  struct Shared {
    doubles::HandClock clock;
    std::shared_ptr<ledgers::MemoryLedger> ledger = std::make_shared<ledgers::MemoryLedger>(clock);
    std::shared_ptr<Engine> engine = Engine::make(
        clock, {.ledger = ledger, .region = "east", .capacity = 16, .seed = kSeed});
    void share() { engine->run_sharing(clock.now()); }
  };
  return [] {
    const auto world = std::make_shared<Shared>();
    // There is another region, and everything was heard.
    world->ledger->attend({.region = "west"}, {}, [](const auto&) {});
    for (int turn = 0; turn < 8; ++turn) {
      world->clock.advance(Millis(10));
      world->share();
    }
    // A quarter of the limit must not stay hidden.
    const auto charge = [=](int64_t cost) {
      for (int i = 0; i < 2; ++i) {
        (void)world->engine->check(world->clock.now(), request_for("a", 100, cost));
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
                  if (!world->engine->sharing_stats().ready) wrong = "not all was heard";
                  world->engine->inspect_sharing(
                      world->clock.now(), [&](const limiter::SharedCell& cell) {
                        if (cell.rule == limiter::Publish::kNothing || cell.waits) return;
                        wrong = "the rule wants " + std::to_string(cell.holding.counted) +
                                " published, and the cell does not wait for it";
                      });
                  return wrong;
                }};
  };
}

}  // namespace weir::schedule
