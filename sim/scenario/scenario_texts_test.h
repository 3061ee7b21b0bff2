// Two scenarios for tests: the smallest one, and one with every key.

#pragma once

namespace weir::sim {

inline constexpr const char* kSmall = R"(about: One key at its limit.
world: {regions: 2}
limits:
  - {name: api, limit: 100, duration: 60s}
traffic:
  - {limit: api, shape: poisson, demand: 1}
)";

inline constexpr const char* kFull = R"(about: Everything that can be said.
seed: 7
time: {warm_up: 1m, measured: 3m, calm: 2.5s}
world:
  regions:
    - {name: eu, nodes: 3, to_origin: 2ms, to_ledger: {from: 10ms, to: 30ms}}
    - {name: us}
  to_origin: {from: 1ms, to: 4ms}
  to_ledger: 40ms
  clocks:
    - {shape: steady, where: us, by: -20ms}
    - {shape: drifting, where: eu/2, ppm: -200}
    - {shape: stepping, by: 150ms}
    - {shape: sawtooth, ppm: 50, every: 20s}
settings:
  policy: floor
  unpublished: 12.5%
  slack: 5%
  lease: 30s
  import_every: 1s
  ledger: off
  on_origin_loss: share
  read_deadline: 100ms
  max_freshness: 1s
  replay_within: 0
  capacity: 64
limits:
  - {name: api, limit: {from: 10, to: 1000}, duration: 60s}
  - {name: login, limit: 5, duration: 1h, algorithm: gcra, burst: 2}
traffic:
  - {limit: api, shape: on_off, keys: 24000, demand: {from: 0.5, to: 1.2}, spread: {from: 1, to: 2},
     on: 5s, off: 20s, begins: 10s, ends: 4m}
  - {limit: login, shape: lock_step, clients: 8, every: 100ms, cost: {from: 0, to: 3}, regions: [us]}
  - {limit: login, shape: fresh, requests: 600}
faults:
  - {at: 70s, what: origin_slow, lasts: 10s, where: eu, amount: 250ms}
  - {at: 0, what: clock_set, where: eu/2, amount: -11s}
  - {at: 3m, what: ledger_fails_over, amount: 2s}
random_faults:
  - {what: ledger_deadlocks, every: 20s, lasts: {from: 1s, to: 5s}, amount: {from: 10%, to: 50%}}
  - {what: origin_emptied, every: 1m}
expect:
  - worst_cell <= 1.35
  - denied >= 2%
  - propagation_p99 <= 900ms
  - disagreements == 0
)";

}  // namespace weir::sim
