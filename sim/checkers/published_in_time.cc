// Counts that must be published are published in time.
//
// By the oracle, without faults: a rule of publish_spec.h that has held for as long as publishing
// takes holds no longer, because the row is in the ledger. So other regions know that a region is
// present once it has accepted as much as it may leave unpublished, in every window; regions that
// could use the remaining part know the usage; and the next window knows the last one. The counts
// are those that reached the origin, also of processes that have ended and of evicted tuples.
//
// After a denial, the region publishes the counts that the process knew then while the window
// lasts, however often a write fails. And no row waits longer than one round may take.

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "global/shared_tuples.h"
#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"
#include "sim/checkers/publish_spec.h"
#include "sim/checkers/requested_limits.h"

namespace weir::sim {
namespace {

// A process that has asked for a row by the rule asks for the same count after a denial only then.
constexpr Millis kAsksAgain{1000};

class PublishedInTime final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "published in time"; }

  Violation after_answer(const GlobalView& view, int region, const RequestRecord& record) override {
    record_requested(requested_, region, record);
    if (record.verdict.outcome == Outcome::kDenied) note_denial(view, region, record);
    return {};
  }

  Violation at_audit(const GlobalView& view) override {
    for (const RegionState& region : view.regions) {
      for (const NodeView& node : region.nodes) {
        if (auto violation = check_lag(view, region, node)) return violation;
      }
    }
    if (auto violation = check_denials(view)) return violation;
    if (view.disrupted_since || view.budget_limited || view.failed_over || view.no_room) return {};
    for (const auto& [key, requested] : requested_) {
      const auto& [region, tuple] = key;
      if (view.rejected.count(tuple) > 0) continue;
      if (auto violation = check_tuple(view, region, tuple, requested)) return violation;
    }
    return {};
  }

 private:
  using ProcessCell = std::tuple<int, int, CellId>;  // region, process
  struct Denied {
    Count used = 0;
    uint64_t generation = 0;
    MonoTime by{};
  };

  // A process may know counts that the origin has lost together with a sibling. It asks for them in
  // vain, until the bridge has restored them; the statistics of the process are older than that.
  static bool knows_lost_counts(const RegionState& region, const NodeView& node, MonoTime since) {
    if (!region.has_origin) return false;
    const auto is_lost = [&](const global::SharedCell& cell) {
      const CellId id{cell.tuple, cell.sequence};
      const bool asks = cell.waits || cell.reason != global::PublishReason::kNone ||
                        region.origin.restored(id) > 0;
      return asks && cell.usage.counted > least_since(region, id, since);
    };
    return std::any_of(node.shared.begin(), node.shared.end(), is_lost) ||
           std::any_of(node.unrecorded.begin(), node.unrecorded.end(), is_lost);
  }
  // The smallest count that the origin had since then.
  static Count least_since(const RegionState& region, const CellId& cell, MonoTime since) {
    constexpr Component kNoComponent{.incarnation = ~uint64_t{0}, .generation = ~uint64_t{0}};
    return region.origin.least_others_since(cell, kNoComponent, since);
  }

  static Violation check_lag(const GlobalView& view, const RegionState& region,
                             const NodeView& node) {
    if (view.disrupted_since || view.budget_limited || !node.runs()) return {};
    // A bridge without an origin that has no space for a tuple cannot note that it was published.
    if (node.sync.no_room > 0) return {};
    if (node.sync.publish_lag <= 2 * view.delays.total()) return {};
    if (knows_lost_counts(region, node, view.now.mono - 2 * view.delays.total() - kAsksAgain))
      return {};
    return "a row has been waiting on node " + std::to_string(node.node) + " of " + region.name +
           " for " + std::to_string(node.sync.publish_lag / Millis(1)) + " ms";
  }

  static Violation check_tuple(const GlobalView& view, int region, const std::string& tuple,
                               const RequestedLimit& requested) {
    const SyncRules& rules = view.ledger.rules();
    const std::string& name = view.regions[static_cast<size_t>(region)].name;
    const CellId cell{tuple, view.now.wall.time_since_epoch() / requested.duration};
    const CellId last{tuple, cell.sequence - 1};
    const Nanos within = view.delays.publish;
    const auto known = facts(view, region, cell, requested, view.now.mono - within);
    if (known && lasted(view, cell, requested, within)) {
      if (spec::presence_due(*known, rules, view.regions.size()) && !view.jumped_lately &&
          !covers(view.ledger.leased_until(tuple, name), cell.sequence, requested.duration)) {
        return describe(name, "and other regions do not know that it is present", cell, *known);
      }
    }
    // By the time of its read, the bridge may find that the last window has released enough. Then
    // the process asks again later.
    const Nanos asked_twice = within + global::SharedWindow::kDueRetry;
    const auto contended = facts(view, region, cell, requested, view.now.mono - asked_twice);
    if (contended && lasted(view, cell, requested, asked_twice) &&
        spec::contended(*contended, rules)) {
      return describe(name, "and other regions could use the rest", cell, *contended);
    }
    const auto over = facts(view, region, last, requested, view.now.mono - within);
    if (over && lasted(view, cell, requested, within) && spec::rolled_over(*over, rules)) {
      return describe(name, "which the next window weighs", last, *over);
    }
    return {};
  }

  static Violation describe(const std::string& region, const std::string& why, const CellId& cell,
                            const spec::Cell& known) {
    return region + " accepted " + std::to_string(known.x) + " of " + std::to_string(known.L) +
           " in window " + std::to_string(cell.sequence) + ", " + why + ": the ledger has " +
           std::to_string(known.p) + ", the usage is " + std::to_string(known.e) + " in " +
           std::to_string(known.k) + " regions";
  }

  // Whether the window is current by every clock, and has been for this long.
  static bool lasted(const GlobalView& view, const CellId& cell, const RequestedLimit& requested,
                     Nanos how_long) {
    const Millis apart = view.guarantees.max_clock_skew;
    const WallTime start(cell.sequence * requested.duration);
    return view.now.wall + apart < start + requested.duration &&
           Nanos(view.now.wall - start) >= how_long + apart;
  }

  // A cell as its region knows it from `then` until now; none if that is unknown.
  static std::optional<spec::Cell> facts(const GlobalView& view, int index, const CellId& cell,
                                         const RequestedLimit& requested, MonoTime then) {
    const RegionState& region = view.regions[static_cast<size_t>(index)];
    const MonoTime received = then - view.delays.import;
    const WallTime latest = view.now.wall + view.guarantees.max_clock_skew;
    const CellId before{cell.tuple, cell.sequence - 1};
    const auto mine = known_since(view, region, cell, then);
    const auto mine_before = known_since(view, region, before, then);
    if (!mine) return {};
    spec::Cell known{
        .x = *mine, .p = view.ledger.max_committed({cell, region.name}), .L = requested.smallest};
    Count used = *mine;
    Count used_before = mine_before.value_or(0);
    const int64_t present = view.now.wall.time_since_epoch() / requested.duration;
    for (size_t i = 0; i < view.regions.size(); ++i) {
      if (static_cast<int>(i) == index) continue;
      const std::string& other = view.regions[i].name;
      const Count count = view.history.count_at({cell, other}, received);
      used += count;
      used_before += view.history.count_at({before, other}, received);
      const WallTime leased = view.history.leased_until(cell.tuple, other, received);
      if (count > 0 || covers(leased, cell.sequence, requested.duration)) ++known.k;
      for (const int64_t sequence : {present, present - 1}) {
        const Count limit = view.history.limit_at({{cell.tuple, sequence}, other}, received);
        if (limit > 0) known.L = std::min(known.L, limit);
      }
    }
    known.e = usage_at(latest, requested, cell.sequence, used, used_before);
    return known;
  }

  // The count that a region had accepted by then and that reached its origin. A write that another
  // one overtook lowers the count there until its writer reads that. None if a clock was wrong, or,
  // without an origin, if an accepting process has ended.
  static std::optional<Count> known_since(const GlobalView& view, const RegionState& region,
                                          const CellId& cell, MonoTime then) {
    Count sum = 0;
    Nanos delay{0};
    for (const Accept& accept : region.oracle.accepts(cell)) {
      const ProcessInfo& process = region.oracle.process(accept.contributor.process);
      if (had_wrong_clock(process, cell)) return {};
      if (process.ended && !region.has_origin) return {};
      if (accept.when < then) sum += accept.cost;
      delay = std::max<Nanos>(delay, process.most_delay);
    }
    if (!region.has_origin) return sum;
    const MonoTime acked_by = then + view.guarantees.acked_within + delay;
    return std::min(sum, least_since(region, cell, acked_by));
  }

  // In a denied batch one item was denied and the others were not tried. A peek may have been the
  // first denial, or a denial without the origin: those need not be published.
  void note_denial(const GlobalView& view, int region, const RequestRecord& record) {
    const CellId cell = record.cell();
    const ProcessCell key{region, record.contributor.process, cell};
    const bool first = denied_before_.insert({region, cell}).second;
    if (record.in_batch || record.cost == 0 || denials_.count(key) > 0) return;
    const ProcessInfo& process =
        view.regions[static_cast<size_t>(region)].oracle.process(record.contributor.process);
    // A process that does not hold the tuple uses the counts that it read, and has nothing to
    // publish.
    if (had_wrong_clock(process, cell) || record.contributor.generation == 0) return;
    const Evidence& evidence = record.verdict.evidence;
    const Count used = evidence.own + evidence.siblings + evidence.foreign + evidence.previous;
    const bool held = record.verdict.basis == Basis::kDegraded;
    if (held || used + record.cost <= record.limit) return;
    const RegionState& home = view.regions[static_cast<size_t>(region)];
    const WallTime over((cell.sequence + 1) * record.duration);
    const Nanos within = view.delays.publish + kAsksAgain;
    if (over - view.now.wall < within + view.guarantees.max_clock_skew) return;
    // At least one other region counts here if the process knows of its count.
    const spec::Cell known{.x = evidence.own + evidence.siblings,
                           .p = view.ledger.max_committed({cell, home.name}),
                           .L = record.limit,
                           .k = evidence.foreign > 0 ? 2U : 1U};
    const spec::Denial denial = first ? spec::Denial::kFirst : spec::Denial::kLater;
    if (!spec::exhausted(known, denial, view.ledger.rules())) return;
    denials_[key] = {
        .used = known.x, .generation = record.contributor.generation, .by = view.now.mono + within};
  }

  // Whether a running process has evicted the tuple.
  static bool is_evicted(const RegionState& region, const Contributor& contributor,
                         const CellId& cell) {
    const ProcessInfo& process = region.oracle.process(contributor.process);
    if (process.ended) return false;
    const NodeView& node = region.nodes.at(static_cast<size_t>(process.node));
    return node.generation_of(cell.tuple) != contributor.generation;
  }

  // The same for a denial.
  static bool knew_lost_counts(const GlobalView& view, const RegionState& region,
                               const CellId& cell, Count used) {
    const MonoTime since = view.now.mono - view.delays.publish - kAsksAgain;
    return region.has_origin && used > least_since(region, cell, since);
  }

  // A denial of another process just before counts, too.
  static bool is_published(const Denied& denied, Count has) { return 2 * has > denied.used; }

  Violation check_denials(const GlobalView& view) {
    for (auto it = denials_.begin(); it != denials_.end();) {
      const auto& [index, process, cell] = it->first;
      const RegionState& region = view.regions[static_cast<size_t>(index)];
      Denied& denied = it->second;
      const Millis width = duration_of(cell);
      const bool over =
          view.now.wall + view.guarantees.max_clock_skew >= WallTime((cell.sequence + 1) * width);
      const bool excused = over || view.budget_limited || view.failed_over || view.no_room ||
                           is_evicted(region, {process, denied.generation}, cell) ||
                           view.rejected.count(cell.tuple) > 0 ||
                           region.oracle.process(process).ended.has_value() ||
                           knew_lost_counts(view, region, cell, denied.used);
      const Count has = view.ledger.max_committed({cell, region.name});
      if (excused || is_published(denied, has)) {
        it = denials_.erase(it);
        continue;
      }
      if (view.disrupted_since) {
        denied.by = std::max(denied.by, view.now.mono + view.delays.publish + kAsksAgain);
      }
      if (view.now.mono > denied.by) {
        return region.name + " denied at " + std::to_string(denied.used) + " in window " +
               std::to_string(cell.sequence) + ", and the ledger has " + std::to_string(has);
      }
      ++it;
    }
    return {};
  }

  RequestedLimits requested_;
  std::set<std::pair<int, CellId>> denied_before_;  // by region
  std::map<ProcessCell, Denied> denials_;
};

}  // namespace

std::unique_ptr<GlobalChecker> make_published_in_time() {
  return std::make_unique<PublishedInTime>();
}

}  // namespace weir::sim
