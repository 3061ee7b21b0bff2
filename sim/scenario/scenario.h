// A scenario: a fleet, its limits, its traffic, the faults, and the expected results. Plain data;
// scenario_file.h reads it, run.h runs it.
//
// All times count from the start of the run.

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

// A range is drawn from once per key; for delays, once per message.

struct RegionPlan {
  std::string name;
  uint32_t nodes = 1;
  Range<Millis> to_origin{Millis(1), Millis(1)};  // one way
  Range<Millis> to_ledger{Millis(20), Millis(20)};
};

// The configuration of all nodes.
struct FleetSettings {
  SyncRules sync{};
  bool ledger = true;  // off: regions do not share counts
  OnOriginLoss on_origin_loss = OnOriginLoss::kLocal;
  Millis read_deadline = Options{}.read_deadline;
  Millis max_freshness = Options{}.max_freshness;
  Millis replay_within = Options{}.replay_within;
  size_t capacity = size_t{1} << 13;  // tuples of a node
};

struct LimitPlan {
  std::string name;              // the namespace; traffic refers to it
  Range<Count> limit{100, 100};  // drawn per key, evenly over octaves
  Millis duration{60'000};
  Algorithm algorithm = Algorithm::kSlidingWindow;
  std::optional<Count> burst = {};  // gcra and token_bucket; the limit if absent
};

enum class Shape : uint8_t {
  kSteady,     // at even intervals, each key with its own phase
  kPoisson,    // at random intervals
  kOnOff,      // at random during `on`, then none during `off`; each key with its own phase
  kEdgeBurst,  // the requests of a window at once: half just before a window ends, half just after
  kLockStep,   // `clients` send at the same instant, every `every`
  kDiurnal,    // at random; the rate goes from 0 to twice the mean and back in `every`
  kHopping,    // at random, all in one region for `every`, then all in the next
  // Every region but the last uses what it may leave unpublished; then the last one requests the
  // limit.
  kHideThenRun,
  // The same, but all regions take a lease first.
  kHoldBackThenRun,
  kFresh,  // at random, each request for a new key
};

// Whether a shape itself defines the amount and the region of its requests.
[[nodiscard]] constexpr bool is_scripted(Shape shape) {
  return shape == Shape::kHideThenRun || shape == Shape::kHoldBackThenRun;
}

// Requests of one kind.
struct StreamPlan {
  std::string limit;  // the name of a LimitPlan
  Shape shape = Shape::kPoisson;
  uint64_t keys = 1;
  // The requests for one key in one window of its limit, in all regions together: in limits, or as
  // a number. For kFresh: the number of requests of all keys in one window.
  enum class Unit : uint8_t { kLimits, kRequests };
  Range<double> demand{1, 1};
  Unit unit = Unit::kLimits;
  Range<Count> cost{1, 1};  // of a request
  // The regions that use a key: all of these (empty: every one), or `spread` of them, drawn.
  std::vector<std::string> regions = {};
  std::optional<Range<uint32_t>> spread = {};
  Millis on{15'000};
  Millis off{45'000};
  Millis every{1000};
  uint32_t clients = 64;  // kLockStep
  Millis begins{0};
  std::optional<Millis> ends = {};  // default: the end of the measured time
};

enum class FaultKind : uint8_t {
  // The origin of a region.
  kOriginRefuses,
  kOriginSilent,
  kOriginSlow,        // amount: additional ms each way
  kOriginEmptied,     // instant: it restarts empty
  kOriginOldReplica,  // instant: a replica that lags by amount ms replaces it
  // The ledger, for all regions or for one.
  kLedgerRefuses,
  kLedgerSilent,
  kLedgerSlow,         // amount: additional ms each way
  kLedgerReadOnly,     // writes fail
  kLedgerFull,         // writes of new rows fail
  kLedgerDeadlocks,    // amount: percent of calls that fail
  kLedgerCutsImports,  // amount: percent of replies that are incomplete
  kLedgerStaleReads,   // amount: lag in ms of the replica that answers reads
  kLedgerFailsOver,    // instant: the last amount ms of commits are lost
  kLedgerFeedGap,      // instant: the next batch of a feed is deleted, and its rows are kept
  kLedgerClockSet,     // instant: amount ms off
  // Messages between nodes and their origin, of a region or a node.
  kNetworkLoses,     // amount: percent
  kNetworkRepeats,   // amount: percent
  kNetworkReorders,  // amount: additional ms each way, drawn for each message
  // Nodes.
  kNodeKilled,    // restarts when the fault ends
  kNodeDrained,   // shuts down in order, restarts when the fault ends
  kNodeIsolated,  // reaches no store, but gets requests
  kBridgeKilled,  // the node that is the bridge of a region; restarts when the fault ends
  kClockSet,      // instant: the clock of a node is amount ms off
};

struct FaultPlan {
  FaultKind what = FaultKind::kOriginRefuses;
  Millis at{0};
  Millis lasts{0};  // 0 for instant faults
  std::string where =
      {};  // a region, or region/node; empty: everywhere, for node faults a random one
  double amount = 0;
};

// Random faults, one every `every` on average. Duration and amount are drawn from these ranges; the
// region or node is drawn, too.
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
  std::string name = {};   // the name of its file
  std::string about = {};  // its purpose, in a sentence or two
  uint64_t seed = 1;
  Millis warm_up{0};  // with traffic, not measured
  Millis measured{60'000};
  Millis calm{5000};  // no traffic and no faults, so that all nodes can agree
  std::vector<RegionPlan> regions = {};
  FleetSettings settings{};
  std::vector<ClockShape> clocks = {};
  std::vector<LimitPlan> limits = {};
  std::vector<StreamPlan> traffic = {};
  std::vector<FaultPlan> faults = {};
  std::vector<FaultRate> random_faults = {};
  std::vector<Expectation> expect = {};
};

// The scheme of the RFC that Weir is compared with: from half of the limit on, a region publishes
// every 10 s, without a row budget.
[[nodiscard]] SyncRules floor_rules();

// Regions r0, r1, ... with their nodes dealt in turn; later regions are further from the ledger.
struct EvenFleet {
  uint32_t regions = 10;
  uint32_t nodes = 10;  // in all regions
  Millis to_origin{1};
  Millis to_ledger_first{20};
  Millis to_ledger_last{80};
};
[[nodiscard]] std::vector<RegionPlan> even_fleet(const EvenFleet& fleet);

[[nodiscard]] std::string_view to_string(Shape shape);
[[nodiscard]] std::string_view to_string(FaultKind kind);

}  // namespace weir::sim
