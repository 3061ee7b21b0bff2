// What really happened, known to nobody in the world: every request with its answer, what
// was accepted when and by whom, and who lived how long.

#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weir/origin.h"
#include "weir/verdict.h"

namespace weir::sim {

// One process, from its start to its end. A node that is started again is another life.
struct Life {
  enum class End : uint8_t { kKilled, kDrained };
  int number = 0;
  int node = 0;
  uint64_t incarnation = 0;
  Millis most_delay{0};            // of a message of its on the way to the origin
  std::optional<Instant> ended{};  // by its own clock at its latest
  End how = End::kKilled;
  // Its clock was far off until then, by that clock; what it knew of windows before may be lost.
  WallTime astray_until{};
  // When it sent something to the origin that did not arrive within most_delay, in order.
  std::vector<MonoTime> troubles{};

  [[nodiscard]] bool had_trouble(MonoTime from, MonoTime to) const {
    const auto first = std::lower_bound(troubles.begin(), troubles.end(), from);
    return first != troubles.end() && *first <= to;
  }
};

// What one process accepts under one name. A tuple that it forgot and made anew has another.
struct Account {
  int life = 0;
  uint64_t generation = 0;
  friend auto operator<=>(const Account&, const Account&) = default;
};

// One request that was answered.
struct Answered {
  int node = 0;
  Account account;  // its generation: 0 if the process does not hold the tuple
  std::string tuple;
  Millis duration{0};
  Algorithm algorithm = Algorithm::kSlidingWindow;
  Count limit = 0;
  Count cost = 0;
  Instant asked{};     // by the node's clock
  Instant answered{};  // by the node's clock
  bool in_batch = false;
  bool charged = false;  // a batch that fails charges nothing
  bool late = false;     // decided as if it had been asked when it was answered
  Verdict verdict;

  // Whether each process counts by itself.
  [[nodiscard]] bool is_local() const {
    return algorithm != Algorithm::kSlidingWindow && algorithm != Algorithm::kFixedWindow;
  }
  // Window verdicts reset at the end of the window they were decided in.
  [[nodiscard]] CellId cell() const {
    return {tuple, verdict.reset.time_since_epoch() / duration - 1};
  }
  // Whether it waited until its windows were over.
  [[nodiscard]] bool outlived() const {
    return cell().sequence - asked.wall.time_since_epoch() / duration >= 2;
  }
  [[nodiscard]] WallTime decided() const { return late ? answered.wall : asked.wall; }
};

// Whether it cannot be told when they were decided: one of an algorithm that each process counts by
// itself waited for longer than its window lasts, and may have had all of them decided again.
inline bool is_timeless(const std::vector<Answered>& together) {
  return std::any_of(together.begin(), together.end(), [](const Answered& each) {
    return each.is_local() && each.answered.wall - each.asked.wall > each.duration;
  });
}

// Says which of the answers given together were decided late. One that is charged after its windows
// were over has all of its batch decided again, at the present; a peek only itself, and so what is
// counted in the sketch, whose time does not run back either.
inline void find_late(std::vector<Answered>& together) {
  const bool all = std::any_of(together.begin(), together.end(), [](const Answered& each) {
    return each.charged && each.account.generation != 0 && each.outlived();
  });
  for (Answered& each : together) each.late = all || each.outlived();
}

// One cost that was accepted.
struct Accept {
  MonoTime when{};
  Account account;
  Count cost = 0;
  Count total = 0;  // of that account in the cell, this one included
};

class Truth {
 public:
  Life& begin_life(int node, uint64_t incarnation, Millis most_delay) {
    return lives_.emplace_back(Life{.number = static_cast<int>(lives_.size()),
                                    .node = node,
                                    .incarnation = incarnation,
                                    .most_delay = most_delay});
  }
  [[nodiscard]] const std::deque<Life>& lives() const { return lives_; }
  [[nodiscard]] const Life& life(int number) const {
    return lives_.at(static_cast<size_t>(number));
  }

  void record(const Answered& answered) {
    if (!answered.charged) return;
    const CellId cell = answered.cell();
    const Count total = accounts_[cell][answered.account] += answered.cost;
    by_cell_[cell] += answered.cost;
    accepts_[cell].push_back({.when = answered.answered.mono,
                              .account = answered.account,
                              .cost = answered.cost,
                              .total = total});
  }
  // Counted where tuples are not told apart, and told to nobody.
  void record_sketched(const Answered& answered) {
    if (!answered.charged) return;
    sketched_[answered.cell()].push_back(
        {.when = answered.answered.mono, .account = answered.account, .cost = answered.cost});
  }
  [[nodiscard]] const std::vector<Accept>& sketched(const CellId& cell) const {
    return accepts_in(sketched_, cell);
  }
  [[nodiscard]] Count accepted(const CellId& cell) const { return find(by_cell_, cell); }
  [[nodiscard]] Count accepted_by(const Account& account, const CellId& cell) const {
    return find(accounts(cell), account);
  }
  [[nodiscard]] const std::map<Account, Count>& accounts(const CellId& cell) const {
    static const std::map<Account, Count> kNone;
    const auto found = accounts_.find(cell);
    return found == accounts_.end() ? kNone : found->second;
  }
  [[nodiscard]] const std::map<CellId, Count>& cells() const { return by_cell_; }
  // In the order they happened.
  [[nodiscard]] const std::vector<Accept>& accepts(const CellId& cell) const {
    return accepts_in(accepts_, cell);
  }

 private:
  using Accepts = std::map<CellId, std::vector<Accept>>;
  static const std::vector<Accept>& accepts_in(const Accepts& accepts, const CellId& cell) {
    static const std::vector<Accept> kNone;
    const auto found = accepts.find(cell);
    return found == accepts.end() ? kNone : found->second;
  }
  template <typename Map>
  static Count find(const Map& map, const typename Map::key_type& key) {
    const auto found = map.find(key);
    return found == map.end() ? 0 : found->second;
  }
  std::deque<Life> lives_;  // a deque: they stay where they are
  std::map<CellId, std::map<Account, Count>> accounts_;
  std::map<CellId, Count> by_cell_;
  Accepts accepts_;
  Accepts sketched_;
};

}  // namespace weir::sim
