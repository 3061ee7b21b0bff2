// An origin for tests that can be lost, or lose the answers to calls that it has executed.

#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "tests/doubles/forwarding_origin.h"

namespace weir::decide {

class LossyLink final : public doubles::ForwardingOrigin {
 public:
  using ForwardingOrigin::ForwardingOrigin;

  void read(std::vector<CellRead> cells, OriginReply reply) override {
    ForwardingOrigin::read(std::move(cells), answer(std::move(reply)));
  }
  void replay(std::vector<CellReplay> cells, OriginReply reply) override {
    ForwardingOrigin::replay(std::move(cells), answer(std::move(reply)));
  }
  void step(std::vector<CellStep> steps, StepReply reply) override {
    ForwardingOrigin::step(std::move(steps), answer(std::move(reply)));
  }
  void decide(std::vector<ExactCall> calls, ExactReply reply) override {
    ForwardingOrigin::decide(std::move(calls), answer(std::move(reply)));
  }
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
};

}  // namespace weir::decide
