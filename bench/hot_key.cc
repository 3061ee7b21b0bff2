// One hot key: no cache misses, only instructions; with two threads, contention for one cache line.

#include <array>

#include "bench/harness.h"
#include "bench/peers.h"
#include "bench/suites.h"
#include "weir/limiter.h"

namespace weir::bench {
namespace {

// Charged to the previous window, so that every decision weighs it.
constexpr Count kPreviousCount = 1000;

const std::string& hot_identifier() {
  static const std::string identifier = identifier_number(1, kIdentifierBytes);
  return identifier;
}

Limiter& limiter() {
  static const ManualClock clock;
  static Limiter limiter = Limiter::create(clock, {.capacity = 1024, .seed = 1}).value();
  static const bool charged = [] {
    Request request = request_for(hot_identifier());
    request.cost = kPreviousCount;
    return limiter.check(kBefore, request)->admitted();
  }();
  benchmark::DoNotOptimize(charged);
  return limiter;
}

void check(benchmark::State& state) {
  Limiter& weir = limiter();
  Instant now = kNow;
  benchmark::DoNotOptimize(now);
  check_repeatedly(state, hot_identifier(), [&](std::string_view identifier) {
    const auto verdict = weir.check(now, request_for(identifier));
    return Answer{.admitted = verdict->admitted()};
  });
}

// For a caller that does not pass the time.
void check_clock(benchmark::State& state) {
  static Limiter weir = Limiter::create(system_clock(), {.capacity = 1024, .seed = 1}).value();
  check_repeatedly(state, hot_identifier(), [&](std::string_view identifier) {
    return Answer{.admitted = weir.check(request_for(identifier))->admitted()};
  });
}

void check_each(benchmark::State& state) {
  constexpr size_t kGroup = 16;
  Limiter& weir = limiter();
  std::array<Request, kGroup> requests;
  requests.fill(request_for(hot_identifier()));
  std::array<Result<Verdict>, kGroup> verdicts;
  uint64_t denied = 0;
  while (state.KeepRunningBatch(kGroup)) {
    for (Request& request : requests) request.identifier = hot_identifier();
    weir.check_each(kNow, requests, verdicts);
    for (const auto& verdict : verdicts) denied += !verdict->admitted();
  }
  expect_zero(state, denied, "a request was denied");
}

// The same key with another duration; its window is always full.
void denied(benchmark::State& state) {
  Limiter& weir = limiter();
  const std::string& identifier = hot_identifier();
  const auto full = [&](std::string_view name) {
    return Request{.ns = kNamespace, .identifier = name, .limit = 100, .duration = kDuration / 2};
  };
  for (int i = 0; i < 100; ++i) (void)weir.check(kNow, full(identifier));
  check_repeatedly(state, identifier, [&](std::string_view name) {
    return Answer{.admitted = !weir.check(kNow, full(name))->admitted()};
  });
}

// One request against three limits, all or nothing. One iteration is three tuples.
void check_all(benchmark::State& state) {
  Limiter& weir = limiter();
  uint64_t denied = 0;
  for (auto _ : state) {
    const std::array<Request, 3> requests{
        request_for("user:8c1f0a"), request_for("address:10.20.30.40"), request_for("tenant:17")};
    denied += !weir.check_all(kNow, requests)->admitted();
  }
  expect_zero(state, denied, "a batch was denied");
}

// Time advances by 1 ms every 64 decisions: sliding_log admits at most 10,000 at one instant.
void algorithm(benchmark::State& state, Algorithm algorithm) {
  struct Instance {
    ManualClock clock;
    Limiter limiter = Limiter::create(clock, {.capacity = 64, .seed = 1}).value();
  };
  static std::array<Instance, kAlgorithmCount> all;
  auto& [clock, weir] = all[static_cast<size_t>(algorithm)];
  const bool log = algorithm == Algorithm::kSlidingLog;
  const Count limit = log ? kMaxLogLimit : 500'000'000;
  const Millis duration = log ? kMinDuration : kDuration;
  uint64_t denied = 0;
  while (state.KeepRunningBatch(kChunk)) {
    const Instant now = clock.now();
    for (size_t i = 0; i < kChunk; ++i) {
      const auto verdict = weir.check(now, {.ns = kNamespace,
                                            .identifier = hot_identifier(),
                                            .limit = limit,
                                            .duration = duration,
                                            .algorithm = algorithm});
      denied += !verdict->admitted();
    }
    clock.tick();
  }
  expect_zero(state, denied, "a request was denied");
}

template <typename Peer>
void check_peer(benchmark::State& state) {
  static Peer peer({.keys = 1024, .limit = kLimit, .duration = kDuration});
  static const bool charged = [] {
    for (Count i = 0; i < kPreviousCount; ++i) (void)peer.check(kBefore, hot_identifier());
    return true;
  }();
  benchmark::DoNotOptimize(charged);
  check_repeatedly(state, hot_identifier(),
                   [](std::string_view identifier) { return peer.check(kNow, identifier); });
}

}  // namespace

void add_hot_key() {
  add("hot_key/check", check)->Threads(1)->Threads(2);
  add("hot_key/check_clock", check_clock);
  add("hot_key/check_each", check_each);
  add("hot_key/denied", denied)->Threads(1)->Threads(2);
  add("hot_key/check_all", check_all);
  for (int i = 0; i < kAlgorithmCount; ++i) {
    const auto which = static_cast<Algorithm>(i);
    add("hot_key/" + std::string(to_string(which)),
        [which](benchmark::State& state) { algorithm(state, which); });
  }
  add("hot_key/map", check_peer<MapPeer>)->Threads(1)->Threads(2);
  add("hot_key/rate", check_peer<RatePeer>)->Threads(1)->Threads(2);
}

}  // namespace weir::bench
