#include <array>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "decide/batch.h"
#include "decide/decider.h"
#include "decide/engine.h"
#include "decide/limiter_state.h"
#include "epoch/epoch.h"
#include "memory/table.h"
#include "origins/in_process_origin.h"
#include "regional/replay.h"
#include "sim/random.h"
#include "tests/doubles/manual_clock.h"
#include "tests/schedule/workloads.h"

namespace weir::schedule {
namespace {

using decide::Decider;
using decide::RequestContext;
using memory::CellDecision;

constexpr Millis kWindow{3'600'000};
constexpr size_t kSlots = memory::kBucketSlots;

// The parts of an engine with one full bucket; the tuple "emptiest" is the next to evict.
struct FullTable {
  doubles::ManualClock clock;
  doubles::ManualExecutor executor{clock};
  std::shared_ptr<origins::InProcessOrigin> origin =
      std::make_shared<origins::InProcessOrigin>(clock);
  decide::LimiterState state{
      clock, Options{.origin = origin, .replay_within = Millis(0), .capacity = 1}, 1};
  Decider decider{state};
  std::shared_ptr<regional::Replay> replaying = std::make_shared<regional::Replay>(
      state.tuples, state.region, state.merger, nullptr, state.counters);
  Count accepted = 0;

  // Leaves `free` of its slots empty.
  explicit FullTable(size_t free = 0) {
    (void)ask("emptiest", 1000, 1);
    for (size_t i = 1; i + free < kSlots; ++i) (void)ask("tuple " + std::to_string(i), 10, 5);
    replay();
  }

  [[nodiscard]] RequestContext context_of(std::string_view name, Count limit, Count cost) const {
    const Request request{
        .ns = "schedule", .identifier = name, .limit = limit, .duration = kWindow, .cost = cost};
    return {clock.now(), request, state.tuples->hash};
  }
  CellDecision ask(std::string_view name, Count limit, Count cost) {
    return decider.decide(context_of(name, limit, cost));
  }
  CellDecision ask_at(Instant now, std::string_view name, Count limit, Count cost) {
    RequestContext context = context_of(name, limit, cost);
    context.set_time(now);
    return decider.decide(context);
  }
  // Sums the costs that the table admitted; those of the sketch are not replayed.
  void count(const CellDecision& result, Count cost) {
    if (result.decision.admitted() && !result.approximate) accepted += cost;
  }
  // Compares the origin's counts of these tuples, in this window and the last, after all replays.
  [[nodiscard]] std::string unacked(std::initializer_list<std::string_view> names) {
    for (int round = 0; round < 3; ++round) replay();
    Count acked = 0;
    for (const std::string_view name : names) {
      const int64_t sequence = clock.now().wall.time_since_epoch() / kWindow;
      for (const int64_t back : {0, 1}) {
        const CellId cell{context_of(name, 1, 1).key.encoded(), sequence - back};
        for (const auto& [component, count] : origin->components(cell)) acked += count;
      }
    }
    if (acked == accepted) return {};
    return "the origin has " + std::to_string(acked) + " of " + std::to_string(accepted) +
           " that were accepted";
  }
  void replay() { replaying->run_once(clock.now(), executor, Flush::kAll); }

  // Once all tuples have expired, as many new ones as there are slots can be created.
  [[nodiscard]] std::string lost_slots() {
    clock.advance(10 * kWindow);
    for (size_t i = 0; i < kSlots; ++i) (void)ask("later " + std::to_string(i), 10, 1);
    const uint64_t tuples = state.tuples->table.stats().tuples;
    if (tuples == kSlots) return {};
    return "of " + std::to_string(kSlots) + " slots " + std::to_string(kSlots - tuples) +
           " cannot be used any more";
  }
};

}  // namespace

Workload flood_beside_a_replay() {
  return [] {
    const auto world = std::make_shared<FullTable>();
    world->accepted = 1;
    const auto charge = [=](std::string_view name) { world->count(world->ask(name, 1000, 1), 1); };
    charge("emptiest");
    return Instance{.threads = {[=] { world->replay(); },
                                [=] {
                                  charge("new 1");
                                  charge("new 2");
                                },
                                [=] { charge("emptiest"); }},
                    .violation = [=] {
                      const std::string wrong = world->unacked({"emptiest", "new 1", "new 2"});
                      return wrong.empty() ? world->lost_slots() : wrong;
                    }};
  };
}

Workload first_charge_of_a_window_beside_a_replay() {
  return [] {
    const auto world = std::make_shared<FullTable>(1);
    const Instant now = world->clock.now();
    const Instant before{.wall = now.wall - Millis(1), .mono = now.mono - Millis(1)};
    const auto charge = [=](Instant when) {
      world->count(world->ask_at(when, "next to evict", 100'000, 1), 1);
    };
    charge(before);
    return Instance{.threads = {[=] { world->replay(); },
                                [=] {
                                  charge(now);
                                  (void)world->ask("new", 10, 5);
                                }},
                    .violation = [=] { return world->unacked({"next to evict"}); }};
  };
}

Workload flood_beside_a_reader() {
  struct Read : FullTable {
    bool changed = false;
    // Reads the slot several times under one guard: it must stay the tuple that was found.
    void read(const RequestContext& context) {
      const epoch::Guard guard;
      const memory::Tuple tuple = state.tuples->table.find(context.key);
      if (!tuple) return;
      CellDecision result;
      (void)decider.decide_found(tuple, context.query, result);
      constexpr int kReads = 8;
      for (int i = 0; i < kReads; ++i) {
        (void)tuple.slot->hot[0].load(std::memory_order_acquire);
        changed = changed || !memory::detail::same_key(*tuple.slot, context.key);
      }
    }
  };
  return [] {
    const auto world = std::make_shared<Read>();
    const RequestContext refused = world->context_of("emptiest", 1000, 1000);
    return Instance{.threads = {[=] { world->read(refused); },
                                [=] {
                                  for (const char* name : {"new 1", "new 2"}) {
                                    (void)world->ask(name, 1000, 1);
                                  }
                                }},
                    .violation = [=]() -> std::string {
                      if (world->changed)
                        return "the slot of a tuple was reused under a reader's epoch guard";
                      return world->lost_slots();
                    }};
  };
}

Workload creation_of_one_tuple() {
  struct CreateResult {
    doubles::ManualClock clock;
    decide::LimiterState state{clock, Options{.capacity = 1}, 1};
    Decider decider{state};
    int admitted = 0;
  };
  return [] {
    const auto world = std::make_shared<CreateResult>();
    const auto ask = [=] {
      const Request request{.ns = "schedule", .identifier = "new", .limit = 1, .duration = kWindow};
      const RequestContext context(world->clock.now(), request, world->state.tuples->hash);
      if (world->decider.decide(context).decision.admitted()) ++world->admitted;
    };
    return Instance{.threads = {ask, ask, ask}, .violation = [=]() -> std::string {
                      const uint64_t tuples = world->state.tuples->table.stats().tuples;
                      if (tuples != 1)
                        return "the tuple is in " + std::to_string(tuples) + " slots";
                      if (world->admitted == 1) return {};
                      return "admitted " + std::to_string(world->admitted) + " of 1";
                    }};
  };
}

Workload sketch_beside_a_freed_slot() {
  struct Scarce {
    doubles::ManualClock clock;
    decide::LimiterState state{clock, Options{.capacity = 1}, 1};
    Decider decider{state};
    Count admitted = 0;
    void ask(std::string_view name, Millis duration, Millis when, Count cost) {
      const Request request{
          .ns = "schedule", .identifier = name, .limit = 10, .duration = duration, .cost = cost};
      const Instant now{.wall = clock.now().wall + when, .mono = clock.now().mono + when};
      const RequestContext context(now, request, state.tuples->hash);
      if (decider.decide(context).decision.admitted()) admitted += cost;
    }
  };
  return [] {
    const auto world = std::make_shared<Scarce>();
    // Two seconds later the first of them has expired, a millisecond before that it has not.
    constexpr Millis kShort{1000};
    world->ask("first", kShort, Millis(0), 1);
    for (size_t i = 1; i < kSlots; ++i) {
      world->ask("tuple " + std::to_string(i), kWindow, Millis(0), 1);
    }
    world->admitted = 0;
    const auto ask = [=](Millis when) { world->ask("new", kWindow, when, 6); };
    return Instance{.threads = {[=] { ask(2 * kShort - Millis(1)); }, [=] { ask(2 * kShort); }},
                    .violation = [=]() -> std::string {
                      if (world->admitted <= 10) return {};
                      return "admitted " + std::to_string(world->admitted) +
                             " of 10, in the table and in the sketch";
                    }};
  };
}

// The origin gets every admission in the end, in either window.
Workload any_replaying(uint64_t recipe) {
  struct Acked : FullTable {
    Acked() : FullTable(3) {}
    void charge(Instant now, std::string_view name, Count cost) {
      count(ask_at(now, name, 1000, cost), cost);
    }
    void ask_both(Instant now, Count cost, Count limit_of_second) {
      std::vector<RequestContext> contexts = {context_of("a", 1000, cost),
                                              context_of("b", limit_of_second, cost)};
      for (RequestContext& context : contexts) context.set_time(now);
      const decide::BatchDecision decision = decide::Batch(decider, state, contexts).run();
      if (!decision.admitted) return;
      for (size_t i = 0; i < contexts.size(); ++i) {
        count(decision.items[i], contexts[i].query.ask.cost);
      }
    }
  };
  return [recipe] {
    const auto world = std::make_shared<Acked>();
    sim::Random random(recipe);
    const Instant now = world->clock.now();
    const Instant before{.wall = now.wall - Millis(1), .mono = now.mono - Millis(1)};
    const auto any_name = [&] {
      constexpr std::array<std::string_view, 5> kNames = {"a", "b", "new 1", "new 2", "new 3"};
      return kNames[static_cast<size_t>(random.between(0, 4))];
    };
    const auto any_step = [&]() -> std::function<void()> {
      const Instant when = random.one_in(2) ? now : before;
      const auto cost = static_cast<Count>(random.between(1, 5));
      if (random.one_in(3)) {
        const Count limit = random.one_in(2) ? 1000 : 1;
        return [=] { world->ask_both(when, cost, limit); };
      }
      return [=, name = any_name()] { world->charge(when, name, cost); };
    };
    world->charge(before, "a", 1);
    if (random.one_in(2)) world->replay();
    world->charge(random.one_in(2) ? before : now, "b", 1);
    Instance instance;
    for (int thread = 0; thread < 2; ++thread) {
      std::vector<std::function<void()>> steps;
      for (int64_t i = random.between(1, 3); i > 0; --i) steps.push_back(any_step());
      instance.threads.push_back([steps] {
        for (const auto& step : steps) step();
      });
    }
    instance.threads.push_back([world, times = random.between(1, 2)] {
      for (int64_t i = 0; i < times; ++i) world->replay();
    });
    instance.violation = [=] {
      const std::string wrong = world->unacked({"a", "b", "new 1", "new 2", "new 3"});
      return wrong.empty() ? world->lost_slots() : wrong;
    };
    return instance;
  };
}

// The limit is used up at the origin, so an admission must report a degraded basis.
Workload reads_beside_a_flood() {
  struct Read : FullTable {
    std::shared_ptr<decide::Engine> engine = decide::Engine::make(
        clock, {.origin = origin, .replay_within = Millis(0), .capacity = 1, .seed = 2});
    bool wrong_basis = false;
  };
  return [] {
    const auto world = std::make_shared<Read>();
    const Instant now = world->clock.now();
    const auto request_of = [](std::string_view name, Count limit, Count cost) {
      return Request{
          .ns = "schedule", .identifier = name, .limit = limit, .duration = kWindow, .cost = cost};
    };
    // Another process has used all of it.
    (void)world->ask("known", 10, 10);
    (void)world->ask("known", 10, 10);
    world->replay();
    for (size_t i = 0; i + 1 < kSlots; ++i) {
      (void)world->engine->check(now, request_of("mine " + std::to_string(i), 10, 5));
    }
    world->engine->run_replay(now, world->executor, Flush::kAll);
    const auto read = [=] {
      world->engine->check_async(now, request_of("known", 10, 1), world->executor,
                                 [=](const Result<Verdict>& verdict) {
                                   const bool admitted = verdict->admitted();
                                   if (admitted && verdict->basis != Basis::kDegraded) {
                                     world->wrong_basis = true;
                                   }
                                 });
      world->executor.run();
    };
    return Instance{
        .threads = {read, read,
                    [=] {
                      for (const char* name : {"new 1", "new 2"}) {
                        (void)world->engine->check(now, request_of(name, 10, 1));
                      }
                    }},
        .violation = [=]() -> std::string {
          world->executor.run();
          return world->wrong_basis ? "admitted as well informed, and the origin has 10 of 10" : "";
        }};
  };
}

}  // namespace weir::schedule
