// A million keys with a uniform distribution: the tuple of each decision is outside the cache.

#include <array>

#include "base/check.h"
#include "bench/harness.h"
#include "bench/peers.h"
#include "bench/suites.h"
#include "weir/limiter.h"

namespace weir::bench {
namespace {

constexpr size_t kGroup = 16;

// Weir with the interface of a peer.
class WeirPeer {
 public:
  explicit WeirPeer(const PeerOptions& options)
      : limiter_(Limiter::create(clock_, {.capacity = options.keys, .seed = 1}).value()) {}

  Answer check(Instant now, std::string_view identifier) {
    const auto verdict = limiter_.check(now, request_for(identifier));
    return {.admitted = verdict->admitted(), .remaining = verdict->remaining};
  }

  Limiter& limiter() { return limiter_; }

 private:
  ManualClock clock_;
  Limiter limiter_;
};

// Created once and shared by all runs. Contains all keys, with counts in two windows.
template <typename Peer>
Peer& filled() {
  static Peer peer({.keys = kKeys, .limit = kLimit, .duration = kDuration});
  static const bool complete = [] {
    for (const Instant now : {kBefore, kNow}) {
      for (size_t n = 0; n < kKeys; ++n) {
        if (!peer.check(now, identifier_number(n, kIdentifierBytes)).admitted) return false;
      }
    }
    return true;
  }();
  WEIR_CHECK(complete);
  return peer;
}

template <typename Peer>
void one_at_a_time(benchmark::State& state) {
  Peer& peer = filled<Peer>();
  check_one_at_a_time(state,
                      [&](std::string_view identifier) { return peer.check(kNow, identifier); });
}

template <typename Peer>
void overlapping(benchmark::State& state) {
  Peer& peer = filled<Peer>();
  check_overlapping(state,
                    [&](std::string_view identifier) { return peer.check(kNow, identifier); });
}

// The request structs are reused; only the identifiers change, as in a server that processes the
// buffer of a connection.
void batches(benchmark::State& state) {
  Limiter& limiter = filled<WeirPeer>().limiter();
  const Requests& requests = Requests::shared();
  std::array<Request, kGroup> group;
  group.fill(request_for(""));
  std::array<Result<Verdict>, kGroup> verdicts;
  uint64_t denied = 0;
  for_each_chunk(state, kGroup, [&](size_t at) {
    for (size_t i = 0; i < kGroup; ++i) group[i].identifier = requests.identifier(at + i);
    limiter.check_each(kNow, group, verdicts);
    for (const auto& verdict : verdicts) denied += !verdict->admitted();
    return at + kGroup;
  });
  expect_zero(state, denied, "a request was denied");
  const LimiterStats stats = limiter.stats();
  expect_zero(state, stats.sketched + (kKeys - stats.tuples),
              "a tuple was not stored in the table");
}

template <typename Peer>
void add_peer(const std::string& name) {
  add("many_keys/" + name + "/one_at_a_time", one_at_a_time<Peer>)->Threads(1)->Threads(2);
  add("many_keys/" + name + "/overlapping", overlapping<Peer>)->Threads(1)->Threads(2);
}

}  // namespace

void add_many_keys() {
  add_peer<WeirPeer>("weir");
  add("many_keys/weir/batches", batches)->Threads(1)->Threads(2);
  add_peer<MapPeer>("map");
  add_peer<RatePeer>("rate");
}

}  // namespace weir::bench
