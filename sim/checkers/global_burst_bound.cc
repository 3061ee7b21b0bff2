// The bound between regions of the algorithms whose state each origin keeps, or in a region without
// one its process. In any time (s, t] that ends with an admission, all regions together have
// admitted at most
//
//   gcra, token_bucket:           r (t - s) + 1.25 b + m H + recent
//   sliding_window_strict, _log:  1.25 L + E + m H + recent,  t - s less than the duration
//
// with b the burst, r the rate, L the limit, and `recent` what was admitted anywhere in the last
// 2 D. H is what the other regions may leave unpublished in one window of the usage tuple: the
// slack, and their allowances less 1. m counts the usage windows that (s, t] touches. E is 0 within
// one of them; else it is what the publish rule takes for free while a ring or a log still counts
// it. Beyond two of them a region that was alone may have published nothing of an older one: 1.25 b
// more. docs/ledger.md derives it.
//
// Also: an origin charges for other regions no more than they have admitted, but perhaps twice what
// a bridge there restored after a loss. A process without an origin denies nothing that would fit
// if all that was admitted anywhere in the last three usage windows counted: it may learn of a
// count until the end of the second, and then it counts for at most one more.
//
// A relaxed request counts in its process alone: it is not in the bound, no origin charges it for
// another region, and it makes only requests to the same process be denied. local_algorithms.cc
// checks its denials.
//
// D is that of windows, and the time in which a process tells its origin. Not counted are degraded
// verdicts and processes that have ended. During a disruption nothing is checked, and what was
// admitted before is forgotten.

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/keyed_hash.h"
#include "base/wide.h"
#include "memory/tuple_key.h"
#include "memory/usage_key.h"
#include "sim/checkers/makers.h"
#include "sim/checkers/publish_spec.h"

namespace weir::sim {
namespace {

class GlobalBurstBound final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "the global burst bound"; }

  Violation after_local_answer(const GlobalView& view, int region,
                               const RequestRecord& record) override {
    History& history = histories_[record.tuple];
    if (record.charged && !record.relaxed) history.admitted[region] += record.cost;
    history.burst = std::max(history.burst, record.burst > 0 ? record.burst : record.limit);
    history.limit = std::max(history.limit, record.limit);
    if (auto invented = check_charges(view, region, record, history)) return invented;
    if (view.budget_limited || view.failed_over || view.no_room || view.guarantees.evicts ||
        !view.rejected.empty()) {
      return {};
    }
    const Nanos clock = view.now.wall.time_since_epoch() - view.now.mono.time_since_epoch();
    const Nanos step = clock - std::exchange(history.clock, clock);
    if (view.disrupted_since || view.jumped_lately || step > Millis(1) || step < Millis(-1)) {
      history.accepts.clear();
      history.from = view.now.mono;
      return {};
    }
    if (record.verdict.outcome == Outcome::kDenied && !record.relaxed)
      return check_denial(view, region, record, history);
    if (!record.charged) return {};
    const bool degraded = record.verdict.basis == Basis::kDegraded;
    history.accepts.push_back(
        {.earliest = view.now.mono - (record.answered_at.mono - record.requested_at.mono),
         .cost = record.cost,
         .region = region,
         .process = record.contributor.process,
         .degraded = degraded,
         .relaxed = record.relaxed});
    return degraded || record.relaxed ? Violation{} : check(view, region, record, history);
  }

 private:
  struct Accepted {
    MonoTime earliest{};  // possible time of the decision
    Count cost = 0;
    int region = 0;
    int process = 0;
    bool degraded = false;
    bool relaxed = false;
  };
  struct History {
    std::vector<Accepted> accepts;
    MonoTime from{};                // earlier accepts are unknown
    std::map<int, Count> admitted;  // by each region
    Nanos clock{};                  // the wall clock, less the time that has passed
    Count burst = 0;                // the largest that was asked for
    Count limit = 0;
  };
  // What the bound is made of.
  struct Parts {
    Count limit = 0;
    Count burst = 0;
    Millis duration{1};
    Millis width{1};   // of a usage window
    Count hidden = 0;  // in one usage window
    Count early = 0;   // E
    bool drains = false;

    [[nodiscard]] Count drained_in(Nanos time) const {
      const auto ms = static_cast<uint64_t>(std::chrono::ceil<Millis>(time).count());
      return base::mul_div(limit, ms, static_cast<uint64_t>(duration.count())) + 1;
    }
    [[nodiscard]] Count alone() const { return burst + base::ceil_div(burst, Count{4}); }
  };

  static const RegionState& at(const GlobalView& view, int region) {
    return view.regions[static_cast<size_t>(region)];
  }

  static Violation check_charges(const GlobalView& view, int region, const RequestRecord& record,
                                 const History& history) {
    const ExactHistory* const exact = at(view, region).origin.exact_history(record.tuple);
    if (exact == nullptr) return {};
    Count others = 0;
    for (const auto& [other, admitted] : history.admitted) {
      if (other != region) others += admitted;
    }
    if (exact->charged <= exact->told + others) return {};
    // Looked up only then: it is slow.
    if (exact->charged <= exact->told + others + restored_elsewhere(view, region, record.tuple)) {
      return {};
    }
    return "the origin of " + at(view, region).name + " charged " +
           std::to_string(exact->charged - exact->told) + " of " +
           std::string(weir::to_string(record.algorithm)) + " for other regions, which admitted " +
           std::to_string(others);
  }

  // The usage of a tuple that bridges of other regions have restored. The rows there have it
  // twice if a process whose survival they did not know replayed it, too.
  static Count restored_elsewhere(const GlobalView& view, int region, const std::string& tuple) {
    const base::KeyedHash hash(0);
    const memory::TupleKey counted(tuple, hash);
    Count sum = 0;
    for (const RegionState& other : view.regions) {
      if (&other == &at(view, region)) continue;
      for (const auto& [cell, restored] : other.origin.all_restored()) {
        const Millis longest = memory::header_of(cell.tuple).duration() - Millis(1);
        const auto usage = memory::usage_key(counted, longest, hash);
        if (usage && usage->is(cell.tuple)) sum += restored;
      }
    }
    return sum;
  }

  static Violation check_denial(const GlobalView& view, int region, const RequestRecord& record,
                                const History& history) {
    const bool by_itself = !record.in_batch && record.verdict.basis != Basis::kDegraded;
    if (at(view, region).has_origin || !by_itself) return {};
    const Parts parts = parts_of(view, record, history);
    const MonoTime from = view.now.mono - 3 * Nanos(parts.width) - view.delays.total() -
                          (record.answered_at.mono - record.requested_at.mono);
    if (history.from > from) return {};
    Count used = 0;
    for (const Accepted& each : history.accepts) {
      const bool counts = !each.relaxed || each.region == region;
      if (each.earliest >= from && counts) used += each.cost;
    }
    const Count burst = record.burst > 0 ? record.burst : record.limit;
    if (used + record.cost > burst) return {};
    return at(view, region).name + " denied a cost of " + std::to_string(record.cost) + " of " +
           std::to_string(burst) + " to " + std::string(weir::to_string(record.algorithm)) +
           ", although all regions had used only " + std::to_string(used);
  }

  static Parts parts_of(const GlobalView& view, const RequestRecord& record,
                        const History& history) {
    Parts parts{.limit = history.limit,
                .burst = history.burst,
                .duration = record.duration,
                .drains = record.algorithm == Algorithm::kGcra ||
                          record.algorithm == Algorithm::kTokenBucket};
    const auto duration = static_cast<uint64_t>(record.duration.count());
    const uint64_t horizon =
        parts.drains ? base::mul_div(parts.burst, duration, parts.limit) : duration;
    parts.width =
        Millis(static_cast<int64_t>(std::bit_ceil(std::max<uint64_t>(horizon, 1024))) + 1);
    const SyncRules& rules = view.ledger.rules();
    const uint64_t others = view.regions.size() - 1;
    parts.hidden = spec::slack_of(parts.burst, rules) +
                   others * (spec::max_unpublished(parts.burst, rules, view.regions.size()) - 1);
    if (parts.drains || others == 0) return parts;
    // A burst at the end of the last usage window counts in full for a duration, and less and less
    // in the estimate of the publish rule.
    const uint64_t freed =
        base::ceil_div(1000 * duration, static_cast<uint64_t>(parts.width.count()));
    parts.early =
        base::saturating_sub(base::ceil_div(parts.burst * others * (freed + rules.slack_permille),
                                            1000 * others + freed),
                             spec::slack_of(parts.burst, rules));
    return parts;
  }

  static Violation check(const GlobalView& view, int region, const RequestRecord& record,
                         const History& history) {
    const Parts parts = parts_of(view, record, history);
    const Nanos delay = view.delays.total() + Nanos(view.guarantees.acked_within) +
                        2 * view.delays.notice + Nanos(view.guarantees.max_clock_skew);
    // Too short to be shared.
    if (Nanos(parts.width) <= 2 * delay) return {};
    const MonoTime now = view.now.mono;
    const ExactHistory* const exact = at(view, region).origin.exact_history(record.tuple);
    Count sum = 0;
    Count recent = 0;
    for (auto it = history.accepts.rbegin(); it != history.accepts.rend(); ++it) {
      if (at(view, it->region).origin.exact_lost_at() >= it->earliest) break;
      const Nanos span = now - it->earliest;
      if (!parts.drains && span >= Nanos(record.duration)) break;
      if (it->degraded || it->relaxed) continue;
      if (at(view, it->region).oracle.process(it->process).ended) continue;
      sum += it->cost;
      if (span <= 2 * delay) recent += it->cost;
      Count bound = parts.alone() + recent + 2;
      const auto windows = static_cast<Count>(
          sequence_at(view.now.wall, parts.width) -
          sequence_at(view.now.wall - std::chrono::ceil<Millis>(span), parts.width) + 1);
      bound += windows * parts.hidden + (windows > 1 ? parts.early : 0);
      if (parts.drains) bound += parts.drained_in(span);
      if (windows > 2) bound += parts.alone();
      // An origin that knew nothing of the others charged what must have been left of the two
      // usage windows that it heard of.
      const auto first =
          exact == nullptr ? 0
                           : std::count_if(exact->first_foreign.begin(), exact->first_foreign.end(),
                                           [&](MonoTime when) { return when >= it->earliest; });
      if (first > 0 && parts.drains) {
        if (it->earliest < exact->first_foreign.back() - Nanos(parts.width)) break;
        bound += static_cast<Count>(first) * parts.drained_in(parts.width);
      }
      // The same in the memory of a process without an origin, which does not say when.
      if (!at(view, region).has_origin && parts.drains) {
        if (span > Nanos(parts.width)) break;
        bound += parts.drained_in(parts.width);
      }
      if (sum <= bound) continue;
      return "all regions have admitted " + std::to_string(sum) + " of " +
             std::string(weir::to_string(record.algorithm)) + " with a burst of " +
             std::to_string(parts.burst) + " in " +
             std::to_string(std::chrono::ceil<Millis>(span).count()) + " ms, at most " +
             std::to_string(bound) + " can be explained, " + std::to_string(recent) + " as recent";
    }
    return {};
  }

  static int64_t sequence_at(WallTime time, Millis width) {
    return time.time_since_epoch() / width;
  }

  std::map<std::string, History> histories_;  // by tuple
};

}  // namespace

std::unique_ptr<GlobalChecker> make_global_burst_bound() {
  return std::make_unique<GlobalBurstBound>();
}

}  // namespace weir::sim
