// Keys never seen before: what the first request of each caller costs.

#include <memory>
#include <vector>

#include "bench/harness.h"
#include "bench/suites.h"
#include "weir/limiter.h"

namespace weir::bench {
namespace {

constexpr size_t kFresh = 1 << 18;

const std::vector<std::string>& identifiers() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> made;
    for (size_t n = 0; n < 4 * kFresh; ++n) {
      made.push_back(identifier_number(kKeys + n, kIdentifierBytes));
    }
    return made;
  }();
  return all;
}

// Into a table nobody has used: the system hands out the memory meanwhile.
void fresh(benchmark::State& state) {
  const HandedClock clock;
  Limiter limiter = Limiter::create(clock, {.capacity = kFresh, .seed = 1}).value();
  size_t n = 0;
  for (auto _ : state) (void)limiter.check(kNow, request_for(identifiers()[n++]));
  expect_none(state, n - limiter.stats().tuples, "a tuple found no place");
}

// Into a table full of expired tuples, with 6,400 to 12,800 live ones among them: time
// moves on by 1 ms with every 64 new keys, and a tuple lives 100 to 200 ms.
void replacing(benchmark::State& state) {
  static HandedClock clock;
  static Limiter limiter = Limiter::create(clock, {.capacity = 1 << 16, .seed = 1}).value();
  static size_t n = 0;
  const auto ask_chunk = [&] {
    const Instant now = clock.now();
    for (size_t i = 0; i < kChunk; ++i) {
      (void)limiter.check(now, {.ns = kNamespace,
                                .identifier = identifiers()[n++ % identifiers().size()],
                                .limit = kLimit,
                                .duration = kMinDuration});
    }
    clock.tick();
  };
  while (n < identifiers().size()) ask_chunk();
  while (state.KeepRunningBatch(kChunk)) ask_chunk();
  expect_none(state, limiter.stats().sketched, "a tuple found no place");
}

}  // namespace

void add_new_tuples() {
  add("new_tuples/fresh", fresh)->Iterations(kFresh);
  add("new_tuples/replacing", replacing);
}

}  // namespace weir::bench
