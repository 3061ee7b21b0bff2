// All-or-nothing decision over several requests.
//
// All threads charge tuples in the same order. Each cost is charged tentatively; the first denial
// takes all costs back, in reverse order, so that a denied batch changes nothing. Nothing in
// between suspends. Never admits too much: while a batch is in progress, its costs count for all
// others.
//
// One batch on one thread, for the length of a call.

#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "decide/decider.h"
#include "weir/limiter.h"

namespace weir::decide {

struct BatchDecision {
  bool admitted = false;
  bool late = false;                          // nothing was decided: retry with a newer time
  std::vector<memory::CellDecision> items{};  // in the order of the requests
};

// The items that the origin has decided; what it admitted is charged. Empty: none.
using BatchAnswers = std::vector<std::optional<memory::CellDecision>>;
inline const BatchAnswers kNoAnswers;

class Batch {
 public:
  Batch(Decider& decider, const LimiterState& state, const std::vector<RequestContext>& contexts,
        const BatchAnswers& answers = kNoAnswers)
      : decider_(decider),
        state_(state),
        contexts_(contexts),
        answers_(answers),
        results_(contexts.size()) {}

  [[nodiscard]] BatchDecision run();

  // The first denial of run(), which charges nothing here; none: it would admit all, or is late.
  struct Denial {
    size_t item = 0;
    memory::CellDecision result{};
  };
  [[nodiscard]] std::optional<Denial> trial();

 private:
  // The requests on one tuple, as a range of order_.
  struct Group {
    size_t begin = 0;
    size_t end = 0;
  };
  // A charge, and how to settle or undo it.
  struct Charge {
    enum class Kind : uint8_t { kTentative, kHeld, kSketched, kGranted } kind = Kind::kTentative;
    memory::Tuple tuple{};
    size_t item = 0;  // held: the last of its group, whose cost is that of all items charged here
    int64_t sequence = 0;
    Count cost = 0;
  };

  [[nodiscard]] bool charge_all();
  void sort_into_groups();
  [[nodiscard]] bool take_answers();
  [[nodiscard]] bool is_answered(size_t item) const {
    return !answers_.empty() && answers_[item].has_value();
  }
  [[nodiscard]] bool is_answered(const Group& group) const {
    return std::all_of(order_.begin() + static_cast<std::ptrdiff_t>(group.begin),
                       order_.begin() + static_cast<std::ptrdiff_t>(group.end),
                       [this](size_t item) { return is_answered(item); });
  }
  [[nodiscard]] bool charge(const Group& group);
  [[nodiscard]] bool peek(const Group& group);
  [[nodiscard]] memory::CellDecision charge_tentatively(const memory::Tuple& tuple,
                                                        const Group& group);
  [[nodiscard]] memory::CellDecision charge_locked(const memory::Tuple& tuple, const Group& group);
  [[nodiscard]] memory::CellDecision deny_held(const memory::Tuple& tuple, const Group& group);
  [[nodiscard]] memory::CellDecision charge_in_sketch(const Group& group);
  [[nodiscard]] memory::Query query_up_to(const Group& group, size_t i) const;
  void settle();
  void withdraw(const memory::Tuple& tuple, Count cost) const;
  void undo(size_t down_to);
  void undo_one(const Charge& charge);
  void report_denial();

  Decider& decider_;
  const LimiterState& state_;
  const std::vector<RequestContext>& contexts_;
  const BatchAnswers& answers_;
  std::vector<size_t> order_;
  std::vector<Group> groups_;
  std::vector<Charge> charges_;
  std::vector<memory::CellDecision> results_;
  size_t denied_item_ = 0;
  int spins_ = memory::kHeadLockSpins;  // left to wait for other batches, on all tuples together
  bool late_ = false;
};

}  // namespace weir::decide
