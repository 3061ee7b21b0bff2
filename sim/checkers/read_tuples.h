// The tuples that each process has read from the origin since the last disruption. From then on the
// messages of the bridge keep their counts of other regions up to date; a process that holds a
// tuple without having read it, or that has missed a message, reads it before it uses it.

#pragma once

#include <set>
#include <string>
#include <tuple>

#include "sim/checkers/global_checker.h"

namespace weir::sim {

class ReadTuples {
 public:
  void note_answer(const GlobalView& view, int region, const RequestRecord& record) {
    if (view.disrupted_since) return tuples_.clear();
    // A request for more than the limit is denied without a read, and so is one that does not fit
    // the counts in memory. Then the rest of its batch is not read either.
    if (record.in_batch && !record.charged) return;
    const bool admitted = record.verdict.admitted();
    if (!admitted && record.verdict.basis != Basis::kRefreshed) return;
    if (record.verdict.basis == Basis::kDegraded || record.contributor.generation == 0) return;
    tuples_.emplace(region, record.contributor.process, record.contributor.generation,
                    record.tuple);
  }
  void clear() { tuples_.clear(); }
  [[nodiscard]] bool contains(int region, const NodeView& node,
                              const decide::CellView& cell) const {
    return tuples_.count({region, node.process, cell.generation, cell.tuple}) > 0;
  }

 private:
  std::set<std::tuple<int, int, uint64_t, std::string>> tuples_;  // region, process, generation
};

}  // namespace weir::sim
