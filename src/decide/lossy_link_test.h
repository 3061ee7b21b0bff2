// An origin for tests that can be lost, or lose the answers to calls that it has executed.

#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "weir/origin.h"

namespace weir::decide {

class LossyLink final : public RegionalOrigin, public StepStore, public ExactStore {
 public:
  explicit LossyLink(std::shared_ptr<RegionalOrigin> far_end) : far_end_(std::move(far_end)) {}

  void read(std::vector<CellRead> cells, OriginReply reply) override {
    far_end_->read(std::move(cells), answer(std::move(reply)));
  }
  void replay(std::vector<CellReplay> cells, OriginReply reply) override {
    far_end_->replay(std::move(cells), answer(std::move(reply)));
  }
  void step(std::vector<CellStep> steps, StepReply reply) override {
    far_end_->step_store()->step(std::move(steps), answer(std::move(reply)));
  }
  void decide(std::vector<ExactCall> calls, ExactReply reply) override {
    far_end_->exact_store()->decide(std::move(calls), answer(std::move(reply)));
  }
  [[nodiscard]] StepStore* step_store() override { return this; }
  [[nodiscard]] ExactStore* exact_store() override { return this; }
  [[nodiscard]] Reach reach() const override { return reachability; }

  Reach reachability = Reach::kPrompt;
  int lost_answers = 0;  // of the next calls

 private:
  template <typename Value>
  [[nodiscard]] std::function<void(Result<Value>)> answer(
      std::function<void(Result<Value>)> reply) {
    if (lost_answers == 0) return reply;
    --lost_answers;
    return [reply](const Result<Value>&) {
      reply(Error{.code = ErrorCode::kUnavailable, .retry = Retry::kMayHelp});
    };
  }

  const std::shared_ptr<RegionalOrigin> far_end_;
};

}  // namespace weir::decide
