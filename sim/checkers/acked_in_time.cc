// Accepted counts are replayed in time, and again until the origin acknowledges them. The checker
// observes the process's end of its link, so that no network fault excuses a delay:
// - a process replays an accept within the replay interval and two iterations;
// - it repeats a replay that fails, or has no reply by its deadline, within that time;
// - it does the same for a cell of which the origin reports less than it once acknowledged,
//   unless a replay of the cell is in flight;
// - it replays everything after a reconnect.
// A count that was acknowledged on the same connection need not be replayed because another message
// failed. Nothing need be replayed by a process that ended, of a tuple that it evicted, or of a
// cell that is not live. Time in which the origin refuses every call does not count. A relaxed
// request tells the origin nothing itself, so all that it admits waits for a replay.

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class AckedInTime final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "acked in time"; }

  Violation after_answer(const RegionView& view, const RequestRecord& record) override {
    // A tuple that was evicted since its step has nothing left to replay.
    if (!record.charged || record.contributor.generation == 0) return {};
    const ProcessCell key{record.contributor, record.cell()};
    const Count accepted = view.oracle.accepted_by(record.contributor, record.cell());
    // A step tells the origin before the request is answered, and so may a replay.
    if (acknowledged_[key] >= accepted || is_in_flight(key, accepted)) return {};
    expect_replay(view, key, accepted, view.now.mono + view.guarantees.acked_within);
    return {};
  }

  Violation after_sent(const RegionView& view, const SentReplay& sent) override {
    if (auto overdue = after_event(view)) return overdue;  // sent, but too late
    connection_of_[{sent.process, sent.message}] = connections_[sent.process];
    if (sent.by_step) return {};
    for (const CellReplay& cell : sent.cells) {
      const ProcessCell key = cell_of_process(sent.process, cell.writer, cell.cell);
      last_sent_[key] = view.now.mono;
      const auto pending = pending_.find(key);
      if (pending == pending_.end()) continue;
      std::erase_if(pending->second,
                    [&](const PendingReplay& each) { return each.total <= cell.total; });
    }
    in_flight_[{sent.process, sent.message}] = {.since = view.now.mono, .cells = sent.cells};
    return {};
  }

  Violation after_received(const RegionView& view, const ReceivedReplay& received) override {
    const int process = received.sent.process;
    const bool in_time = in_flight_.erase({process, received.sent.message}) > 0;
    const MonoTime by = view.now.mono + view.guarantees.acked_within;
    for (size_t i = 0; i < received.sent.cells.size(); ++i) {
      const CellReplay& replay = received.sent.cells[i];
      const ProcessCell key = cell_of_process(process, replay.writer, replay.cell);
      if (!received.totals.ok()) {
        if (in_time && !is_acknowledged(view, key, replay))
          expect_replay(view, key, replay.total, by);
        continue;
      }
      const Count mine = received.totals->at(i).mine;
      if (mine < replay.total) expect_replay(view, key, replay.total, by);
      if (connection_of_[{process, received.sent.message}] == connections_[process]) {
        acknowledge(key, mine);
      }
      expect_replay_if_less(view, key, mine);
    }
    return {};
  }

  Violation after_received(const RegionView& view, const ReceivedRead& received) override {
    for (size_t i = 0; received.totals.ok() && i < received.cells.size(); ++i) {
      const CellRead& read = received.cells[i];
      expect_replay_if_less(view, cell_of_process(received.process, read.reader, read.cell),
                            received.totals->at(i).mine);
    }
    return {};
  }

  Violation after_reconnect(const RegionView& view, int process) override {
    ++connections_[process];
    std::erase_if(acknowledged_,
                  [process](const auto& each) { return each.first.first.process == process; });
    for (const auto& [cell, all] : view.oracle.cells()) {
      for (const auto& [contributor, accepted] : view.oracle.contributors(cell)) {
        if (contributor.process != process) continue;
        expect_replay(view, {contributor, cell}, accepted,
                      view.now.mono + view.guarantees.acked_within);
      }
    }
    return {};
  }

  Violation after_event(const RegionView& view) override {
    const MonoTime now = view.now.mono;
    for (auto it = in_flight_.begin(); it != in_flight_.end();) {
      const MonoTime deadline = it->second.since + view.guarantees.read_deadline;
      if (now <= deadline) {
        ++it;
        continue;
      }
      for (const CellReplay& cell : it->second.cells) {
        // It may have been sent again at the instant of the deadline.
        const ProcessCell key = cell_of_process(it->first.first, cell.writer, cell.cell);
        if (last_sent_[key] >= deadline || is_acknowledged(view, key, cell)) continue;
        expect_replay(view, key, cell.total, deadline + view.guarantees.acked_within);
      }
      it = in_flight_.erase(it);
    }
    for (auto it = pending_.begin(); it != pending_.end();) {
      if (it->second.empty() || !must_replay(view, it->first)) {
        it = pending_.erase(it);
        continue;
      }
      // Also directly after the outage.
      const bool reachable = node_of(view, it->first).reachable;
      const bool excused = !reachable || was_reachable_.count(it->first.first.process) == 0;
      for (PendingReplay& pending : it->second) {
        if (excused) pending.by = std::max(pending.by, now + view.guarantees.acked_within);
        if (now <= pending.by) continue;
        return "process " + std::to_string(it->first.first.process) +
               " has not replayed its total of " + std::to_string(pending.total) + " in window " +
               std::to_string(it->first.second.sequence);
      }
      ++it;
    }
    was_reachable_.clear();
    for (const NodeView& node : view.nodes) {
      if (node.reachable) was_reachable_.insert(node.process);
    }
    return {};
  }

 private:
  using ProcessCell = std::pair<Contributor, CellId>;  // a cell of a process
  static ProcessCell cell_of_process(int process, const Component& name, const CellId& cell) {
    return {{process, name.generation}, cell};
  }
  struct PendingReplay {
    Count total = 0;
    MonoTime by{};
  };
  struct InFlight {
    MonoTime since{};
    std::vector<CellReplay> cells;
  };

  // What a step granted and nobody accepted need not be replayed.
  void expect_replay(const RegionView& view, const ProcessCell& key, Count total, MonoTime by) {
    total = std::min(total, view.oracle.accepted_by(key.first, key.second));
    if (total > 0) pending_[key].push_back({.total = total, .by = by});
  }

  void expect_replay_if_less(const RegionView& view, const ProcessCell& key, Count mine) {
    const Count acknowledged =
        std::min(acknowledged_[key], view.oracle.accepted_by(key.first, key.second));
    if (mine >= acknowledged) return;
    if (is_in_flight(key, acknowledged)) return;
    expect_replay(view, key, acknowledged, view.now.mono + view.guarantees.acked_within);
  }

  [[nodiscard]] bool is_in_flight(const ProcessCell& key, Count total) const {
    for (const auto& [message, in_flight] : in_flight_) {
      if (message.first != key.first.process) continue;
      for (const CellReplay& cell : in_flight.cells) {
        if (cell.cell == key.second && cell.total >= total) return true;
      }
    }
    return false;
  }

  void acknowledge(const ProcessCell& key, Count total) {
    Count& acknowledged = acknowledged_[key];
    acknowledged = std::max(acknowledged, total);
    std::erase_if(pending_[key], [&](const PendingReplay& each) { return each.total <= total; });
  }
  bool is_acknowledged(const RegionView& view, const ProcessCell& key, const CellReplay& replay) {
    const Count accepted = view.oracle.accepted_by(key.first, key.second);
    return acknowledged_[key] >= std::min(replay.total, accepted);
  }

  static const NodeView& node_of(const RegionView& view, const ProcessCell& key) {
    return view.nodes.at(static_cast<size_t>(view.oracle.process(key.first.process).node));
  }
  static bool must_replay(const RegionView& view, const ProcessCell& key) {
    return !is_unrecoverable(view, key.first, key.second) &&
           !had_wrong_clock(view.oracle.process(key.first.process), key.second) &&
           node_of(view, key).latest < expiry_of(key.second);
  }

  std::map<ProcessCell, std::vector<PendingReplay>> pending_;
  std::map<std::pair<int, uint64_t>, InFlight> in_flight_;  // until the deadline
  std::map<ProcessCell, Count> acknowledged_;               // on this connection
  std::map<ProcessCell, MonoTime> last_sent_;
  std::set<int> was_reachable_;                                 // processes, after the last event
  std::map<int, uint64_t> connections_;                         // of a process: how many
  std::map<std::pair<int, uint64_t>, uint64_t> connection_of_;  // of each message
};

}  // namespace

std::unique_ptr<RegionChecker> make_acked_in_time() {
  return std::make_unique<AckedInTime>();
}

}  // namespace weir::sim
