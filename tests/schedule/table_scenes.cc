#include <array>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "epoch/epoch.h"
#include "limiter/batch.h"
#include "limiter/engine.h"
#include "limiter/judge.h"
#include "limiter/replay.h"
#include "limiter/store.h"
#include "memory/table.h"
#include "origins/in_process_origin.h"
#include "sim/random.h"
#include "tests/doubles/manual_clock.h"
#include "tests/schedule/scenes.h"

namespace weir::schedule {
namespace {

using limiter::Decider;
using limiter::RequestContext;
using limiter::Ruling;

constexpr Millis kWindow{3'600'000};
constexpr size_t kSlots = memory::kBucketSlots;

// The parts of an engine with one bucket, which is full; the tuple "emptiest" is the first to go.
struct FullTable {
  doubles::ManualClock clock;
  doubles::ManualExecutor executor{clock};
  std::shared_ptr<origins::InProcessOrigin> origin =
      std::make_shared<origins::InProcessOrigin>(clock);
  std::shared_ptr<limiter::Store> store = std::make_shared<limiter::Store>(
      clock, Options{.origin = origin, .replay_within = Millis(0), .capacity = 1}, 1);
  Decider decider{store};
  std::shared_ptr<limiter::Replay> replaying = std::make_shared<limiter::Replay>(store);
  Count accepted = 0;

  // `free` of its slots are left.
  explicit FullTable(size_t free = 0) {
    (void)ask("emptiest", 1000, 1);
    for (size_t i = 1; i + free < kSlots; ++i) (void)ask("tuple " + std::to_string(i), 10, 5);
    replay();
  }

  [[nodiscard]] RequestContext case_of(std::string_view name, int64_t limit, int64_t cost) const {
    const Request request{
        .ns = "schedule", .identifier = name, .limit = limit, .duration = kWindow, .cost = cost};
    return {clock.now(), request, store->hash};
  }
  Ruling ask(std::string_view name, int64_t limit, int64_t cost) {
    return decider.rule(case_of(name, limit, cost));
  }
  Ruling ask_at(Instant now, std::string_view name, int64_t limit, int64_t cost) {
    RequestContext context = case_of(name, limit, cost);
    context.ask_at(now);
    return decider.rule(context);
  }
  // Adds up what the table accepted; not what the sketch did, which is told to nobody.
  void count(const Ruling& ruling, Count cost) {
    if (ruling.step.decision.admitted() && !ruling.sketched) accepted += cost;
  }
  // What is wrong with what the origin has of these, in this window and the last, when all is told.
  [[nodiscard]] std::string unacked(std::initializer_list<std::string_view> names) {
    for (int turn = 0; turn < 3; ++turn) replay();
    Count acked = 0;
    for (const std::string_view name : names) {
      const int64_t sequence = clock.now().wall.time_since_epoch() / kWindow;
      for (const int64_t back : {0, 1}) {
        const CellId cell{case_of(name, 1, 1).key.encoded(), sequence - back};
        for (const auto& [component, count] : origin->components(cell)) acked += count;
      }
    }
    if (acked == accepted) return {};
    return "the origin has " + std::to_string(acked) + " of " + std::to_string(accepted) +
           " that were accepted";
  }
  void replay() { replaying->run_once(clock.now(), executor, Flush::kAll); }

  // Once all has expired, as many new tuples as there are slots find a place.
  [[nodiscard]] std::string lost_slots() {
    clock.advance(10 * kWindow);
    for (size_t i = 0; i < kSlots; ++i) (void)ask("later " + std::to_string(i), 10, 1);
    const uint64_t tuples = store->table.stats().tuples;
    if (tuples == kSlots) return {};
    return "of " + std::to_string(kSlots) + " slots " + std::to_string(kSlots - tuples) +
           " cannot be used any more";
  }
};

}  // namespace

Scene flood_beside_a_replay() {
  return [] {
    const auto world = std::make_shared<FullTable>();
    world->accepted = 1;
    const auto charge = [=](std::string_view name) { world->count(world->ask(name, 1000, 1), 1); };
    charge("emptiest");
    return Play{.threads = {[=] { world->replay(); },
                            [=] {
                              charge("new 1");
                              charge("new 2");
                            },
                            [=] { charge("emptiest"); }},
                .broken = [=] {
                  const std::string wrong = world->unacked({"emptiest", "new 1", "new 2"});
                  return wrong.empty() ? world->lost_slots() : wrong;
                }};
  };
}

Scene first_charge_of_a_window_beside_a_replay() {
  return [] {
    const auto world = std::make_shared<FullTable>(1);
    const Instant now = world->clock.now();
    const Instant before{.wall = now.wall - Millis(1), .mono = now.mono - Millis(1)};
    const auto charge = [=](Instant when) {
      world->count(world->ask_at(when, "next to go", 100'000, 1), 1);
    };
    charge(before);
    return Play{.threads = {[=] { world->replay(); },
                            [=] {
                              charge(now);
                              (void)world->ask("new", 10, 5);
                            }},
                .broken = [=] { return world->unacked({"next to go"}); }};
  };
}

Scene flood_beside_a_reader() {
  struct Read : FullTable {
    bool changed = false;
    // Looks as long as it is pinned: the tuple stays the one that was found.
    void look_at(const RequestContext& context) {
      const epoch::Guard guard;
      const memory::Tuple tuple = store->table.find(context.key);
      if (!tuple) return;
      Ruling ruling;
      (void)decider.rule_found(tuple, context.now.mono, context.query, ruling);
      constexpr int kLooks = 8;
      for (int look = 0; look < kLooks; ++look) {
        (void)tuple.slot->hot[0].load(std::memory_order_acquire);
        changed = changed || !memory::detail::same_key(*tuple.slot, context.key);
      }
    }
  };
  return [] {
    const auto world = std::make_shared<Read>();
    const RequestContext refused = world->case_of("emptiest", 1000, 1000);
    return Play{.threads = {[=] { world->look_at(refused); },
                            [=] {
                              for (const char* name : {"new 1", "new 2"}) {
                                (void)world->ask(name, 1000, 1);
                              }
                            }},
                .broken = [=]() -> std::string {
                  if (world->changed) return "the slot of a tuple was reused under a pinned reader";
                  return world->lost_slots();
                }};
  };
}

Scene creation_of_one_tuple() {
  struct Created {
    doubles::ManualClock clock;
    std::shared_ptr<limiter::Store> store =
        std::make_shared<limiter::Store>(clock, Options{.capacity = 1}, 1);
    Decider decider{store};
    int admitted = 0;
  };
  return [] {
    const auto world = std::make_shared<Created>();
    const auto ask = [=] {
      const Request request{.ns = "schedule", .identifier = "new", .limit = 1, .duration = kWindow};
      const RequestContext context(world->clock.now(), request, world->store->hash);
      if (world->decider.rule(context).step.decision.admitted()) ++world->admitted;
    };
    return Play{.threads = {ask, ask, ask}, .broken = [=]() -> std::string {
                  const uint64_t tuples = world->store->table.stats().tuples;
                  if (tuples != 1) return "it stands in " + std::to_string(tuples) + " slots";
                  if (world->admitted == 1) return {};
                  return "admitted " + std::to_string(world->admitted) + " of 1";
                }};
  };
}

Scene sketch_beside_a_slot_that_comes_free() {
  struct Scarce {
    doubles::ManualClock clock;
    std::shared_ptr<limiter::Store> store =
        std::make_shared<limiter::Store>(clock, Options{.capacity = 1}, 1);
    Decider decider{store};
    int64_t admitted = 0;
    void ask(std::string_view name, Millis duration, Millis when, int64_t cost) {
      const Request request{
          .ns = "schedule", .identifier = name, .limit = 10, .duration = duration, .cost = cost};
      const Instant now{.wall = clock.now().wall + when, .mono = clock.now().mono + when};
      const RequestContext context(now, request, store->hash);
      if (decider.rule(context).step.decision.admitted()) admitted += cost;
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
    return Play{.threads = {[=] { ask(2 * kShort - Millis(1)); }, [=] { ask(2 * kShort); }},
                .broken = [=]() -> std::string {
                  if (world->admitted <= 10) return {};
                  return "admitted " + std::to_string(world->admitted) +
                         " of 10, in the table and in the sketch";
                }};
  };
}

// Every admission is told to the origin in the end, in whichever window it was counted.
Scene any_telling(uint64_t recipe) {
  struct Acked : FullTable {
    Acked() : FullTable(3) {}
    void charge(Instant now, std::string_view name, int64_t cost) {
      count(ask_at(now, name, 1000, cost), static_cast<Count>(cost));
    }
    void ask_both(Instant now, int64_t cost, int64_t limit_of_second) {
      std::vector<RequestContext> contexts = {case_of("a", 1000, cost),
                                              case_of("b", limit_of_second, cost)};
      for (RequestContext& context : contexts) context.ask_at(now);
      const limiter::BatchRuling ruling = limiter::Batch(decider, *store, contexts).run();
      if (!ruling.admitted) return;
      for (size_t i = 0; i < contexts.size(); ++i) {
        count(ruling.items[i], contexts[i].query.ask.cost);
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
      const int64_t cost = random.between(1, 5);
      if (random.one_in(3)) {
        const int64_t limit = random.one_in(2) ? 1000 : 1;
        return [=] { world->ask_both(when, cost, limit); };
      }
      return [=, name = any_name()] { world->charge(when, name, cost); };
    };
    world->charge(before, "a", 1);
    if (random.one_in(2)) world->replay();
    world->charge(random.one_in(2) ? before : now, "b", 1);
    Play play;
    for (int thread = 0; thread < 2; ++thread) {
      std::vector<std::function<void()>> steps;
      for (int64_t i = random.between(1, 3); i > 0; --i) steps.push_back(any_step());
      play.threads.push_back([steps] {
        for (const auto& step : steps) step();
      });
    }
    play.threads.push_back([world, times = random.between(1, 2)] {
      for (int64_t i = 0; i < times; ++i) world->replay();
    });
    play.broken = [=] {
      const std::string wrong = world->unacked({"a", "b", "new 1", "new 2", "new 3"});
      return wrong.empty() ? world->lost_slots() : wrong;
    };
    return play;
  };
}

// Whoever is admitted on the word that enough was known has been lied to: the origin has it all.
Scene reads_beside_a_flood() {
  struct Read : FullTable {
    std::shared_ptr<limiter::Engine> engine = limiter::Engine::make(
        clock, {.origin = origin, .replay_within = Millis(0), .capacity = 1, .seed = 2});
    bool lied = false;
  };
  return [] {
    const auto world = std::make_shared<Read>();
    const Instant now = world->clock.now();
    const auto request_of = [](std::string_view name, int64_t limit, int64_t cost) {
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
                                     world->lied = true;
                                   }
                                 });
      world->executor.run();
    };
    return Play{.threads = {read, read,
                            [=] {
                              for (const char* name : {"new 1", "new 2"}) {
                                (void)world->engine->check(now, request_of(name, 10, 1));
                              }
                            }},
                .broken = [=]() -> std::string {
                  world->executor.run();
                  return world->lied ? "admitted on enough knowledge, and the origin has 10 of 10"
                                     : "";
                }};
  };
}

}  // namespace weir::schedule
