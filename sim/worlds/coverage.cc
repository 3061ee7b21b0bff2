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
    "a node killed with untold counts",
    "a node restarted",
    "an isolated node that went on deciding",
    "a node drained",
    "an empty origin healed",
    "an old snapshot healed",
    "a lagging replica healed",
    "a late write healed",
    "an outage with errors survived",
    "an outage without answers survived",
    "a reply beyond its deadline",
    "a decision after the clock was set back over a window's start",
    "a limit exceeded by what was in flight",
    "a tuple forgotten and made anew",
    "a denial caused by other regions only",
    "two regions saying in one round that they are here",
    "a row of a window that is over",
    "a lease that ended and was taken anew",
    "a row written again",
    "rows that the ledger lost written again",
    "an import that was cut",
    "a region without the ledger that went on limiting",
    "rows that waited for the budget",
    "an import from a replica that lags",
    "a row refused for what it is",
    "a process killed when the origin had acknowledged",
    "a tuple evicted where there are regions",
    "rows of others without room",
    "a clock hours off and right again",
    "a leap of all clocks",
    "a decision by an algorithm that each process counts by itself",
};

}  // namespace

std::string_view to_string(Coverage state) {
  return kCoverageNames[static_cast<size_t>(state)];
}

}  // namespace weir::sim
