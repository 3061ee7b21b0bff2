#include <array>
#include <memory>
#include <span>

#include "decide/engine.h"
#include "epoch/epoch.h"
#include "memory/table.h"
#include "memory/window_cells.h"
#include "sim/random.h"
#include "tests/doubles/manual_clock.h"
#include "tests/schedule/workloads.h"

namespace weir::schedule {
namespace {

using decide::Engine;

constexpr Millis kDuration{1000};

// An engine without an origin, and the sum of its admitted costs.
struct LocalEngine {
  doubles::ManualClock clock;
  std::shared_ptr<Engine> engine = Engine::make(clock, {.capacity = 16, .seed = 1});
  int64_t admitted = 0;  // cost

  [[nodiscard]] Instant at(Millis offset) const {
    return {.wall = clock.now().wall + offset, .mono = clock.now().mono + offset};
  }
  void ask(Instant now, const Request& request) {
    if (engine->check(now, request)->admitted()) admitted += request.cost;
  }
  [[nodiscard]] int64_t remaining(Instant now, Request request) const {
    request.cost = 0;
    return static_cast<int64_t>(engine->check(now, request)->remaining);
  }
};

Request request_of(Algorithm algorithm, Count limit, Count cost = 1) {
  return {.ns = "schedule",
          .identifier = "one",
          .limit = limit,
          .duration = kDuration,
          .cost = cost,
          .algorithm = algorithm};
}

std::string more_than(int64_t limit, int64_t admitted) {
  return admitted <= limit
             ? ""
             : "admitted " + std::to_string(admitted) + " of " + std::to_string(limit);
}

std::string other_than(int64_t wanted, int64_t found, const std::string& of) {
  return found == wanted ? ""
                         : of + " is " + std::to_string(found) + ", not " + std::to_string(wanted);
}

bool errs_on_the_strict_side(Algorithm algorithm) {
  return algorithm == Algorithm::kSlidingWindowStrict || algorithm == Algorithm::kSlidingLog;
}

}  // namespace

// At the instant of the boundary the whole old window still counts.
Workload both_sides_of_a_boundary(Before before) {
  return [before] {
    constexpr int64_t kLimit = 10;
    const auto world = std::make_shared<LocalEngine>();
    const Request most = request_of(Algorithm::kSlidingWindow, kLimit, 6);
    const Request one = request_of(Algorithm::kSlidingWindow, kLimit);
    // The charge of the older window no longer counts when the old one ends.
    if (before == Before::kOlderWindow) (void)world->engine->check(world->at(Millis(-1500)), one);
    if (before == Before::kOldWindow) world->ask(world->at(Millis(-500)), one);
    return Instance{.threads = {[=] { world->ask(world->at(Millis(-1)), most); },
                                [=] { world->ask(world->at(Millis(0)), most); }},
                    .violation = [=] { return more_than(kLimit, world->admitted); }};
  };
}

// The older window and the newest one use the same word: closing the one must not close the other.
Workload late_request_beside_the_next_window() {
  return [] {
    constexpr int64_t kLimit = 100;
    const auto world = std::make_shared<LocalEngine>();
    const Request one = request_of(Algorithm::kSlidingWindow, kLimit);
    (void)world->engine->check(world->at(Millis(-1500)), one);
    return Instance{.threads = {[=] { world->ask(world->at(Millis(-1)), one); },
                                [=] {
                                  for (int i = 0; i < 2; ++i) world->ask(world->at(Millis(0)), one);
                                }},
                    .violation = [=] {
                      return other_than(kLimit - world->admitted,
                                        world->remaining(world->at(Millis(0)), one),
                                        "the remainder");
                    }};
  };
}

Workload one_tuple_charged_by_many(Algorithm algorithm) {
  return [algorithm] {
    constexpr int64_t kLimit = 3;
    const auto world = std::make_shared<LocalEngine>();
    const auto twice = [=] {
      for (int i = 0; i < 2; ++i) world->ask(world->at(Millis(0)), request_of(algorithm, kLimit));
    };
    return Instance{.threads = {twice, twice, twice}, .violation = [=] {
                      return errs_on_the_strict_side(algorithm)
                                 ? more_than(kLimit, world->admitted)
                                 : other_than(kLimit, world->admitted, "the admitted cost");
                    }};
  };
}

Workload charge_beside_a_sweep(Algorithm algorithm) {
  return [algorithm] {
    const auto world = std::make_shared<LocalEngine>();
    const Request request = request_of(algorithm, 1);
    (void)world->engine->check(world->at(Millis(0)), request);
    const Instant later = world->at(2 * kDuration);
    return Instance{
        .threads = {[=] { world->ask(later, request); }, [=] { world->ask(later, request); },
                    [=] { (void)world->engine->run_sweep(later, 32); }},
        .violation = [=] { return other_than(1, world->admitted, "the admitted cost"); }};
  };
}

Workload charge_beside_a_rebuild(Algorithm algorithm) {
  return [algorithm] {
    const auto world = std::make_shared<LocalEngine>();
    const Instant now = world->at(Millis(0));
    const Request small = request_of(algorithm, 3);
    const Request large = request_of(algorithm, 20, 2);
    return Instance{.threads = {[=] {
                                  for (int i = 0; i < 3; ++i) world->ask(now, small);
                                },
                                [=] {
                                  for (int i = 0; i < 3; ++i) world->ask(now, large);
                                },
                                [=] { (void)world->engine->run_sweep(now, 32); }},
                    .violation = [=] {
                      return other_than(20 - world->admitted, world->remaining(now, large),
                                        "the remainder");
                    }};
  };
}

Workload batches_beside_each_other(Algorithm algorithm) {
  struct Batches : LocalEngine {
    std::array<int64_t, 2> spent{};
  };
  return [algorithm] {
    constexpr int64_t kLimit = 10;
    const auto world = std::make_shared<Batches>();
    const Instant now = world->at(Millis(0));
    std::array<Request, 2> both;
    both.fill(request_of(algorithm, kLimit, 6));
    both[1].identifier = "two";
    const auto together = [=](bool reversed) {
      std::array<Request, 2> asked = both;
      if (reversed) std::swap(asked[0], asked[1]);
      if (!world->engine->check_all(now, asked)->admitted()) return;
      for (int64_t& spent : world->spent) spent += 6;
    };
    return Instance{.threads = {[=] { together(false); }, [=] { together(true); },
                                [=] {
                                  Request single = both[1];
                                  single.cost = 5;
                                  if (world->engine->check(now, single)->admitted())
                                    world->spent[1] += 5;
                                }},
                    .violation = [=]() -> std::string {
                      for (size_t i = 0; i < 2; ++i) {
                        const int64_t left = kLimit - world->spent[i];
                        const int64_t remaining = world->remaining(now, both[i]);
                        const bool fine = algorithm == Algorithm::kSlidingWindowStrict
                                              ? remaining <= left
                                              : remaining == left;
                        if (left < 0 || !fine) {
                          return "of tuple " + std::to_string(i) + " remains " +
                                 std::to_string(remaining) + " where " +
                                 std::to_string(world->spent[i]) + " of 10 were admitted";
                        }
                      }
                      return {};
                    }};
  };
}

Workload charge_beside_a_reset(Algorithm algorithm) {
  struct Resets : LocalEngine {
    int64_t resets = 0;  // that found something
  };
  return [algorithm] {
    constexpr int64_t kLimit = 3;
    const auto world = std::make_shared<Resets>();
    const Request one = request_of(algorithm, kLimit);
    const Instant now = world->at(Millis(0));
    world->ask(now, one);
    const auto twice = [=] {
      for (int i = 0; i < 2; ++i) world->ask(now, one);
    };
    return Instance{.threads = {twice, twice,
                                [=] { world->resets += *world->engine->reset(now, one) ? 1 : 0; }},
                    .violation = [=]() -> std::string {
                      if (world->resets != 1) return "the tuple was not reset";
                      const int64_t counted = kLimit - world->remaining(now, one);
                      // At least one was admitted before the reset and must not count any more.
                      if (!errs_on_the_strict_side(algorithm) && counted > world->admitted - 1) {
                        return std::to_string(counted) + " count after a reset, of " +
                               std::to_string(world->admitted);
                      }
                      return more_than(2 * kLimit, world->admitted);
                    }};
  };
}

Workload refused_batch_beside_a_reset(Algorithm algorithm) {
  return [algorithm] {
    constexpr int64_t kLimit = 10;
    const auto world = std::make_shared<LocalEngine>();
    const Instant now = world->at(Millis(0));
    std::array<Request, 2> both;
    both.fill(request_of(algorithm, kLimit, 6));
    both[1].identifier = "two";
    world->ask(now, both[0]);
    world->ask(now, both[1]);
    both[0].cost = 2;
    return Instance{.threads = {[=] { (void)world->engine->check_all(now, both); },
                                [=] { (void)world->engine->reset(now, both[0]); }},
                    .violation = [=] {
                      return other_than(kLimit, world->remaining(now, both[0]), "the remainder");
                    }};
  };
}

Workload imports_of_both_kinds() {
  struct Cells {
    base::KeyedHash hash{1};
    memory::Table table{1, memory::Scope::kRegion};
    Request request = request_of(Algorithm::kFixedWindow, 100);
    memory::TupleKey key{request, hash};
    int64_t sequence = 0;
    void with(const std::function<void(const memory::WindowCells&)>& use) const {
      const epoch::Guard guard;
      use(memory::WindowCells(table.find(key)));
    }
  };
  return [] {
    const auto world = std::make_shared<Cells>();
    const doubles::ManualClock clock;
    const memory::Query query = memory::query_of(clock.now().wall, world->request);
    (void)world->table.create(world->key, query);
    world->with([&](const auto& cells) { world->sequence = cells.newest(); });
    const int64_t now = world->sequence;
    return Instance{
        .threads = {[=] {
                      world->with([=](const auto& cells) {
                        (void)cells.raise_siblings(now, 5);
                        (void)cells.raise_siblings(now + 1, 2);
                      });
                    },
                    [=] {
                      world->with([=](const auto& cells) {
                        (void)cells.raise_foreign(now, 7);
                        (void)cells.raise_foreign(now + 1, 3);
                      });
                    },
                    [=] {
                      world->with([=](const auto& cells) {
                        (void)cells.decide(query, memory::Effect::kConsume);
                      });
                    }},
        .violation = [=] {
          std::string wrong;
          world->with([&](const memory::WindowCells& cells) {
            const auto others = [&](int64_t sequence) {
              return static_cast<int64_t>(memory::count_in(cells.others(sequence), sequence));
            };
            wrong = other_than(12, others(now), "the count of others") +
                    other_than(5, others(now + 1), "the count of others in the next window");
          });
          return wrong;
        }};
  };
}

// At the instant of the boundary the whole old window still counts, so the limit holds for the sum
// of both windows.
Workload any_counting(uint64_t recipe) {
  constexpr int64_t kLimit = 10;
  static constexpr std::array<std::string_view, 2> kNames = {"one", "two"};
  struct Counting : LocalEngine {
    std::array<int64_t, 2> spent{};
  };
  return [recipe] {
    const auto world = std::make_shared<Counting>();
    sim::Random random(recipe);
    const auto any_request = [&](size_t name) {
      Request request = request_of(Algorithm::kSlidingWindow, kLimit, random.between(1, 6));
      request.identifier = kNames[name];
      return request;
    };
    const auto any_time = [&] { return world->at(random.one_in(2) ? Millis(0) : Millis(-1)); };
    const auto any_step = [&]() -> std::function<void()> {
      const Instant now = any_time();
      if (random.one_in(3)) {
        const std::array<Request, 2> both = {any_request(0), any_request(1)};
        return [=] {
          if (!world->engine->check_all(now, both)->admitted()) return;
          for (size_t i = 0; i < 2; ++i) world->spent[i] += both[i].cost;
        };
      }
      const auto name = static_cast<size_t>(random.between(0, 1));
      const Request request = any_request(name);
      return [=] {
        if (world->engine->check(now, request)->admitted()) world->spent[name] += request.cost;
      };
    };
    const std::array<int64_t, 3> offsets = {-1500, -500, 0};
    for (size_t name = 0; name < 2; ++name) {
      const int64_t offset = offsets[static_cast<size_t>(random.between(0, 2))];
      if (offset == 0) continue;  // no earlier charge
      Request one = any_request(name);
      one.cost = 1;
      if (world->engine->check(world->at(Millis(offset)), one)->admitted() && offset == -500) {
        ++world->spent[name];
      }
    }
    Instance instance;
    for (int thread = 0; thread < 3; ++thread) {
      std::vector<std::function<void()>> steps;
      for (int64_t i = random.between(1, 2); i > 0; --i) steps.push_back(any_step());
      instance.threads.push_back([steps] {
        for (const auto& step : steps) step();
      });
    }
    instance.violation = [=]() -> std::string {
      for (size_t i = 0; i < 2; ++i) {
        Request request = request_of(Algorithm::kSlidingWindow, kLimit);
        request.identifier = kNames[i];
        const std::string wrong =
            more_than(kLimit, world->spent[i]) +
            other_than(kLimit - world->spent[i], world->remaining(world->at(Millis(0)), request),
                       "the remainder");
        if (!wrong.empty()) return wrong;
      }
      return {};
    };
    return instance;
  };
}

}  // namespace weir::schedule
