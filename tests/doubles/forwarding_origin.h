// An origin that hands every call to another one. Tests derive from it and change some calls.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "weir/origin.h"

namespace weir::doubles {

class ForwardingOrigin : public RegionalOrigin, public StepStore, public ExactStore {
 public:
  explicit ForwardingOrigin(std::shared_ptr<RegionalOrigin> far_end)
      : far_end_(std::move(far_end)) {}

  void read(std::vector<CellRead> cells, OriginReply reply) override {
    far_end_->read(std::move(cells), std::move(reply));
  }
  void replay(std::vector<CellReplay> cells, OriginReply reply) override {
    far_end_->replay(std::move(cells), std::move(reply));
  }
  void retire(std::vector<CellRetirement> cells, RetirementReply reply) override {
    far_end_->retire(std::move(cells), std::move(reply));
  }
  void step(std::vector<CellStep> steps, StepReply reply) override {
    far_end_->step_store()->step(std::move(steps), std::move(reply));
  }
  void decide(std::vector<ExactCall> calls, ExactReply reply) override {
    far_end_->exact_store()->decide(std::move(calls), std::move(reply));
  }
  [[nodiscard]] Reach reach() const override { return far_end_->reach(); }
  [[nodiscard]] uint32_t live_nodes() const override { return far_end_->live_nodes(); }
  [[nodiscard]] uint32_t rank() const override { return far_end_->rank(); }
  [[nodiscard]] std::optional<Membership> membership() const override {
    return far_end_->membership();
  }
  [[nodiscard]] StepStore* step_store() override {
    return far_end_->step_store() == nullptr ? nullptr : this;
  }
  [[nodiscard]] ExactStore* exact_store() override {
    return far_end_->exact_store() == nullptr ? nullptr : this;
  }
  [[nodiscard]] BridgeStore* bridge_store() override { return far_end_->bridge_store(); }
  [[nodiscard]] uint64_t epoch() const override { return far_end_->epoch(); }

 private:
  const std::shared_ptr<RegionalOrigin> far_end_;
};

}  // namespace weir::doubles
