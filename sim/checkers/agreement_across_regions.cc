// Rows are imported. Without faults, every process that has read the tuple uses a row one import
// delay after its commit at the latest, messages included. After faults have ended all processes
// agree: each knows the rows of the other regions in the ledger, and no more than was ever
// committed; and the ledger has every row that a bridge has recorded as published, even if it had
// lost the row. A row younger than that may be unknown at the end, and so may a row of a window
// that has just begun on the node: it is used at the next iteration.
//
// The ledger need not have a recorded row that nobody takes for published, neither the origin nor a
// process. Its record came to the origin when the bridge had repeated the others: of a process that
// had been without the origin, or in a late message. If the row is needed, it is published anew.

#include <algorithm>
#include <map>
#include <tuple>

#include "global/bridge_codec.h"
#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"
#include "sim/checkers/read_tuples.h"

namespace weir::sim {
namespace {

// Two iterations: by then a process has merged what it received.
constexpr Millis kMergeDelay{30};

class AgreementAcrossRegions final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "agreement across regions"; }

  Violation after_answer(const GlobalView& view, int region, const RequestRecord& record) override {
    read_.note_answer(view, region, record);
    return {};
  }

  Violation at_audit(const GlobalView& view) override {
    if (view.disrupted_since) read_.clear();
    if (view.disrupted_since || view.failed_over) {
      unknown_since_.clear();
      return {};
    }
    return check_nodes(view, view.guarantees.read_deadline,
                       [&](const RowId& key) { return received_by_now(view, key); });
  }

  Violation at_end(const GlobalView& view) override {
    // The last rows may still be in flight.
    unknown_since_.clear();
    auto violation = check_nodes(view, Nanos(-1), [&](const RowId& key) {
      return std::min(view.ledger.current(key), received_by_now(view, key));
    });
    for (const RegionState& region : view.regions) {
      if (!violation) violation = check_published(view, region);
    }
    return violation;
  }

 private:
  using ProcessCell = std::tuple<std::string, int, CellId>;  // region, process

  // The count that was committed so long ago that every process has read it.
  static Count received_by_now(const GlobalView& view, const RowId& key) {
    return view.history.count_at(key, view.now.mono - view.delays.import - Nanos(1));
  }

  static Count taken_for_published(const RegionState& region, const CellId& id) {
    Count taken = 0;
    for (const RegionCount& count : region.origin.bridge().counts(id.tuple)) {
      const bool is_own = count.region == region.name && count.sequence == id.sequence;
      if (is_own) taken = std::max(taken, count.count);
    }
    for (const NodeView& node : region.nodes) {
      for (const global::SharedCell& cell : node.shared) {
        const bool is_cell = cell.tuple == id.tuple && cell.sequence == id.sequence;
        if (is_cell) taken = std::max(taken, cell.published);
      }
    }
    return taken;
  }

  static Violation check_published(const GlobalView& view, const RegionState& region) {
    for (const std::string& record : region.origin.bridge().records()) {
      const auto notice = global::decode_notice(record);
      if (!notice) continue;
      for (const global::TupleChange& change : notice->changes) {
        if (view.rejected.count(change.tuple) > 0) continue;
        for (const RegionCount& own : change.counts) {
          const CellId id{change.tuple, own.sequence};
          if (!is_live_at(id, view.now.wall)) continue;
          const Count has = view.ledger.current({id, region.name});
          const Count taken = std::min(own.count, taken_for_published(region, id));
          if (taken <= has) continue;
          return region.name + " takes " + std::to_string(taken) +
                 " for published, but the ledger has " + std::to_string(has);
        }
      }
    }
    return {};
  }

  template <typename Written>
  Violation check_nodes(const GlobalView& view, Nanos patience, const Written& written) {
    for (size_t i = 0; i < view.regions.size(); ++i) {
      const RegionState& region = view.regions[i];
      for (const NodeView& node : region.nodes) {
        if (!node.runs() || node.sync.left_out > 0 || node.sync.no_room > 0) continue;
        for (const decide::CellView& cell : node.cells) {
          const CellId id{cell.tuple, cell.sequence};
          if (!read_.contains(static_cast<int>(i), node, cell)) continue;
          // Also by the node's own clock, which may be ahead.
          if (!is_live_at(id, std::max(view.now.wall, node.latest))) continue;
          if (had_wrong_clock(region.oracle.process(node.process), id)) continue;
          if (node.now.wall - WallTime(id.sequence * duration_of(id)) <= kMergeDelay) continue;
          Count others = 0;
          for (const RegionState& other : view.regions) {
            if (other.name != region.name) others += written({id, other.name});
          }
          const ProcessCell key{region.name, node.process, id};
          if (cell.foreign >= others) {
            unknown_since_.erase(key);
            continue;
          }
          const auto since = unknown_since_.emplace(key, view.now.mono).first;
          if (view.now.mono - since->second <= patience) continue;
          return "node " + std::to_string(node.node) + " of " + region.name + " has imported " +
                 std::to_string(cell.foreign) + " of " + std::to_string(others) +
                 " that other regions published in window " + std::to_string(cell.sequence);
        }
      }
    }
    return {};
  }

  ReadTuples read_;
  std::map<ProcessCell, MonoTime> unknown_since_;
};

}  // namespace

std::unique_ptr<GlobalChecker> make_agreement_across_regions() {
  return std::make_unique<AgreementAcrossRegions>();
}

}  // namespace weir::sim
