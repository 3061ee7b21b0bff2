// The tuples to evaluate against the publish rule.
//
// Evaluating the rule on every admission would cost too much. Instead each window tuple carries the
// count and the limit at which the rule's answer may change (TupleWatch), and a change that reaches
// them puts the tuple on this list. One thread of the region sync takes the list and evaluates.
//
// push() and the callers that use it are safe from any thread; take_all() from one at a time.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "memory/dirty_list.h"
#include "memory/tuple_meta.h"
#include "memory/tuple_store.h"
#include "memory/tuple_watch.h"
#include "memory/window_cells.h"

namespace weir::memory {

// 0 stands for no limit.
[[nodiscard]] inline Count smaller_limit(Count a, Count b) {
  if (mutated(Mutation::kLargerLimitInRule)) return std::max(a, b);
  return a == 0 ? b : b == 0 ? a : std::min(a, b);
}

// The smallest limit that was asked on a window tuple in this window.
[[nodiscard]] inline Count smallest_limit(const Tuple& tuple) {
  const TupleMeta meta{tuple.cold->meta.load(std::memory_order_relaxed)};
  return smaller_limit(WindowCells(tuple).watch().limit(), meta.limit());
}

class PublishWatch {
 public:
  explicit PublishWatch(TupleStore& tuples) : list_(tuples.table.slots()) {
    tuples.budget.reserve_fixed(MemoryPart::kTable, DirtyList::bytes_for(tuples.table.slots()));
  }

  // Whether a charge may change the rule's answer. `before` is the window's count before the
  // charge. An own count of 0 may be the first charge of a window: then the watch is of another.
  [[nodiscard]] static bool may_change_rule(TupleWatch watch, const Evidence& before, Count cost,
                                            Count limit) {
    return before.own == 0 || limit < watch.limit() ||
           watch.reached_by(before.own + before.siblings + before.foreign + cost);
  }

  // After such a charge; the caller holds an epoch guard.
  void after_charge(const Tuple& tuple, TupleWatch watch, const Evidence& before, Count limit,
                    Algorithm algorithm) {
    const WindowCells cells(tuple);
    if (before.own == 0) {
      record_ask(tuple.cold->meta, limit, algorithm);
      cells.reset_watch(limit);
    } else if (limit < watch.limit()) {
      cells.watch_limit(limit);
    }
    push(tuple.index);
  }

  void after_denial(const Tuple& tuple, Count limit) {
    const WindowCells cells(tuple);
    cells.mark_denied();
    if (limit < cells.watch().limit()) cells.watch_limit(limit);
    push(tuple.index);
  }

  // After the siblings' count rose, in this window or the last.
  void after_sibling_change(const Tuple& tuple, int64_t sequence) {
    if (mutated(Mutation::kRuleOnRequestsOnly)) return;
    const WindowCells cells(tuple);
    if (sequence < cells.newest() ||
        cells.watch_seq_cst().reached_by(cells.counted_seq_cst(sequence))) {
      push(tuple.index);
    }
  }

  void push(uint32_t index) { list_.push(index); }
  [[nodiscard]] std::vector<uint32_t> take_all() { return list_.take_all(); }

 private:
  DirtyList list_;
};

}  // namespace weir::memory
