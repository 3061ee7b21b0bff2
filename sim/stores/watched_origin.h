// The in-process origin, with a history: records the counts of every cell with their times and
// reports each write to an observer. It can write as Redis does, lose data, and go back to an
// earlier state.
//
// Counts of a process that shut down stay under its name in the history as long as the shared
// component of departed processes should hold them: by the calls that the origin received, not by
// what it did.
//
// The data of the bridge are in BridgeData. The origin loses them with the rest, and it may evict
// the counts of other regions alone.

#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "origins/exact_tuples.h"
#include "origins/in_process_origin.h"
#include "sim/faults/planted_bug.h"
#include "sim/random.h"
#include "sim/stores/bridge_endpoint.h"
#include "sim/stores/origin_history.h"
#include "sim/stores/simulated_origin.h"

namespace weir::sim {

enum class Writing : uint8_t {
  kRaise,  // the larger of old and new, as the in-process origin does
  kSet,    // the new one, as HSET of Redis does: an older total that arrives later lowers it
};

// How an origin comes to have less than it acknowledged.
enum class Loss : uint8_t { kLateWrite, kForgot, kOldSnapshot, kLaggingReplica, kCount };

// Belongs to the timeline.
class WatchedOrigin final : public OriginHistory, public SimulatedOrigin {
 public:
  using Observer = std::function<void(const OriginWrite&)>;
  // Redis keeps a cell this long after its last use, so that clocks may differ a little.
  static constexpr Millis kRedisExpiryMargin{5000};

  WatchedOrigin(const Clock& clock, Writing writing, PlantedBug planted_bug, Observer observer,
                Millis expiry_margin = kRedisExpiryMargin)
      : clock_(clock),
        writing_(writing),
        expiry_margin_(expiry_margin),
        planted_bug_(planted_bug),
        observer_(std::move(observer)),
        origin_(clock),
        bridge_{.data = BridgeData(clock, expiry_margin, planted_bug),
                .total = [this](const CellId& cell) { return total(cell); },
                .raise_departed = [this](const std::string& tuple,
                                         const CellFloor& floor) { raise_departed(tuple, floor); }},
        random_(0) {}

  [[nodiscard]] std::shared_ptr<RegionalOrigin> endpoint_of(int process) override;

  void forget_all() override;
  void save(size_t number) override { saved_[number] = clock_.now().mono; }
  void restore_saved(size_t number) override { restore(saved_[number], Loss::kLaggingReplica); }
  // Goes back to the state of that time.
  void restore(MonoTime as_of, Loss loss);

  // Evicts the counts of other regions on one tuple. False: there are none.
  bool evict_region_counts(Random& random) { return bridge_.data.evict_one(random); }

  // Components that were lost this way and that their writer has restored.
  [[nodiscard]] uint64_t repaired(Loss loss) const { return repaired_[static_cast<size_t>(loss)]; }

  [[nodiscard]] Count least_others_since(const CellId& cell, const Component& excluded,
                                         MonoTime since) const override;
  [[nodiscard]] Components components(const CellId& cell) const override {
    return origin_.components(cell);
  }
  [[nodiscard]] const std::vector<ComponentValue>& component_history(
      const CellId& cell, const Component& component) const override;
  [[nodiscard]] bool has_lost(const CellId& cell) const override;
  [[nodiscard]] Count total(const CellId& cell) const override;
  [[nodiscard]] Count restored(const CellId& cell) const override;
  [[nodiscard]] const std::map<CellId, Count>& all_restored() const override { return restored_; }
  [[nodiscard]] Count granted(const CellId& cell) const override {
    const auto found = granted_.find(cell);
    return found == granted_.end() ? 0 : found->second;
  }
  [[nodiscard]] const ExactHistory* exact_history(const std::string& tuple) const override {
    const auto found = exact_history_.find(tuple);
    return found == exact_history_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] MonoTime exact_lost_at() const override { return exact_lost_at_; }
  // What a process has told that it admitted by itself, in all.
  [[nodiscard]] Count told_by(const std::string& tuple, uint64_t incarnation) const;
  // Exact calls that charged something for other regions.
  [[nodiscard]] uint64_t foreign_charges() const { return foreign_charges_; }
  [[nodiscard]] const BridgeData& bridge() const override { return bridge_.data; }

 private:
  class Endpoint;
  struct Cell {
    WallTime expires_at{};
    Components components;
    Components folded{};  // writers of the counts in the shared component of departed processes
  };
  struct Moment {
    MonoTime when{};
    Components components{};
    Components folded{};
  };
  struct Lost {
    Count had = 0;
    Loss loss = Loss::kForgot;
  };
  using CellComponent = std::pair<CellId, Component>;

  [[nodiscard]] CellTotals read(const CellRead& read);
  // `told`: of the total, what the writer says to have admitted.
  [[nodiscard]] CellTotals write(int process, const CellReplay& replay, Count told);
  [[nodiscard]] StepTotals step(int process, const CellStep& step);
  [[nodiscard]] ExactAnswer decide(const ExactCall& call);
  void note_charges(const ExactCall& call, const ExactAnswer& answer, ExactHistory& history);
  void forget_exact();
  void retire(const CellRetirement& retired);
  void raise_departed(const std::string& tuple, const CellFloor& floor);
  [[nodiscard]] CellTotals totals(const CellRead& read);
  void store(const CellReplay& replay, Count before);
  void replace_all(std::map<CellId, Cell> cells, Loss loss);
  void note(const CellId& cell);
  [[nodiscard]] static std::vector<Moment>::const_iterator first_after(
      const std::vector<Moment>& moments, MonoTime when);
  [[nodiscard]] Moment moment_at(const CellId& cell, MonoTime when) const;
  [[nodiscard]] CellTotals with_bug(const CellId& cell, const Component& reader, CellTotals totals);
  void drop_expired();

  const Clock& clock_;
  const Writing writing_;
  const Millis expiry_margin_;
  const PlantedBug planted_bug_;
  Observer observer_;
  origins::InProcessOrigin origin_;  // the components
  SharedBridge bridge_;
  Random random_;
  // The content of origin_, to be able to write it again.
  std::map<CellId, Cell> cells_;
  std::map<CellId, std::vector<Moment>> history_;
  std::map<CellId, Count> restored_;
  std::map<size_t, MonoTime> saved_;
  std::map<CellComponent, std::vector<ComponentValue>> component_values_;
  std::map<CellComponent, Lost> lost_;
  std::map<CellId, Count> granted_;
  origins::ExactTuples exact_;                                        // lost with the rest
  std::map<std::pair<std::string, Component>, uint64_t> last_calls_;  // numbers
  std::set<std::tuple<std::string, Component, uint64_t, size_t>> granted_asks_;  // by call number
  std::map<std::pair<std::string, Component>, Count> told_;
  std::map<std::string, ExactHistory> exact_history_;
  MonoTime exact_lost_at_{};
  uint64_t foreign_charges_ = 0;
  std::map<CellComponent, Count> raised_;  // by steps
  std::set<CellId> refused_;               // cells in which a step refused a request
  std::array<uint64_t, static_cast<size_t>(Loss::kCount)> repaired_{};
  std::map<CellComponent, Count> claimed_;  // for planted bugs that hide something
};

}  // namespace weir::sim
