// However many answers of the origin a call needs, it waits for the read deadline at most. Pauses
// of its process and leaps of all clocks are excluded. A relaxed request waits for a read only, and
// a batch for as long as its other items.

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class AnsweredInTime final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "answered in time"; }

  Violation after_wait(const RegionView& view, const FinishedWait& wait) override {
    const Nanos waited = wait.ended - wait.began;
    if (waited <= view.guarantees.read_deadline) return {};
    if (wait.began < view.nodes.at(static_cast<size_t>(wait.node)).paused_until) return {};
    // All clocks leapt meanwhile.
    if (view.jumped_at && wait.began <= *view.jumped_at) return {};
    return "node " + std::to_string(wait.node) + " answered after " +
           std::to_string(std::chrono::duration_cast<Millis>(waited).count()) + " ms";
  }
};

}  // namespace

std::unique_ptr<RegionChecker> make_answered_in_time() {
  return std::make_unique<AnsweredInTime>();
}

}  // namespace weir::sim
