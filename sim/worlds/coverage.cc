#include "sim/worlds/coverage.h"

#include <array>

namespace weir::sim {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(Coverage::kCount)> kCoverageNames = {
    "a denial caused by siblings only",
    "a degraded verdict",
    "a roll-over with a read in flight",
    "a replay applied although its reply was lost",
    "a batch refused",
    "a message delivered twice",
    "a node killed with unacknowledged counts",
    "a node restarted",
    "an isolated node that kept deciding",
    "a node drained",
    "an empty origin repaired",
    "an old snapshot repaired",
    "a lagging replica repaired",
    "a late write repaired",
    "an outage with errors survived",
    "an outage without replies survived",
    "a reply beyond its deadline",
    "a decision after the clock was set back over a window's start",
    "a limit exceeded by counts in flight",
    "a tuple expired and created again",
    "a denial caused by other regions only",
    "two regions taking their first lease on a tuple in one round",
    "a row of a window that is over",
    "a lease that ended and was renewed",
    "a row written again",
    "rows that the ledger lost written again",
    "an incomplete import",
    "a region without the ledger that kept limiting",
    "rows that waited for the budget",
    "an import from a lagging replica",
    "a row rejected as invalid",
    "a bridge replaced by another process",
    "a message of the bridge lost",
    "a region's rows read as a whole",
    "a process killed after an acknowledged replay",
    "a burst on all nodes of a region",
    "a tuple evicted in a world with several regions",
    "a bridge killed in the middle of its work",
    "a bridge paused beyond its lease",
    "counts of other regions evicted by the origin",
    "a batch missing from a feed",
    "a feed that began again after a failover",
    "a region without an origin",
    "a clock hours off and corrected",
    "a jump of all clocks",
    "a decision by an algorithm whose counts are not merged",
    "an admission by the allowance on a state that the origin keeps",
    "a denial that the origin had announced",
    "an admission without the origin that it was told of later",
    "usage of another region charged at an origin",
    "a relaxed admission on a window",
    "a relaxed admission after a read",
    "a relaxed admission on a state",
    "a batch of relaxed and other requests",
};

}  // namespace

std::string_view to_string(Coverage state) {
  return kCoverageNames[static_cast<size_t>(state)];
}

}  // namespace weir::sim
