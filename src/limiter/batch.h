// All or nothing over several requests.
//
// Tuples are taken in one order that all threads share. Each cost is charged
// tentatively; the first refusal takes all of it back, in the reverse order, so that a
// failed batch leaves no trace. Nothing in between suspends. Never a false allow: while
// a batch is under way its cost counts for everyone else.
//
// One batch on one thread, for the length of a call.

#pragma once

#include <memory>
#include <vector>

#include "limiter/judge.h"
#include "weir/limiter.h"

namespace weir::limiter {

struct BatchRuling {
  bool admitted = false;
  bool late = false;            // nothing was decided: ask again with a newer time
  std::vector<Ruling> items{};  // in the order of the cases
};

class Batch {
 public:
  Batch(Decider& decider, Store& store, const std::vector<RequestContext>& contexts)
      : decider_(decider), store_(store), cases_(contexts), rulings_(contexts.size()) {}

  [[nodiscard]] BatchRuling run();

 private:
  // The cases of one tuple, as a range of order_.
  struct Group {
    size_t begin = 0;
    size_t end = 0;
  };
  // What was charged, and how to settle or undo it.
  struct Charge {
    enum class Kind : uint8_t { kTentative, kHeld, kSketched } kind = Kind::kTentative;
    memory::Tuple tuple{};
    size_t item = 0;  // held: the last of its group, whose cost is the group's
    int64_t sequence = 0;
    Count cost = 0;
  };

  void sort_into_groups();
  [[nodiscard]] bool charge(const Group& group);
  [[nodiscard]] bool peek(const Group& group);
  [[nodiscard]] memory::CellDecision charge_tentatively(const memory::Tuple& tuple,
                                                        const Group& group);
  [[nodiscard]] memory::CellDecision charge_locked(const memory::Tuple& tuple, const Group& group);
  [[nodiscard]] memory::CellDecision refuse_held(const memory::Tuple& tuple, const Group& group);
  [[nodiscard]] memory::CellDecision charge_sketched(const Group& group);
  [[nodiscard]] memory::Query query_up_to(const Group& group, size_t i) const;
  void settle();
  void withdraw(const memory::Tuple& tuple, Count cost) const;
  void undo(size_t down_to);
  void undo_one(const Charge& charge);
  void report_refusal();

  Decider& decider_;
  Store& store_;
  const std::vector<RequestContext>& cases_;
  std::vector<size_t> order_;
  std::vector<Group> groups_;
  std::vector<Charge> charges_;
  std::vector<Ruling> rulings_;
  size_t refused_item_ = 0;
  int turns_ = memory::kHeadLockSpins;  // left to wait for other batches, on all tuples together
  bool late_ = false;
};

}  // namespace weir::limiter
