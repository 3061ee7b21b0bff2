#include <memory>
#include <string>
#include <vector>

#include "limiter/judge.h"
#include "limiter/replay.h"
#include "limiter/store.h"
#include "memory/table.h"
#include "origins/in_process_origin.h"
#include "platform/grace.h"
#include "tests/doubles/hand_clock.h"
#include "tests/schedule/scenes.h"

namespace weir::schedule {
namespace {

using limiter::Case;
using limiter::Judge;
using limiter::Ruling;

constexpr Millis kWindow{3'600'000};
constexpr size_t kSlots = memory::kBucketSlots;

// The parts of an engine with one bucket, which is full; the tuple "emptiest" is the first to go.
struct FullTable {
  doubles::HandClock clock;
  doubles::HandExecutor executor{clock};
  std::shared_ptr<origins::InProcessOrigin> origin =
      std::make_shared<origins::InProcessOrigin>(clock);
  std::shared_ptr<limiter::Store> store = std::make_shared<limiter::Store>(
      clock, Options{.origin = origin, .replay_within = Millis(0), .capacity = 1}, 1);
  Judge judge{store};
  std::shared_ptr<limiter::Replay> replaying = std::make_shared<limiter::Replay>(store);

  FullTable() {
    (void)ask("emptiest", 1000, 1);
    for (size_t i = 1; i < kSlots; ++i) (void)ask("tuple " + std::to_string(i), 10, 5);
    replay();
  }

  [[nodiscard]] Case case_of(std::string_view name, int64_t limit, int64_t cost) const {
    const Request request{.name_space = "schedule",
                          .identifier = name,
                          .limit = limit,
                          .duration = kWindow,
                          .cost = cost};
    return {clock.now(), request, store->hash};
  }
  Ruling ask(std::string_view name, int64_t limit, int64_t cost) {
    return judge.rule(case_of(name, limit, cost));
  }
  void replay() { replaying->run_once(clock.now(), executor, Tell::kAll); }

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
  struct Flooded : FullTable {
    Count accepted = 0;
    void count(std::string_view name) {
      const Ruling ruling = ask(name, 1000, 1);
      if (ruling.step.decision.admitted() && !ruling.sketched) ++accepted;
    }
    // What the origin has of all that the scene names, in whatever component.
    [[nodiscard]] Count told() const {
      Count sum = 0;
      for (const char* name : {"emptiest", "new 1", "new 2"}) {
        const CellId cell{case_of(name, 1000, 1).key.encoded(),
                          clock.now().wall.time_since_epoch() / kWindow};
        for (const auto& [component, count] : origin->components(cell)) sum += count;
      }
      return sum;
    }
  };
  return [] {
    const auto world = std::make_shared<Flooded>();
    world->accepted = 1;
    world->count("emptiest");
    return Play{.threads = {[=] { world->replay(); },
                            [=] {
                              world->count("new 1");
                              world->count("new 2");
                            },
                            [=] { world->count("emptiest"); }},
                .broken = [=]() -> std::string {
                  for (int turn = 0; turn < 3; ++turn) world->replay();
                  const Count told = world->told();
                  if (told != world->accepted) {
                    return "the origin has " + std::to_string(told) + " of " +
                           std::to_string(world->accepted) + " that were accepted";
                  }
                  return world->lost_slots();
                }};
  };
}

Scene flood_beside_a_reader() {
  struct Read : FullTable {
    bool changed = false;
    // Looks as long as it is pinned: the tuple stays the one that was found.
    void look_at(const Case& the_case) {
      const platform::Pin pin;
      const memory::Tuple tuple = store->table.find(the_case.key);
      if (!tuple) return;
      Ruling ruling;
      (void)judge.rule_found(tuple, the_case.now.mono, the_case.query, ruling);
      constexpr int kLooks = 8;
      for (int look = 0; look < kLooks; ++look) {
        (void)tuple.slot->hot[0].load(std::memory_order_acquire);
        changed = changed || !memory::detail::same_key(*tuple.slot, the_case.key);
      }
    }
  };
  return [] {
    const auto world = std::make_shared<Read>();
    const Case refused = world->case_of("emptiest", 1000, 1000);
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
    doubles::HandClock clock;
    std::shared_ptr<limiter::Store> store =
        std::make_shared<limiter::Store>(clock, Options{.capacity = 1}, 1);
    Judge judge{store};
    int admitted = 0;
  };
  return [] {
    const auto world = std::make_shared<Created>();
    const auto ask = [=] {
      const Request request{
          .name_space = "schedule", .identifier = "new", .limit = 1, .duration = kWindow};
      const Case the_case(world->clock.now(), request, world->store->hash);
      if (world->judge.rule(the_case).step.decision.admitted()) ++world->admitted;
    };
    return Play{.threads = {ask, ask, ask}, .broken = [=]() -> std::string {
                  const uint64_t tuples = world->store->table.stats().tuples;
                  if (tuples != 1) return "it stands in " + std::to_string(tuples) + " slots";
                  if (world->admitted == 1) return {};
                  return "admitted " + std::to_string(world->admitted) + " of 1";
                }};
  };
}

}  // namespace weir::schedule
