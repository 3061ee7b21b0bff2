// A client keeps its limit when its algorithm or duration changes: a region admits no more by all
// its settings together than it may by one of them, 1.25 times the limit. Without faults, and if
// the counts have reached the origin before each change. No window of its settings ends meanwhile,
// so nothing that was admitted stops to count, apart from what drains. With several regions some
// windows take over less: their clients do not get here (sim/worlds/changing_clients.cc).

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

constexpr Count kMostDrained = 2;  // of limits that need half an hour or more to drain

class ChangedSettings final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "changed settings"; }

  Violation after_changes(const RegionView&, const ChangedUse& use) override {
    if (4 * use.admitted <= 5 * use.limit + 4 * kMostDrained) return {};
    return "the region admitted " + std::to_string(use.admitted) + " of " +
           std::to_string(use.limit) + " to " + use.client + ", by " + use.settings;
  }
};

}  // namespace

std::unique_ptr<RegionChecker> make_changed_settings() {
  return std::make_unique<ChangedSettings>();
}

}  // namespace weir::sim
