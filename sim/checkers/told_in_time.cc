// What was accepted is told in time, and told again for as long as it takes. Seen at the
// process' own end of its link, so that no fault of the network excuses anything:
// - an accept leaves in a replay within the replay interval and two turns of its schedule;
// - a replay that fails, or gets no answer by its deadline, is sent again within that time;
// - so is a cell of which the origin says that it has less than it once acknowledged,
//   unless a replay of it is under way;
// - so is everything, once the connection was made anew.
// What was acknowledged, to a message of the same connection, is not owed because another
// message about it failed.
// Nothing is owed by a process that ended, of a tuple that it forgot for want of room, nor of a
// cell that can matter to nobody; and while the origin refuses every call, it is owed as if that
// time had not passed.

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "sim/checkers/makers.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

class AckedInTime final : public Checker {
 public:
  [[nodiscard]] std::string_view name() const override { return "told in time"; }

  Fault after_answer(const WorldView& world, const Answered& answered) override {
    if (!answered.charged) return {};
    const Place place{answered.account, answered.cell()};
    owe(place, world.truth.accepted_by(answered.account, answered.cell()),
        world.now.mono + world.promises.acked_within);
    return {};
  }

  Fault after_sent(const WorldView& world, const Sent& sent) override {
    if (auto overdue = after_event(world)) return overdue;  // told, but too late
    for (const CellReplay& cell : sent.cells) {
      const Place place = place_of(sent.life, cell.writer, cell.cell);
      last_sent_[place] = world.now.mono;
      const auto owed = owed_.find(place);
      if (owed == owed_.end()) continue;
      std::erase_if(owed->second, [&](const Owed& each) { return each.total <= cell.total; });
    }
    connection_of_[{sent.life, sent.message}] = connections_[sent.life];
    under_way_[{sent.life, sent.message}] = {.since = world.now.mono, .cells = sent.cells};
    return {};
  }

  Fault after_received(const WorldView& world, const ReceivedReplay& received) override {
    const int life = received.sent.life;
    const bool in_time = under_way_.erase({life, received.sent.message}) > 0;
    const MonoTime by = world.now.mono + world.promises.acked_within;
    for (size_t i = 0; i < received.sent.cells.size(); ++i) {
      const CellReplay& acked = received.sent.cells[i];
      const Place place = place_of(life, acked.writer, acked.cell);
      if (!received.totals.ok()) {
        if (in_time && !is_acknowledged(place, acked)) owe(place, acked.total, by);
        continue;
      }
      const Count mine = received.totals->at(i).mine;
      if (mine < acked.total) owe(place, acked.total, by);
      if (connection_of_[{life, received.sent.message}] == connections_[life]) {
        acknowledge(place, std::min(mine, acked.total));
      }
      owe_if_less(world, place, mine);
    }
    return {};
  }

  Fault after_received(const WorldView& world, const ReceivedRead& received) override {
    for (size_t i = 0; received.totals.ok() && i < received.cells.size(); ++i) {
      const CellRead& read = received.cells[i];
      owe_if_less(world, place_of(received.life, read.reader, read.cell),
                  received.totals->at(i).mine);
    }
    return {};
  }

  Fault after_reconnect(const WorldView& world, int life) override {
    ++connections_[life];
    std::erase_if(acknowledged_,
                  [life](const auto& each) { return each.first.first.life == life; });
    for (const auto& [cell, all] : world.truth.cells()) {
      for (const auto& [account, accepted] : world.truth.accounts(cell)) {
        if (account.life != life) continue;
        owe({account, cell}, accepted, world.now.mono + world.promises.acked_within);
      }
    }
    return {};
  }

  Fault after_event(const WorldView& world) override {
    const MonoTime now = world.now.mono;
    for (auto it = under_way_.begin(); it != under_way_.end();) {
      const MonoTime deadline = it->second.since + world.promises.read_deadline;
      if (now <= deadline) {
        ++it;
        continue;
      }
      for (const CellReplay& cell : it->second.cells) {
        // Perhaps it went again in the very instant of the deadline.
        const Place place = place_of(it->first.first, cell.writer, cell.cell);
        if (last_sent_[place] >= deadline || is_acknowledged(place, cell)) continue;
        owe(place, cell.total, deadline + world.promises.acked_within);
      }
      it = under_way_.erase(it);
    }
    for (auto it = owed_.begin(); it != owed_.end();) {
      if (it->second.empty() || !owes(world, it->first)) {
        it = owed_.erase(it);
        continue;
      }
      // Also in the first moment after.
      const bool reachable = node_of(world, it->first).reachable;
      const bool excused = !reachable || was_reachable_.count(it->first.first.life) == 0;
      for (Owed& owed : it->second) {
        if (excused) owed.by = std::max(owed.by, now + world.promises.acked_within);
        if (now <= owed.by) continue;
        return "process " + std::to_string(it->first.first.life) + " has not told its total of " +
               std::to_string(owed.total) + " in window " +
               std::to_string(it->first.second.sequence);
      }
      ++it;
    }
    was_reachable_.clear();
    for (const NodeView& node : world.nodes) {
      if (node.reachable) was_reachable_.insert(node.life);
    }
    return {};
  }

 private:
  using Place = std::pair<Account, CellId>;  // a cell of a process
  static Place place_of(int life, const Component& name, const CellId& cell) {
    return {{life, name.generation}, cell};
  }
  struct Owed {
    Count total = 0;
    MonoTime by{};
  };
  struct UnderWay {
    MonoTime since{};
    std::vector<CellReplay> cells;
  };

  void owe(const Place& place, Count total, MonoTime by) {
    if (total > 0) owed_[place].push_back({.total = total, .by = by});
  }

  void owe_if_less(const WorldView& world, const Place& place, Count mine) {
    const Count acknowledged = acknowledged_[place];
    if (mine >= acknowledged) return;
    for (const auto& [message, under_way] : under_way_) {
      if (message.first != place.first.life) continue;
      for (const CellReplay& cell : under_way.cells) {
        if (cell.cell == place.second && cell.total >= acknowledged) return;
      }
    }
    owe(place, acknowledged, world.now.mono + world.promises.acked_within);
  }

  void acknowledge(const Place& place, Count total) {
    Count& acknowledged = acknowledged_[place];
    acknowledged = std::max(acknowledged, total);
    std::erase_if(owed_[place], [&](const Owed& each) { return each.total <= total; });
  }
  bool is_acknowledged(const Place& place, const CellReplay& acked) {
    return acknowledged_[place] >= acked.total;
  }

  static const NodeView& node_of(const WorldView& world, const Place& place) {
    return world.nodes.at(static_cast<size_t>(world.truth.life(place.first.life).node));
  }
  static bool owes(const WorldView& world, const Place& place) {
    return !is_gone(world, place.first, place.second) &&
           !went_astray(world.truth.life(place.first.life), place.second) &&
           node_of(world, place).latest < expiry_of(place.second);
  }

  std::map<Place, std::vector<Owed>> owed_;
  std::map<std::pair<int, uint64_t>, UnderWay> under_way_;  // until the deadline
  std::map<Place, Count> acknowledged_;                     // on this connection
  std::map<Place, MonoTime> last_sent_;
  std::set<int> was_reachable_;                                 // processes, after the last event
  std::map<int, uint64_t> connections_;                         // of a process, counted
  std::map<std::pair<int, uint64_t>, uint64_t> connection_of_;  // each message
};

}  // namespace

std::unique_ptr<Checker> make_acked_in_time() {
  return std::make_unique<AckedInTime>();
}

}  // namespace weir::sim
