// What must be told is told in time.
//
// By the truth, where nothing goes wrong and those who accepted still live: a rule of
// publish_spec.h that has held for as long as publishing takes holds no more, since what it wanted
// told is in the ledger. So a region that has accepted as much as it may hide is known to be there,
// in every window and for as long as that lasts; others that could use what remains know what is
// used; and the next window knows the last one.
//
// Once something was refused, what the process knew to be used then is written while the window
// lasts, however often it failed. And nothing waits longer than its turn may take.

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"
#include "sim/checkers/publish_spec.h"
#include "sim/checkers/requested_limits.h"

namespace weir::sim {
namespace {

// A process takes its lease for over so much sooner than others do.
constexpr Millis kLeaseMargin{5000};

class PublishedInTime final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "published in time"; }

  Violation after_answer(const GlobalView& view, int region, const RequestRecord& record) override {
    record_requested(requested_, region, record);
    if (record.verdict.outcome == Outcome::kDenied) note_refusal(view, region, record);
    return {};
  }

  Violation at_audit(const GlobalView& view) override {
    for (const RegionState& region : view.regions) {
      for (const NodeView& node : region.nodes) {
        if (auto violation = check_lag(view, node)) return violation;
      }
    }
    if (auto violation = check_refusals(view)) return violation;
    if (view.disrupted_since || view.budget_limited || view.failed_over || view.no_room) return {};
    for (const auto& [key, requested] : requested_) {
      const auto& [region, tuple] = key;
      if (view.rejected.count(tuple) > 0) continue;
      if (auto violation = check_tuple(view, region, tuple, requested)) return violation;
    }
    return {};
  }

 private:
  using ProcessCell = std::tuple<int, int, CellId>;  // region, life
  struct Refused {
    Count used = 0;
    Count had = 0;  // the ledger, then
    uint64_t generation = 0;
    bool knew = false;  // the process, that the ledger had it
    Nanos within{0};
    MonoTime by{};
  };

  static Violation check_lag(const GlobalView& view, const NodeView& node) {
    if (view.disrupted_since || view.budget_limited || !node.runs()) return {};
    // A presence that a sibling wrote waits until it is heard of.
    if (node.sync.publish_lag <= 2 * view.delays.total()) return {};
    return "a row has been waiting on node " + std::to_string(node.node) + " for " +
           std::to_string(node.sync.publish_lag / Millis(1)) + " ms";
  }

  static Violation check_tuple(const GlobalView& view, int region, const std::string& tuple,
                               const RequestedLimit& requested) {
    const SyncRules& rules = view.ledger.rules();
    const std::string& name = view.regions[static_cast<size_t>(region)].name;
    const CellId cell{tuple, view.now.wall.time_since_epoch() / requested.duration};
    const CellId last{tuple, cell.sequence - 1};
    // Where a sibling left word of another row, that it said so is waited for.
    const auto held = facts(view, region, cell, requested, view.now.mono - 2 * view.delays.total());
    if (held && lasted(view, cell, requested, Nanos(0)) &&
        spec::presence_due(*held, rules, view.regions.size()) &&
        view.ledger.present_until(tuple, name) <= view.now.wall) {
      return acked(name, "and others do not know that it is there", cell, *held);
    }
    const Nanos within = time_to_publish(view, tuple, name, view.now.wall);
    const auto known = facts(view, region, cell, requested, view.now.mono - within);
    if (known && lasted(view, cell, requested, within) && spec::contended(*known, rules)) {
      return acked(name, "and others could use what remains", cell, *known);
    }
    const auto over = facts(view, region, last, requested, view.now.mono - view.delays.publish);
    if (over && lasted(view, cell, requested, view.delays.publish) &&
        spec::rolled_over(*over, rules)) {
      return acked(name, "which the next one weighs", last, *over);
    }
    return {};
  }

  // A row that is to say that the region is there waits as long as that may: where the lease is
  // over, or will be before `through`.
  static Nanos time_to_publish(const GlobalView& view, const std::string& tuple,
                               const std::string& region, WallTime through) {
    const MonoTime then = view.now.mono - view.delays.publish;
    const WallTime until = view.history.presence_until(tuple, region, then);
    const bool leased = until > through + kLeaseMargin + view.guarantees.max_clock_skew;
    return leased ? view.delays.publish : 2 * view.delays.total();
  }

  static Violation acked(const std::string& region, const std::string& why, const CellId& cell,
                         const spec::Cell& known) {
    return region + " accepted " + std::to_string(known.x) + " of " + std::to_string(known.L) +
           " in window " + std::to_string(cell.sequence) + ", " + why + ": the ledger has " +
           std::to_string(known.p) + ", used are " + std::to_string(known.e) + " in " +
           std::to_string(known.k) + " regions";
  }

  // Whether the window is the present one by every clock, and has been for this long.
  static bool lasted(const GlobalView& view, const CellId& cell, const RequestedLimit& requested,
                     Nanos how_long) {
    const Millis apart = view.guarantees.max_clock_skew;
    const WallTime start(cell.sequence * requested.duration);
    return view.now.wall + apart < start + requested.duration &&
           Nanos(view.now.wall - start) >= how_long + apart;
  }

  // A cell as its region knows it from `then` until now; nothing, if someone who accepted died.
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
      if (count > 0 || view.history.presence_until(cell.tuple, other, received) > latest) ++known.k;
      for (const int64_t sequence : {present, present - 1}) {
        const Count limit = view.history.limit_at({{cell.tuple, sequence}, other}, received);
        if (limit > 0) known.L = std::min(known.L, limit);
      }
    }
    known.e = usage_at(latest, requested, cell.sequence, used, used_before);
    return known;
  }

  // What a region had accepted by then and its processes could learn from each other: a write that
  // another overtook lowers what the origin has, until its writer reads that. Nothing, if someone
  // who accepted has died since.
  static std::optional<Count> known_since(const GlobalView& view, const RegionState& region,
                                          const CellId& cell, MonoTime then) {
    constexpr Component kNobody{.incarnation = ~uint64_t{0}, .generation = ~uint64_t{0}};
    Count sum = 0;
    Nanos delay{0};
    for (const Accept& accept : region.oracle.accepts(cell)) {
      const ProcessInfo& process = region.oracle.process(accept.contributor.process);
      if (process.ended || had_wrong_clock(process, cell)) return {};
      if (is_evicted(region, accept.contributor, cell)) return {};
      if (accept.when < then) sum += accept.cost;
      delay = std::max<Nanos>(delay, process.most_delay);
    }
    const MonoTime acked = then + view.guarantees.acked_within + delay;
    return std::min(sum, region.origin.least_others_since(cell, kNobody, acked));
  }

  // Of the items of a batch that is refused, one has refused it and the others were not tried. A
  // peek may have been the first to be refused, and so may one for want of the origin: that one by
  // itself need not be told.
  void note_refusal(const GlobalView& view, int region, const RequestRecord& record) {
    const CellId cell = record.cell();
    const ProcessCell key{region, record.contributor.process, cell};
    const bool first = refused_.insert(key).second;
    if (record.in_batch || record.cost == 0 || refusals_.count(key) > 0) return;
    const ProcessInfo& process =
        view.regions[static_cast<size_t>(region)].oracle.process(record.contributor.process);
    // One that does not hold the tuple goes by what it read, and has nothing to tell.
    if (had_wrong_clock(process, cell) || record.contributor.generation == 0) return;
    const Evidence& evidence = record.verdict.evidence;
    const Count used = evidence.own + evidence.siblings + evidence.foreign + evidence.previous;
    const bool held =
        record.verdict.basis == Basis::kDegraded &&
        (view.guarantees.on_origin_loss != OnOriginLoss::kLocal || view.guarantees.evicts);
    if (held || used + record.cost <= record.limit) return;
    const RegionState& home = view.regions[static_cast<size_t>(region)];
    const NodeView& node = home.nodes.at(static_cast<size_t>(record.node));
    const WallTime over((cell.sequence + 1) * record.duration);
    const WallTime through = view.now.wall + view.delays.publish / Millis(1) * Millis(1);
    const Nanos within = time_to_publish(view, cell.tuple, home.name, through);
    if (!node.received || over - view.now.wall < within + view.guarantees.max_clock_skew) return;
    spec::Cell known{.x = evidence.own + evidence.siblings,
                     .p = view.ledger.max_committed({cell, home.name}),
                     .L = record.limit};
    for (const RegionState& other : view.regions) {
      if (other.name == home.name) continue;
      const bool present = node.received->present_until(cell.tuple, other.name) > over;
      if (present || node.received->row({cell, other.name}).count > 0) ++known.k;
    }
    const ImportLog::Row written = node.received->row({cell, home.name});
    const spec::Refusal refusal = first ? spec::Refusal::kFirst : spec::Refusal::kLater;
    if (!spec::exhausted(known, refusal, view.ledger.rules())) return;
    refusals_[key] = {
        .used = known.x,
        .had = known.p,
        .generation = record.contributor.generation,
        .knew = written.count >= known.p && view.now.mono - written.since > ImportLog::kMergeDelay,
        .within = within,
        .by = view.now.mono + within};
  }

  // Whether a process that lives has made room for others there.
  static bool is_evicted(const RegionState& region, const Contributor& contributor,
                         const CellId& cell) {
    const ProcessInfo& process = region.oracle.process(contributor.process);
    if (process.ended) return false;
    const NodeView& node = region.nodes.at(static_cast<size_t>(process.node));
    return node.generation_of(cell.tuple) != contributor.generation;
  }

  // A sibling that wrote just before tells of it, too.
  static bool is_acked(const Refused& refused, Count has) {
    return has >= refused.used || (2 * has > refused.used && (has > refused.had || !refused.knew));
  }

  Violation check_refusals(const GlobalView& view) {
    for (auto it = refusals_.begin(); it != refusals_.end();) {
      const auto& [index, process, cell] = it->first;
      const RegionState& region = view.regions[static_cast<size_t>(index)];
      Refused& refused = it->second;
      const Millis width = duration_of(cell);
      const bool over =
          view.now.wall + view.guarantees.max_clock_skew >= WallTime((cell.sequence + 1) * width);
      const bool excused = over || view.budget_limited || view.failed_over || view.no_room ||
                           is_evicted(region, {process, refused.generation}, cell) ||
                           view.rejected.count(cell.tuple) > 0 ||
                           region.oracle.process(process).ended.has_value();
      const Count has = view.ledger.max_committed({cell, region.name});
      if (excused || is_acked(refused, has)) {
        it = refusals_.erase(it);
        continue;
      }
      if (view.disrupted_since) {
        refused.by = std::max(refused.by, view.now.mono + refused.within);
      }
      if (view.now.mono > refused.by) {
        return region.name + " refused at " + std::to_string(refused.used) + " in window " +
               std::to_string(cell.sequence) + ", and the ledger has " + std::to_string(has);
      }
      ++it;
    }
    return {};
  }

  RequestedLimits requested_;
  std::set<ProcessCell> refused_;
  std::map<ProcessCell, Refused> refusals_;
};

}  // namespace

std::unique_ptr<GlobalChecker> make_published_in_time() {
  return std::make_unique<PublishedInTime>();
}

}  // namespace weir::sim
