// The origin of a simulated region, with the faults that a store itself can have.

#pragma once

#include <map>
#include <memory>
#include <utility>

#include "origins/in_process_origin.h"

namespace weir::sim {

using Components = std::map<Component, Count>;

// Belongs to the timeline.
class SimulatedOrigin {
 public:
  virtual ~SimulatedOrigin() = default;
  // The origin as one process reaches it. Must not outlive this.
  [[nodiscard]] virtual std::shared_ptr<RegionalOrigin> endpoint_of(int process) = 0;
  [[nodiscard]] virtual Components components(const CellId& cell) const = 0;

  // Loses everything, the data of the bridge included.
  virtual void forget_all() = 0;
  // Saves the present state under a number, and goes back to it later.
  virtual void save(size_t number) = 0;
  virtual void restore_saved(size_t number) = 0;
};

// Without a history, for large fleets.
class PlainOrigin final : public SimulatedOrigin {
 public:
  explicit PlainOrigin(const Clock& clock)
      : origin_(std::make_shared<origins::InProcessOrigin>(clock)) {}

  [[nodiscard]] std::shared_ptr<RegionalOrigin> endpoint_of(int /*process*/) override {
    return origin_->another_endpoint();
  }
  [[nodiscard]] Components components(const CellId& cell) const override {
    return origin_->components(cell);
  }
  void forget_all() override { origin_->clear(); }
  void save(size_t number) override { saved_[number] = origin_->snapshot(); }
  void restore_saved(size_t number) override { origin_->restore(std::move(saved_[number])); }

 private:
  std::shared_ptr<origins::InProcessOrigin> origin_;
  std::map<size_t, origins::InProcessOrigin::Snapshot> saved_;
};

}  // namespace weir::sim
