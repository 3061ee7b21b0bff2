// Algorithms whose counts are not merged. Where the origin keeps their state:
// - of the requests that it decided, all processes together have admitted no more than it granted;
// - all processes together keep the contracts below with 1.25 times the burst or limit, also of
//   what they admitted by their allowances, apart from what died with a process;
// - no process denies by itself what the origin has had no reason to deny;
// - the origin charges what processes admitted by themselves once, and nothing else.
// Where each process counts by itself, they keep their contracts in each process:
// - gcra and token_bucket: between any two accepts, both included, at most the burst plus the
//   rate times that time;
// - sliding_window_strict and sliding_log: in any trailing window at most the limit;
// - all: a client without accepts for two windows is not denied a cost that fits the limit; the
//   log denies nothing else that fits.
//
// Relaxed requests are of the second kind everywhere: their process counts them alone. Its origin
// neither decides them nor is told of them, and other regions do not limit them. Requests that are
// not relaxed may be on the same tuple. Their process counts them in memory, too:
// - what it admitted by itself, relaxed or by its allowance, keeps the contract in the process;
// - what the origin admitted counts there where it fits, and so is a reason for a denial only;
// - where there is no origin, they charge the usage of other regions to the same state, so that
//   denials are checked of tuples only of which all requests are relaxed.
//
// A request is decided at some time between its arrival and its answer, and never before the latest
// time that its tuple has seen. Each check uses the times that excuse the most. The sketch has no
// such contract, because tuples share its counters.

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/wide.h"
#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class LocalAlgorithms final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "local algorithms"; }

  Violation after_local_answer(const RegionView& view, const RequestRecord& record) override {
    const bool asked = record.verdict.basis == Basis::kRefreshed;
    if (record.relaxed && asked) return "the origin decided a relaxed request";
    const ProcessInfo& process = view.oracle.process(record.contributor.process);
    if (!record.relaxed) not_relaxed_.insert({process.number, record.tuple});
    if (record.cost == 0) return {};
    const ExactHistory* const exact = view.origin.exact_history(record.tuple);
    if (record.charged && !asked && !record.relaxed) alone_[record.tuple] += record.cost;
    if (exact != nullptr) {
      if (auto invented = check_told(view, record, *exact)) return invented;
    }
    History& history = histories_[{process.number, record.tuple}];
    if (exact != nullptr && !record.relaxed && record.verdict.basis != Basis::kDegraded) {
      auto found = check_shared(view, record, *exact);
      if (found || !history.has_relaxed) return found;
    }
    // Earlier decisions of the origin are unknown here.
    if (record.relaxed && !std::exchange(history.has_relaxed, true) && exact != nullptr) {
      history.from = std::max(history.from, record.answered_at.wall);
    }
    const NodeView& node = view.nodes.at(static_cast<size_t>(record.node));
    // After a clock was hours off, the first request finds at most a full tuple.
    const bool asked_by_wrong_clock = record.requested_at.wall > record.answered_at.wall;
    const bool clock_was_wrong =
        asked_by_wrong_clock || history.wrong_clock_until != process.wrong_clock_until ||
        process.wrong_clock_until > record.requested_at.wall - 2 * record.duration;
    const bool sketched = record.verdict.basis == Basis::kDegraded;
    if (clock_was_wrong || sketched) {
      history.from = std::max(record.answered_at.wall,
                              clock_was_wrong ? process.wrong_clock_until : WallTime{});
      history.accepts.clear();
      history.wrong_clock_until = process.wrong_clock_until;
      // A request with a time of the wrong clock moves the tuple there once more.
      if (asked_by_wrong_clock) history.wrong_clock_until = WallTime::min();
      return {};
    }
    if (record.charged) {
      history.accepts.push_back({.earliest = record.requested_at.wall,
                                 .latest = node.latest,
                                 .cost = record.cost,
                                 .by_origin = asked});
      if (asked) return {};
      return has_rate(record) ? check_rate(record, history, node.latest)
                              : check_trailing(record, history, node.latest);
    }
    if (record.in_batch || record.verdict.admitted()) return {};
    // The origin denied it: see above.
    if (exact != nullptr && !record.relaxed) return {};
    // Other regions may have used it: see the global burst bound.
    const bool shares = not_relaxed_.contains({process.number, record.tuple});
    if (view.has_ledger && exact == nullptr && shares) return {};
    return check_denial(record, history);
  }

 private:
  struct Accepted {
    WallTime earliest{};  // possible time of the decision
    WallTime latest{};
    Count cost = 0;
    bool by_origin = false;  // the process counts it where it fits
  };
  struct History {
    bool has_relaxed = false;
    WallTime from{};  // earlier accepts are unknown
    std::vector<Accepted> accepts;
    WallTime wrong_clock_until{};
  };

  // An admission of a tuple that the origin keeps, on the time of the world.
  struct Shared {
    MonoTime earliest{};  // possible time of the decision
    Count cost = 0;
    int process = 0;
    bool alone = false;  // by the allowance of its process
  };
  struct SharedHistory {
    std::vector<Shared> accepts;
    MonoTime from{};
    Nanos clock{};    // the wall clock, less the time that has passed
    Count burst = 0;  // the largest that was asked for
    Count limit = 0;
    Count admitted_by_origin = 0;
  };

  static bool has_rate(const RequestRecord& record) {
    return record.algorithm == Algorithm::kGcra || record.algorithm == Algorithm::kTokenBucket;
  }

  Violation check_told(const RegionView& view, const RequestRecord& record,
                       const ExactHistory& exact) {
    const Count alone = alone_[record.tuple];
    const bool twice = !view.has_ledger && exact.charged > exact.told;
    if (exact.told <= alone && !twice) return {};
    return "the origin was told of " + std::to_string(exact.told) + " of " +
           std::string(weir::to_string(record.algorithm)) + " and charged " +
           std::to_string(exact.charged) + ", and processes admitted " + std::to_string(alone) +
           " by themselves";
  }

  Violation check_shared(const RegionView& view, const RequestRecord& record,
                         const ExactHistory& exact) {
    SharedHistory& history = shared_[record.tuple];
    const Count burst = record.burst > 0 ? record.burst : record.limit;
    history.burst = std::max(history.burst, burst);
    history.limit = std::max(history.limit, record.limit);
    const bool alone = record.verdict.basis == Basis::kLocal;
    if (!record.charged) {
      if (!alone || record.in_batch || record.verdict.admitted()) return {};
      return check_shared_denial(view, record, exact);
    }
    if (!alone) {
      history.admitted_by_origin += record.cost;
      if (history.admitted_by_origin > exact.granted) {
        return "the region admitted " + std::to_string(history.admitted_by_origin) + " of " +
               std::string(weir::to_string(record.algorithm)) + ", and the origin granted " +
               std::to_string(exact.granted);
      }
    }
    const MonoTime now = view.now.mono;
    history.accepts.push_back(
        {.earliest = now - (record.answered_at.mono - record.requested_at.mono),
         .cost = record.cost,
         .process = record.contributor.process,
         .alone = alone});
    // A store that lost its states begins again, as does one whose clock was set.
    const Nanos clock = view.now.wall.time_since_epoch() - now.time_since_epoch();
    const Nanos step = clock - std::exchange(history.clock, clock);
    const MonoTime lost_at = view.origin.exact_lost_at();
    if (lost_at > history.from || step > Millis(1) || step < Millis(-1)) {
      history.from = now;
      history.accepts.clear();
      return {};
    }
    base::Wide sum = 0;
    for (auto it = history.accepts.rbegin(); it != history.accepts.rend(); ++it) {
      const auto span = static_cast<Count>((now - it->earliest) / Millis(1));
      if (!has_rate(record) && span >= static_cast<Count>(record.duration.count())) break;
      // Answered after the loss, but perhaps granted before.
      if (it->earliest <= lost_at) continue;
      // The origin may not have learned of it.
      if (it->alone && view.oracle.process(it->process).ended) continue;
      sum += it->cost;
      const base::Wide gives = has_rate(record)
                                   ? base::Wide{history.limit} * (span + 1) /
                                             static_cast<Count>(record.duration.count()) +
                                         1
                                   : base::Wide{0};
      if (4 * sum <= 5 * base::Wide{history.burst} + 4 * gives) continue;
      return "the region admitted " + std::to_string(static_cast<Count>(sum)) + " of " +
             std::string(weir::to_string(record.algorithm)) + " in " + std::to_string(span) +
             " ms, with a burst of " + std::to_string(history.burst);
    }
    return {};
  }

  static Violation check_shared_denial(const RegionView& view, const RequestRecord& record,
                                       const ExactHistory& exact) {
    const Count burst = std::max(record.burst > 0 ? record.burst : record.limit, record.limit);
    if (record.cost > std::min(burst, record.limit)) return {};
    const Nanos drains = Nanos(record.duration) * static_cast<int64_t>(burst / record.limit + 1);
    if (view.now.mono - exact.charged_at <= 2 * drains + Nanos(kMostStep)) return {};
    return "process " + std::to_string(record.contributor.process) + " denied a cost of " +
           std::to_string(record.cost) + " of " + std::to_string(record.limit) + " to " +
           std::string(weir::to_string(record.algorithm)) + ", although nothing was charged";
  }

  static Violation check_rate(const RequestRecord& record, const History& history,
                              WallTime latest) {
    const Count burst = record.burst > 0 ? record.burst : record.limit;
    Count sum = 0;
    for (auto it = history.accepts.rbegin(); it != history.accepts.rend(); ++it) {
      if (it->by_origin) continue;
      sum += it->cost;
      const auto span = static_cast<Count>(std::max(latest - it->earliest, Millis(0)).count());
      const base::Wide gives =
          base::Wide{record.limit} * span / static_cast<Count>(record.duration.count());
      if (base::Wide{sum} <= base::Wide{burst} + gives + 1) continue;
      return "process " + std::to_string(record.contributor.process) + " accepted " +
             std::to_string(sum) + " in " + std::to_string(span) + " ms at a rate of " +
             std::to_string(record.limit) + " in " + std::to_string(record.duration.count());
    }
    return {};
  }

  // The window that ends now.
  static Violation check_trailing(const RequestRecord& record, const History& history,
                                  WallTime latest) {
    Count sum = 0;
    for (auto it = history.accepts.rbegin(); it != history.accepts.rend(); ++it) {
      if (!it->by_origin && it->earliest > latest - record.duration) sum += it->cost;
    }
    if (sum <= record.limit) return {};
    return "process " + std::to_string(record.contributor.process) + " accepted " +
           std::to_string(sum) + " of " + std::to_string(record.limit) +
           " in a trailing window of " + std::string(weir::to_string(record.algorithm));
  }

  static Violation check_denial(const RequestRecord& record, const History& history) {
    const Count fits = record.burst > 0 ? std::min(record.burst, record.limit) : record.limit;
    if (record.cost > fits) return {};
    const bool exact = record.algorithm == Algorithm::kSlidingLog;
    const Millis matters = (exact ? 1 : 2) * record.duration + kMostStep;
    const WallTime from = record.requested_at.wall - matters;
    if (history.from > from) return {};
    Count used = 0;
    for (const Accepted& each : history.accepts) used += each.latest >= from ? each.cost : 0;
    if (exact ? used + record.cost > record.limit : used > 0) return {};
    return "process " + std::to_string(record.contributor.process) + " denied a cost of " +
           std::to_string(record.cost) + " of " + std::to_string(record.limit) + " to " +
           std::string(weir::to_string(record.algorithm)) + ", although only " +
           std::to_string(used) + " were used";
  }

  // The wait of a batch for a read, plus a small clock step.
  static constexpr Millis kMostStep{2000};

  using ProcessTuple = std::pair<int, std::string>;
  std::map<ProcessTuple, History> histories_;
  std::set<ProcessTuple> not_relaxed_;           // of which a request was not relaxed
  std::map<std::string, SharedHistory> shared_;  // by tuple
  std::map<std::string, Count> alone_;           // admitted without asking, by tuple
};

}  // namespace

std::unique_ptr<RegionChecker> make_local_algorithms() {
  return std::make_unique<LocalAlgorithms>();
}

}  // namespace weir::sim
