// A scenario: a fleet, its limits, who asks for what, what goes wrong meanwhile, and what must
// hold. Plain data; scenario_file.h reads it, fleet.h lives it.
//
// Every time is counted from the beginning of the run.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/nodes/clock_shape.h"
#include "sim/range.h"
#include "weir/ledger.h"
#include "weir/options.h"
#include "weir/request.h"
#include "weir/time.h"

namespace weir::sim {

// Ranges are drawn from once per key, or per message where they are delays.

struct RegionPlan {
  std::string name;
  uint32_t nodes = 1;
  Range<Millis> to_origin{Millis(1), Millis(1)};  // one way
  Range<Millis> to_ledger{Millis(20), Millis(20)};
};

// What all nodes are configured with.
struct FleetSettings {
  SyncRules sync{};
  bool ledger = true;  // none: regions do not hear of each other
  OnOriginLoss on_origin_loss = OnOriginLoss::kLocal;
  Millis read_deadline = Options{}.read_deadline;
  Millis max_freshness = Options{}.max_freshness;
  Millis replay_within = Options{}.replay_within;
  size_t capacity = size_t{1} << 13;  // tuples of a node
};

struct LimitPlan {
  std::string name;              // the namespace, and what traffic names it by
  Range<Count> limit{100, 100};  // drawn per key, as many in each octave
  Millis duration{60'000};
  Algorithm algorithm = Algorithm::kSlidingWindow;
  std::optional<Count> burst = {};  // gcra and token_bucket; the limit if absent
};

enum class Shape : uint8_t {
  kSteady,     // evenly, each key at its own phase
  kPoisson,    // at random distances
  kOnOff,      // at random while it is on, for `on`, then silent for `off`; each key its own phase
  kEdgeBurst,  // a window's demand at once: half just before a window ends, half just after
  kLockStep,   // `clients` ask at the same instant, every `every`
  kDiurnal,    // at random, from nothing to twice the mean and back in `every`
  kHopping,    // at random, all in one region for `every`, then all in the next
  // Every region but the last takes what it may hide, then the last runs to the limit.
  kHideThenRun,
  // The same, but all say first that they are here, and hold back what they then may.
  kHoldBackThenRun,
  kFresh,  // at random, and never twice for the same key
};

// Whether a shape says itself how much it asks for where.
[[nodiscard]] constexpr bool is_scripted(Shape shape) {
  return shape == Shape::kHideThenRun || shape == Shape::kHoldBackThenRun;
}

// Requests of one kind.
struct StreamPlan {
  std::string limit;  // a LimitPlan's name
  Shape shape = Shape::kPoisson;
  uint64_t keys = 1;
  // What one key asks for in one window of its limit, in all regions together: times its limit, or
  // so many requests. For kFresh: requests in one window of all keys together.
  enum class Unit : uint8_t { kLimits, kRequests };
  Range<double> demand{1, 1};
  Unit unit = Unit::kLimits;
  Range<Count> cost{1, 1};  // of a request
  // The regions that a key is used in: all of these (empty: every one), or `spread` of them, drawn.
  std::vector<std::string> regions = {};
  std::optional<Range<uint32_t>> spread = {};
  Millis on{15'000};
  Millis off{45'000};
  Millis every{1000};
  uint32_t clients = 64;  // kLockStep
  Millis begins{0};
  std::optional<Millis> ends = {};  // the end of the measured time if absent
};

enum class FaultKind : uint8_t {
  // The origin of a region. `amount` where one is needed.
  kOriginRefuses,
  kOriginSilent,
  kOriginSlow,        // amount: ms more each way
  kOriginEmptied,     // at once: it starts again with nothing
  kOriginOldReplica,  // at once: one that lags by amount ms takes its place
  // The ledger, for everyone or for one region.
  kLedgerRefuses,
  kLedgerSilent,
  kLedgerSlow,         // amount: ms more each way
  kLedgerReadOnly,     // writes fail
  kLedgerFull,         // writes of rows that are not there yet fail
  kLedgerDeadlocks,    // amount: percent of calls that fail
  kLedgerCutsImports,  // amount: percent of answers that hold a part only
  kLedgerStaleReads,   // amount: ms that the replica lags which answers reads
  kLedgerFailsOver,    // at once: the last amount ms of commits are lost
  kLedgerOutOfOrder,   // amount: ms by which commits become visible after their stamp, at most
  kLedgerClockSet,     // at once: amount ms off
  // Messages between nodes and their origin, of a region or a node.
  kNetworkLoses,     // amount: percent
  kNetworkRepeats,   // amount: percent
  kNetworkReorders,  // amount: ms more each way, drawn anew for each message
  // Nodes.
  kNodeKilled,    // is begun anew when it is over
  kNodeDrained,   // leaves in peace, is begun anew when it is over
  kNodeIsolated,  // reaches neither store, but is asked
  kClockSet,      // at once: a node's clock is amount ms off
};

struct FaultPlan {
  FaultKind what = FaultKind::kOriginRefuses;
  Millis at{0};
  Millis lasts{0};         // nothing for those that happen at once
  std::string where = {};  // a region, or region/node; empty: everywhere, for nodes any one
  double amount = 0;
};

// Faults that come at random, one every `every` on average; each lasts and amounts to something
// drawn from here, and hits a region or node that is drawn.
struct FaultRate {
  FaultKind what = FaultKind::kOriginRefuses;
  Millis every{10'000};
  Range<Millis> lasts{Millis(500), Millis(3000)};
  Range<double> amount{0, 0};
};

// A figure of the results (results.h) that must be within bounds.
struct Expectation {
  std::string figure;
  enum class Relation : uint8_t { kAtMost, kAtLeast, kEquals };
  Relation relation = Relation::kAtMost;
  double value = 0;
};

struct Scenario {
  std::string name = {};   // of its file
  std::string about = {};  // what it shows, in a sentence or two
  uint64_t seed = 1;
  Millis warm_up{0};  // with traffic, not measured
  Millis measured{60'000};
  Millis calm{5000};  // after it: no traffic and no faults, for everyone to come to agree
  std::vector<RegionPlan> regions = {};
  FleetSettings settings{};
  std::vector<ClockShape> clocks = {};
  std::vector<LimitPlan> limits = {};
  std::vector<StreamPlan> traffic = {};
  std::vector<FaultPlan> faults = {};
  std::vector<FaultRate> random_faults = {};
  std::vector<Expectation> expect = {};
};

// What the RFC that this is compared with does: from half of the limit on, every 10 s, by every
// process, as many rows as there are.
[[nodiscard]] SyncRules floor_rules();

// Regions r0, r1, ... with as many nodes as are there when they are dealt in turn; the way to the
// ledger is the longer the later the region.
struct EvenFleet {
  uint32_t regions = 10;
  uint32_t nodes = 10;  // in all
  Millis to_origin{1};
  Millis to_ledger_first{20};
  Millis to_ledger_last{80};
};
[[nodiscard]] std::vector<RegionPlan> even_fleet(const EvenFleet& fleet);

[[nodiscard]] std::string_view to_string(Shape shape);
[[nodiscard]] std::string_view to_string(FaultKind kind);

}  // namespace weir::sim
