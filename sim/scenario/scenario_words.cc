#include "sim/scenario/scenario_words.h"

#include <array>

namespace weir::sim {
namespace {

constexpr std::array<std::string_view, 10> kShapes = {
    "steady",  "poisson", "on_off",        "edge_burst",         "lock_step",
    "diurnal", "hopping", "hide_then_run", "hold_back_then_run", "fresh"};
static_assert(kShapes.size() == static_cast<size_t>(Shape::kFresh) + 1);

constexpr std::array<std::string_view, 4> kClocks = {"steady", "drifting", "stepping", "sawtooth"};
static_assert(kClocks.size() == static_cast<size_t>(ClockShape::Kind::kSawtooth) + 1);

using enum FaultKind;
constexpr auto kDelay = Amount::kDelay;
constexpr auto kOffset = Amount::kOffset;
constexpr auto kPercent = Amount::kPercent;
constexpr auto kNode = FaultScope::kNode;
constexpr auto kNowhere = FaultScope::kNowhere;

constexpr std::array<FaultWords, 24> kFaults = {{
    {.kind = kOriginRefuses, .word = "origin_refuses"},
    {.kind = kOriginSilent, .word = "origin_silent"},
    {.kind = kOriginSlow, .word = "origin_slow", .amount = kDelay},
    {.kind = kOriginEmptied, .word = "origin_emptied", .at_once = true},
    {.kind = kOriginOldReplica, .word = "origin_old_replica", .amount = kDelay, .at_once = true},
    {.kind = kLedgerRefuses, .word = "ledger_refuses"},
    {.kind = kLedgerSilent, .word = "ledger_silent"},
    {.kind = kLedgerSlow, .word = "ledger_slow", .amount = kDelay},
    {.kind = kLedgerReadOnly, .word = "ledger_read_only"},
    {.kind = kLedgerFull, .word = "ledger_full"},
    {.kind = kLedgerDeadlocks, .word = "ledger_deadlocks", .amount = kPercent},
    {.kind = kLedgerCutsImports, .word = "ledger_cuts_imports", .amount = kPercent},
    {.kind = kLedgerStaleReads, .word = "ledger_stale_reads", .amount = kDelay},
    {.kind = kLedgerFailsOver,
     .word = "ledger_fails_over",
     .amount = kDelay,
     .where = kNowhere,
     .at_once = true},
    {.kind = kLedgerFeedGap, .word = "ledger_feed_gap", .at_once = true},
    {.kind = kLedgerClockSet,
     .word = "ledger_clock_set",
     .amount = kOffset,
     .where = kNowhere,
     .at_once = true},
    {.kind = kNetworkLoses, .word = "network_loses", .amount = kPercent, .where = kNode},
    {.kind = kNetworkRepeats, .word = "network_repeats", .amount = kPercent, .where = kNode},
    {.kind = kNetworkReorders, .word = "network_reorders", .amount = kDelay, .where = kNode},
    {.kind = kNodeKilled, .word = "node_killed", .where = kNode},
    {.kind = kNodeDrained, .word = "node_drained", .where = kNode},
    {.kind = kNodeIsolated, .word = "node_isolated", .where = kNode},
    {.kind = kBridgeKilled, .word = "bridge_killed"},
    {.kind = kClockSet, .word = "clock_set", .amount = kOffset, .where = kNode, .at_once = true},
}};

constexpr bool in_order() {
  for (size_t i = 0; i < kFaults.size(); ++i) {
    if (static_cast<size_t>(kFaults[i].kind) != i) return false;
  }
  return kFaults.size() == static_cast<size_t>(kClockSet) + 1;
}
static_assert(in_order());

}  // namespace

std::span<const FaultWords> fault_words() {
  return kFaults;
}
std::span<const std::string_view> shape_words() {
  return kShapes;
}
std::span<const std::string_view> clock_words() {
  return kClocks;
}

const FaultWords& words_of(FaultKind kind) {
  return kFaults[static_cast<size_t>(kind)];
}

std::string_view to_string(Shape shape) {
  return kShapes[static_cast<size_t>(shape)];
}
std::string_view to_string(FaultKind kind) {
  return words_of(kind).word;
}

}  // namespace weir::sim
