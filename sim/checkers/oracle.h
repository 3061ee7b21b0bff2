// The complete record of a simulation, which no node has: every request with its answer, every
// accept with its time and process, and the lifetime of each process.

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

// One process, from its start to its end. A restarted node has a new process.
struct ProcessInfo {
  enum class Exit : uint8_t { kKilled, kDrained };
  int number = 0;
  int node = 0;
  uint64_t incarnation = 0;
  Millis most_delay{0};            // of a message to the origin, one way
  std::optional<Instant> ended{};  // at the latest time that its clock has shown
  Exit exit = Exit::kKilled;
  // The clock was far off until this time of that clock; the process may have lost counts of
  // earlier windows.
  WallTime wrong_clock_until{};
  // When it sent a message to the origin that did not arrive within most_delay, in order.
  std::vector<MonoTime> disruptions{};

  [[nodiscard]] bool was_disrupted(MonoTime from, MonoTime to) const {
    const auto first = std::lower_bound(disruptions.begin(), disruptions.end(), from);
    return first != disruptions.end() && *first <= to;
  }
};

// The owner of accepted counts: one process, and one generation of the tuple in it.
struct Contributor {
  int process = 0;
  uint64_t generation = 0;
  friend auto operator<=>(const Contributor&, const Contributor&) = default;
};

// One answered request.
struct RequestRecord {
  int node = 0;
  Contributor contributor;  // its generation: 0 if the process does not hold the tuple
  std::string tuple;
  Millis duration{0};
  Algorithm algorithm = Algorithm::kSlidingWindow;
  Count limit = 0;
  Count burst = 0;  // of gcra and token_bucket; 0: the limit
  Count cost = 0;
  Instant requested_at{};  // by the node's clock
  Instant answered_at{};   // by the node's clock
  bool relaxed = false;    // its process decides it, and not the origin
  bool in_batch = false;
  bool charged = false;          // a batch that fails charges nothing
  bool late = false;             // decided with the time of the answer
  bool may_be_replaced = false;  // the tuple that was charged, by a younger one
  Verdict verdict;

  // Whether its counts are not merged: the origin decides it, or each process counts by itself.
  [[nodiscard]] bool is_local() const {
    return algorithm != Algorithm::kSlidingWindow && algorithm != Algorithm::kFixedWindow;
  }
  // Window verdicts reset at the end of their window.
  [[nodiscard]] CellId cell() const {
    return {tuple, verdict.reset.time_since_epoch() / duration - 1};
  }
  // Whether the request waited until its windows were over.
  [[nodiscard]] bool outlived_windows() const {
    return cell().sequence - requested_at.wall.time_since_epoch() / duration >= 2;
  }
  // Whether it was decided before it was answered.
  [[nodiscard]] bool has_waited() const { return answered_at.mono > requested_at.mono; }
  [[nodiscard]] WallTime decided_at() const { return late ? answered_at.wall : requested_at.wall; }
};

// Whether the time of the decision is unknown: a request of an algorithm that each process counts
// by itself waited longer than its window lasts, which may have repeated all decisions.
inline bool has_unknown_decision_time(const std::vector<RequestRecord>& together) {
  return std::any_of(together.begin(), together.end(), [](const RequestRecord& each) {
    return each.is_local() && each.answered_at.wall - each.requested_at.wall > each.duration;
  });
}

// Marks the requests of one call that were decided late. A request that is charged after its
// windows were over has its whole batch decided again, at the present; a peek only itself, and so
// does a request counted in the sketch, whose time never goes back.
inline void mark_late_decisions(std::vector<RequestRecord>& together) {
  const bool all = std::any_of(together.begin(), together.end(), [](const RequestRecord& each) {
    return each.charged && each.contributor.generation != 0 && each.outlived_windows();
  });
  for (RequestRecord& each : together) each.late = all || each.outlived_windows();
}

// One accepted cost.
struct Accept {
  MonoTime when{};
  Contributor contributor;
  Count cost = 0;
  Count total = 0;  // of that contributor in the cell, this one included
};

class Oracle {
 public:
  ProcessInfo& start_process(int node, uint64_t incarnation, Millis most_delay) {
    return processes_.emplace_back(ProcessInfo{.number = static_cast<int>(processes_.size()),
                                               .node = node,
                                               .incarnation = incarnation,
                                               .most_delay = most_delay});
  }
  [[nodiscard]] const std::deque<ProcessInfo>& processes() const { return processes_; }
  [[nodiscard]] const ProcessInfo& process(int number) const {
    return processes_.at(static_cast<size_t>(number));
  }

  void add(const RequestRecord& record) {
    if (!record.charged) return;
    const CellId cell = record.cell();
    const Count total = sum(record, record.cost);
    Count& largest = largest_limits_[cell];
    largest = std::max(largest, record.limit);
    accepts_[cell].push_back({.when = record.answered_at.mono,
                              .contributor = record.contributor,
                              .cost = record.cost,
                              .total = total});
  }
  // Undoes add().
  void take_back(const RequestRecord& record) {
    if (!record.charged) return;
    sum(record, -record.cost);
    std::vector<Accept>& accepts = accepts_[record.cell()];
    for (auto accept = accepts.end(); accept != accepts.begin();) {
      --accept;
      if (accept->contributor != record.contributor) continue;
      if (accept->when == record.answered_at.mono && accept->cost == record.cost) {
        accepts.erase(accept);
        return;
      }
      accept->total -= record.cost;
    }
  }
  // Counted in the sketch, where tuples share counters, and not replayed.
  void add_sketched(const RequestRecord& record) {
    if (!record.charged) return;
    sketched_[record.cell()].push_back(
        {.when = record.answered_at.mono, .contributor = record.contributor, .cost = record.cost});
  }
  [[nodiscard]] const std::vector<Accept>& sketched(const CellId& cell) const {
    return accepts_in(sketched_, cell);
  }
  [[nodiscard]] Count accepted(const CellId& cell) const { return find(by_cell_, cell); }
  // Of these, what the origin decided. A relaxed request only reads it.
  [[nodiscard]] Count accepted_by_origin(const CellId& cell) const {
    return find(by_origin_, cell);
  }
  // Cost accepted by verdicts that were not degraded, of requests that were not relaxed.
  [[nodiscard]] Count accepted_by_origin_or_allowance(const CellId& cell) const {
    return find(by_origin_or_allowance_, cell);
  }
  // Of all accepted requests.
  [[nodiscard]] Count largest_limit(const CellId& cell) const {
    return find(largest_limits_, cell);
  }
  [[nodiscard]] Count accepted_by(const Contributor& contributor, const CellId& cell) const {
    return find(contributors(cell), contributor);
  }
  // By all generations of the tuple in a process: it may be evicted and created again between the
  // decision and the answer.
  [[nodiscard]] Count accepted_by_process(int process, const CellId& cell) const {
    Count sum = 0;
    for (const auto& [contributor, count] : contributors(cell)) {
      if (contributor.process == process) sum += count;
    }
    return sum;
  }
  [[nodiscard]] const std::map<Contributor, Count>& contributors(const CellId& cell) const {
    static const std::map<Contributor, Count> kNone;
    const auto found = contributors_.find(cell);
    return found == contributors_.end() ? kNone : found->second;
  }
  [[nodiscard]] const std::map<CellId, Count>& cells() const { return by_cell_; }
  // In the order they happened.
  [[nodiscard]] const std::vector<Accept>& accepts(const CellId& cell) const {
    return accepts_in(accepts_, cell);
  }

 private:
  // Returns the new total of the contributor.
  Count sum(const RequestRecord& record, Count cost) {
    const CellId cell = record.cell();
    by_cell_[cell] += cost;
    if (!record.relaxed) {
      if (record.verdict.basis == Basis::kRefreshed) by_origin_[cell] += cost;
      if (record.verdict.basis != Basis::kDegraded) by_origin_or_allowance_[cell] += cost;
    }
    return contributors_[cell][record.contributor] += cost;
  }
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
  std::deque<ProcessInfo> processes_;  // a deque, because references must stay valid
  std::map<CellId, std::map<Contributor, Count>> contributors_;
  std::map<CellId, Count> by_cell_;
  std::map<CellId, Count> by_origin_;
  std::map<CellId, Count> by_origin_or_allowance_;
  std::map<CellId, Count> largest_limits_;
  Accepts accepts_;
  Accepts sketched_;
};

// Generation 0 for charges of one call whose tuple was evicted before the answer, and perhaps
// created again: the process does not count them any more. The present tuple takes charges as long
// as it has counted that much: first those that its count includes, of these last those to a tuple
// that it seems to have replaced; then, unless it has replaced their tuple, those to more than its
// count, since other charges may make up for it. `own_of` is what the process counts of a cell now.
template <typename OwnOf>
void mark_evicted_charges(std::vector<RequestRecord>& together, const Oracle& oracle,
                          const OwnOf& own_of) {
  std::map<CellId, Count> sums;
  for (const int turn : {0, 1, 2}) {
    for (RequestRecord& record : together) {
      if (!record.charged || record.is_local()) continue;
      const Count own = own_of(record.cell());
      const bool fits = record.verdict.evidence.own + record.cost <= own;
      if (turn != (!fits ? 2 : record.may_be_replaced ? 1 : 0)) continue;
      Count& sum = sums[record.cell()];
      const Count before = oracle.accepted_by(record.contributor, record.cell()) + sum;
      if (own < before + record.cost || (!fits && record.may_be_replaced)) {
        record.contributor.generation = 0;
      } else {
        sum += record.cost;
      }
    }
  }
}

}  // namespace weir::sim
