// Algorithms that each process counts by itself keep their contracts in each process:
// - gcra and token_bucket: between any two accepts, both included, at most the burst and what the
//   rate gives in that time;
// - sliding_window_strict and sliding_log: in any trailing window at most the limit;
// - all: who was not accepted for two windows is not refused what fits the limit; the log refuses
//   nothing else that fits.
//
// A request is decided at some time from when it was asked until it was answered, never before the
// latest time that its tuple has seen. Each check takes the times that excuse the most. What is
// counted in the sketch obeys no such contract: tuples are not told apart there.

#include <map>
#include <utility>
#include <vector>

#include "base/wide.h"
#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class LocalAlgorithms final : public Checker {
 public:
  [[nodiscard]] std::string_view name() const override { return "local algorithms"; }

  Fault after_local_answer(const WorldView& world, const Answered& answered) override {
    if (answered.cost == 0) return {};
    const Life& life = world.truth.life(answered.account.life);
    const NodeView& node = world.nodes.at(static_cast<size_t>(answered.node));
    Story& story = stories_[{life.number, answered.tuple}];
    // Where a clock was hours off, the first request since finds a full tuple at most.
    const bool asked_by_wrong_clock = answered.asked.wall > answered.answered.wall;
    const bool is_astray = asked_by_wrong_clock || story.astray_until != life.astray_until ||
                           life.astray_until > answered.asked.wall - 2 * answered.duration;
    const bool sketched = answered.verdict.basis == Basis::kDegraded;
    if (is_astray || sketched) {
      story.from = std::max(answered.answered.wall, is_astray ? life.astray_until : WallTime{});
      story.accepts.clear();
      story.astray_until = life.astray_until;
      // One that was asked by the wrong clock takes the tuple there once more.
      if (asked_by_wrong_clock) story.astray_until = WallTime::min();
      return {};
    }
    if (answered.charged) {
      story.accepts.push_back(
          {.earliest = answered.asked.wall, .latest = node.latest, .cost = answered.cost});
      return answered.algorithm == Algorithm::kGcra || answered.algorithm == Algorithm::kTokenBucket
                 ? check_rate(answered, story, node.latest)
                 : check_trailing(answered, story, node.latest);
    }
    if (answered.in_batch || answered.verdict.admitted()) return {};
    return check_refusal(answered, story);
  }

 private:
  struct Accepted {
    WallTime earliest{};  // that it can have been decided at
    WallTime latest{};
    Count cost = 0;
  };
  struct Story {
    WallTime from{};  // what was accepted before is not known
    std::vector<Accepted> accepts;
    WallTime astray_until{};
  };

  static Fault check_rate(const Answered& answered, const Story& story, WallTime latest) {
    Count sum = 0;
    for (auto it = story.accepts.rbegin(); it != story.accepts.rend(); ++it) {
      sum += it->cost;
      const auto span = static_cast<Count>(std::max(latest - it->earliest, Millis(0)).count());
      const base::Wide gives =
          base::Wide{answered.limit} * span / static_cast<Count>(answered.duration.count());
      if (base::Wide{sum} <= base::Wide{answered.limit} + gives + 1) continue;
      return "process " + std::to_string(answered.account.life) + " accepted " +
             std::to_string(sum) + " in " + std::to_string(span) + " ms at a rate of " +
             std::to_string(answered.limit) + " in " + std::to_string(answered.duration.count());
    }
    return {};
  }

  // Of the window that ends now.
  static Fault check_trailing(const Answered& answered, const Story& story, WallTime latest) {
    Count sum = 0;
    for (auto it = story.accepts.rbegin(); it != story.accepts.rend(); ++it) {
      if (it->earliest > latest - answered.duration) sum += it->cost;
    }
    if (sum <= answered.limit) return {};
    return "process " + std::to_string(answered.account.life) + " accepted " + std::to_string(sum) +
           " of " + std::to_string(answered.limit) + " in a trailing window of " +
           std::string(weir::to_string(answered.algorithm));
  }

  static Fault check_refusal(const Answered& answered, const Story& story) {
    if (answered.cost > answered.limit) return {};
    const bool exact = answered.algorithm == Algorithm::kSlidingLog;
    const Millis matters = (exact ? 1 : 2) * answered.duration + kMostStep;
    const WallTime from = answered.asked.wall - matters;
    if (story.from > from) return {};
    Count used = 0;
    for (const Accepted& each : story.accepts) used += each.latest >= from ? each.cost : 0;
    if (exact ? used + answered.cost > answered.limit : used > 0) return {};
    return "process " + std::to_string(answered.account.life) + " refused a cost of " +
           std::to_string(answered.cost) + " of " + std::to_string(answered.limit) + " to " +
           std::string(weir::to_string(answered.algorithm)) + ", though only " +
           std::to_string(used) + " were used";
  }

  // A read that a batch waits for, and a clock that is set by a little.
  static constexpr Millis kMostStep{2000};

  std::map<std::pair<int, std::string>, Story> stories_;
};

}  // namespace

std::unique_ptr<Checker> make_local_algorithms() {
  return std::make_unique<LocalAlgorithms>();
}

}  // namespace weir::sim
