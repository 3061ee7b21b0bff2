// New keys: the cost of the first request for each.

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
    std::vector<std::string> created;
    for (size_t n = 0; n < 4 * kFresh; ++n) {
      created.push_back(identifier_number(kKeys + n, kIdentifierBytes));
    }
    return created;
  }();
  return all;
}

// Into an unused table: includes the page faults.
void fresh(benchmark::State& state) {
  const ManualClock clock;
  Limiter limiter = Limiter::create(clock, {.capacity = kFresh, .seed = 1}).value();
  size_t n = 0;
  for (auto _ : state) (void)limiter.check(kNow, request_for(identifiers()[n++]));
  expect_zero(state, n - limiter.stats().tuples, "a tuple was not stored in the table");
}

// Into a table full of expired tuples and 6,400 to 12,800 live ones: time advances by 1 ms every 64
// new keys, and a tuple expires after 100 to 200 ms.
void replacing(benchmark::State& state) {
  static ManualClock clock;
  static Limiter limiter = Limiter::create(clock, {.capacity = 1 << 16, .seed = 1}).value();
  static size_t n = 0;
  const auto check_chunk = [&] {
    const Instant now = clock.now();
    for (size_t i = 0; i < kChunk; ++i) {
      (void)limiter.check(now, {.ns = kNamespace,
                                .identifier = identifiers()[n++ % identifiers().size()],
                                .limit = kLimit,
                                .duration = kMinDuration});
    }
    clock.tick();
  };
  while (n < identifiers().size()) check_chunk();
  while (state.KeepRunningBatch(kChunk)) check_chunk();
  expect_zero(state, limiter.stats().sketched, "a tuple was not stored in the table");
}

}  // namespace

void add_new_tuples() {
  add("new_tuples/fresh", fresh)->Iterations(kFresh);
  add("new_tuples/replacing", replacing);
}

}  // namespace weir::bench
