// A million keys, uniformly: every decision finds its tuple outside the cache.

#include <array>

#include "base/check.h"
#include "bench/harness.h"
#include "bench/peers.h"
#include "bench/suites.h"
#include "weir/limiter.h"

namespace weir::bench {
namespace {

constexpr size_t kGroup = 16;

// Weir as a contestant.
class Weir {
 public:
  explicit Weir(const PeerOptions& options)
      : limiter_(Limiter::create(clock_, {.capacity = options.keys, .seed = 1}).value()) {}

  Answer check(Instant now, std::string_view identifier) {
    const auto verdict = limiter_.check(now, request_for(identifier));
    return {.admitted = verdict->admitted(), .remaining = verdict->remaining};
  }

  Limiter& limiter() { return limiter_; }

 private:
  HandedClock clock_;
  Limiter limiter_;
};

// Made once and shared by all runs. All keys are there and have counts of two windows.
template <typename Contestant>
Contestant& filled() {
  static Contestant contestant({.keys = kKeys, .limit = kLimit, .duration = kDuration});
  static const bool full = [] {
    for (const Instant now : {kBefore, kNow}) {
      for (size_t n = 0; n < kKeys; ++n) {
        if (!contestant.check(now, identifier_number(n, kIdentifierBytes)).admitted) return false;
      }
    }
    return true;
  }();
  WEIR_CHECK(full);
  return contestant;
}

template <typename Contestant>
void one_at_a_time(benchmark::State& state) {
  Contestant& contestant = filled<Contestant>();
  ask_one_at_a_time(
      state, [&](std::string_view identifier) { return contestant.check(kNow, identifier); });
}

template <typename Contestant>
void overlapping(benchmark::State& state) {
  Contestant& contestant = filled<Contestant>();
  ask_overlapping(state,
                  [&](std::string_view identifier) { return contestant.check(kNow, identifier); });
}

// The requests are kept from batch to batch; only who asks is new, as in a server that
// answers a connection's buffer at once.
void batches(benchmark::State& state) {
  Limiter& limiter = filled<Weir>().limiter();
  const Requests& requests = Requests::shared();
  std::array<Request, kGroup> group;
  group.fill(request_for(""));
  std::array<Result<Verdict>, kGroup> verdicts;
  uint64_t denied = 0;
  walk(state, kGroup, [&](size_t at) {
    for (size_t i = 0; i < kGroup; ++i) group[i].identifier = requests.identifier(at + i);
    limiter.check_each(kNow, group, verdicts);
    for (const auto& verdict : verdicts) denied += !verdict->admitted();
    return at + kGroup;
  });
  expect_none(state, denied, "a request was denied");
  const LimiterStats stats = limiter.stats();
  expect_none(state, stats.sketched + (kKeys - stats.tuples), "a tuple found no place");
}

template <typename Contestant>
void add_contestant(const std::string& name) {
  add("many_keys/" + name + "/one_at_a_time", one_at_a_time<Contestant>)->Threads(1)->Threads(2);
  add("many_keys/" + name + "/overlapping", overlapping<Contestant>)->Threads(1)->Threads(2);
}

}  // namespace

void add_many_keys() {
  add_contestant<Weir>("weir");
  add("many_keys/weir/batches", batches)->Threads(1)->Threads(2);
  add_contestant<MapPeer>("map");
  add_contestant<RatePeer>("rate");
}

}  // namespace weir::bench
