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

#include "sim/checkers/asked.h"
#include "sim/checkers/makers.h"
#include "sim/checkers/publish_spec.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

// A process takes its lease for over so much sooner than others do.
constexpr Millis kLeaseMargin{5000};

class PublishedInTime final : public FleetChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "published in time"; }

  Fault after_answer(const FleetView& all, int region, const Answered& answered) override {
    note_asked(asked_, region, answered);
    if (answered.verdict.outcome == Outcome::kDenied) note_refusal(all, region, answered);
    return {};
  }

  Fault at_audit(const FleetView& all) override {
    for (const RegionView& region : all.regions) {
      for (const NodeView& node : region.nodes) {
        if (auto fault = check_lag(all, node)) return fault;
      }
    }
    if (auto fault = check_refusals(all)) return fault;
    if (all.troubled_since || all.scarce || all.failed_over || all.no_room) return {};
    for (const auto& [place, asked] : asked_) {
      const auto& [region, tuple] = place;
      if (all.blamed.count(tuple) > 0) continue;
      if (auto fault = check_tuple(all, region, tuple, asked)) return fault;
    }
    return {};
  }

 private:
  using Place = std::tuple<int, int, CellId>;  // region, life
  struct Refused {
    Count used = 0;
    Count had = 0;  // the ledger, then
    uint64_t generation = 0;
    bool knew = false;  // the process, that the ledger had it
    Nanos within{0};
    MonoTime by{};
  };

  static Fault check_lag(const FleetView& all, const NodeView& node) {
    if (all.troubled_since || all.scarce || !node.runs()) return {};
    // A presence that a sibling wrote waits until it is heard of.
    if (node.sync.publish_lag <= 2 * all.delays.all()) return {};
    return "a row has been waiting on node " + std::to_string(node.node) + " for " +
           std::to_string(node.sync.publish_lag / Millis(1)) + " ms";
  }

  static Fault check_tuple(const FleetView& all, int region, const std::string& tuple,
                           const Asked& asked) {
    const SyncRules& rules = all.ledger.rules();
    const std::string& name = all.regions[static_cast<size_t>(region)].name;
    const CellId cell{tuple, all.now.wall.time_since_epoch() / asked.duration};
    const CellId last{tuple, cell.sequence - 1};
    // Where a sibling left word of another row, that it said so is waited for.
    const auto held = facts(all, region, cell, asked, all.now.mono - 2 * all.delays.all());
    if (held && lasted(all, cell, asked, Nanos(0)) &&
        spec::presence_due(*held, rules, all.regions.size()) &&
        all.ledger.present_until(tuple, name) <= all.now.wall) {
      return acked(name, "and others do not know that it is there", cell, *held);
    }
    const Nanos within = time_to_publish(all, tuple, name, all.now.wall);
    const auto known = facts(all, region, cell, asked, all.now.mono - within);
    if (known && lasted(all, cell, asked, within) && spec::contended(*known, rules)) {
      return acked(name, "and others could use what remains", cell, *known);
    }
    const auto over = facts(all, region, last, asked, all.now.mono - all.delays.publish);
    if (over && lasted(all, cell, asked, all.delays.publish) && spec::rolled_over(*over, rules)) {
      return acked(name, "which the next one weighs", last, *over);
    }
    return {};
  }

  // A row that is to say that the region is there waits as long as that may: where the lease is
  // over, or will be before `through`.
  static Nanos time_to_publish(const FleetView& all, const std::string& tuple,
                               const std::string& region, WallTime through) {
    const MonoTime then = all.now.mono - all.delays.publish;
    const WallTime until = all.history.said_until(tuple, region, then);
    const bool leased = until > through + kLeaseMargin + all.promises.clocks_apart;
    return leased ? all.delays.publish : 2 * all.delays.all();
  }

  static Fault acked(const std::string& region, const std::string& why, const CellId& cell,
                     const spec::Cell& known) {
    return region + " accepted " + std::to_string(known.x) + " of " + std::to_string(known.L) +
           " in window " + std::to_string(cell.sequence) + ", " + why + ": the ledger has " +
           std::to_string(known.p) + ", used are " + std::to_string(known.e) + " in " +
           std::to_string(known.k) + " regions";
  }

  // Whether the window is the present one by every clock, and has been for this long.
  static bool lasted(const FleetView& all, const CellId& cell, const Asked& asked, Nanos how_long) {
    const Millis apart = all.promises.clocks_apart;
    const WallTime start(cell.sequence * asked.duration);
    return all.now.wall + apart < start + asked.duration &&
           Nanos(all.now.wall - start) >= how_long + apart;
  }

  // A cell as its region knows it from `then` until now; nothing, if someone who accepted died.
  static std::optional<spec::Cell> facts(const FleetView& all, int index, const CellId& cell,
                                         const Asked& asked, MonoTime then) {
    const RegionView& region = all.regions[static_cast<size_t>(index)];
    const MonoTime received = then - all.delays.import;
    const WallTime latest = all.now.wall + all.promises.clocks_apart;
    const CellId before{cell.tuple, cell.sequence - 1};
    const auto mine = known_since(all, region, cell, then);
    const auto mine_before = known_since(all, region, before, then);
    if (!mine) return {};
    spec::Cell known{.x = *mine, .p = all.ledger.ever({cell, region.name}), .L = asked.smallest};
    Count used = *mine;
    Count used_before = mine_before.value_or(0);
    const int64_t present = all.now.wall.time_since_epoch() / asked.duration;
    for (size_t i = 0; i < all.regions.size(); ++i) {
      if (static_cast<int>(i) == index) continue;
      const std::string& other = all.regions[i].name;
      const Count count = all.history.had({cell, other}, received);
      used += count;
      used_before += all.history.had({before, other}, received);
      if (count > 0 || all.history.said_until(cell.tuple, other, received) > latest) ++known.k;
      for (const int64_t sequence : {present, present - 1}) {
        const Count limit = all.history.limit_acked({{cell.tuple, sequence}, other}, received);
        if (limit > 0) known.L = std::min(known.L, limit);
      }
    }
    known.e = usage_at(latest, asked, cell.sequence, used, used_before);
    return known;
  }

  // What a region had accepted by then and its processes could learn from each other: a write that
  // another overtook lowers what the origin has, until its writer reads that. Nothing, if someone
  // who accepted has died since.
  static std::optional<Count> known_since(const FleetView& all, const RegionView& region,
                                          const CellId& cell, MonoTime then) {
    constexpr Component kNobody{.incarnation = ~uint64_t{0}, .generation = ~uint64_t{0}};
    Count sum = 0;
    Nanos delay{0};
    for (const Accept& accept : region.truth.accepts(cell)) {
      const Life& life = region.truth.life(accept.account.life);
      if (life.ended || went_astray(life, cell)) return {};
      if (is_evicted(region, accept.account, cell)) return {};
      if (accept.when < then) sum += accept.cost;
      delay = std::max<Nanos>(delay, life.most_delay);
    }
    const MonoTime acked = then + all.promises.acked_within + delay;
    return std::min(sum, region.origin.least_others_since(cell, kNobody, acked));
  }

  // Of the items of a batch that is refused, one has refused it and the others were not tried. A
  // peek may have been the first to be refused, and so may one for want of the origin: that one by
  // itself need not be told.
  void note_refusal(const FleetView& all, int region, const Answered& answered) {
    const CellId cell = answered.cell();
    const Place place{region, answered.account.life, cell};
    const bool first = refused_.insert(place).second;
    if (answered.in_batch || answered.cost == 0 || refusals_.count(place) > 0) return;
    const Life& life = all.regions[static_cast<size_t>(region)].truth.life(answered.account.life);
    // One that does not hold the tuple goes by what it read, and has nothing to tell.
    if (went_astray(life, cell) || answered.account.generation == 0) return;
    const Evidence& evidence = answered.verdict.evidence;
    const Count used = evidence.own + evidence.siblings + evidence.foreign + evidence.previous;
    const bool held = answered.verdict.basis == Basis::kDegraded &&
                      (all.promises.on_origin_loss != OnOriginLoss::kLocal || all.promises.forgets);
    if (held || used + answered.cost <= answered.limit) return;
    const RegionView& home = all.regions[static_cast<size_t>(region)];
    const NodeView& node = home.nodes.at(static_cast<size_t>(answered.node));
    const WallTime over((cell.sequence + 1) * answered.duration);
    const WallTime through = all.now.wall + all.delays.publish / Millis(1) * Millis(1);
    const Nanos within = time_to_publish(all, cell.tuple, home.name, through);
    if (!node.received || over - all.now.wall < within + all.promises.clocks_apart) return;
    spec::Cell known{.x = evidence.own + evidence.siblings,
                     .p = all.ledger.ever({cell, home.name}),
                     .L = answered.limit};
    for (const RegionView& other : all.regions) {
      if (other.name == home.name) continue;
      const bool present = node.received->present_until(cell.tuple, other.name) > over;
      if (present || node.received->row({cell, other.name}).count > 0) ++known.k;
    }
    const Received::Row written = node.received->row({cell, home.name});
    const spec::Refusal refusal = first ? spec::Refusal::kFirst : spec::Refusal::kLater;
    if (!spec::exhausted(known, refusal, all.ledger.rules())) return;
    refusals_[place] = {
        .used = known.x,
        .had = known.p,
        .generation = answered.account.generation,
        .knew = written.count >= known.p && all.now.mono - written.since > Received::kTakesIn,
        .within = within,
        .by = all.now.mono + within};
  }

  // Whether a process that lives has made room for others there.
  static bool is_evicted(const RegionView& region, const Account& account, const CellId& cell) {
    const Life& life = region.truth.life(account.life);
    if (life.ended) return false;
    const NodeView& node = region.nodes.at(static_cast<size_t>(life.node));
    return node.generation_of(cell.tuple) != account.generation;
  }

  // A sibling that wrote just before tells of it, too.
  static bool is_acked(const Refused& refused, Count has) {
    return has >= refused.used || (2 * has > refused.used && (has > refused.had || !refused.knew));
  }

  Fault check_refusals(const FleetView& all) {
    for (auto it = refusals_.begin(); it != refusals_.end();) {
      const auto& [index, life, cell] = it->first;
      const RegionView& region = all.regions[static_cast<size_t>(index)];
      Refused& refused = it->second;
      const Millis width = duration_of(cell);
      const bool over =
          all.now.wall + all.promises.clocks_apart >= WallTime((cell.sequence + 1) * width);
      const bool excused = over || all.scarce || all.failed_over || all.no_room ||
                           is_evicted(region, {life, refused.generation}, cell) ||
                           all.blamed.count(cell.tuple) > 0 ||
                           region.truth.life(life).ended.has_value();
      const Count has = all.ledger.ever({cell, region.name});
      if (excused || is_acked(refused, has)) {
        it = refusals_.erase(it);
        continue;
      }
      if (all.troubled_since) {
        refused.by = std::max(refused.by, all.now.mono + refused.within);
      }
      if (all.now.mono > refused.by) {
        return region.name + " refused at " + std::to_string(refused.used) + " in window " +
               std::to_string(cell.sequence) + ", and the ledger has " + std::to_string(has);
      }
      ++it;
    }
    return {};
  }

  AskedTuples asked_;
  std::set<Place> refused_;
  std::map<Place, Refused> refusals_;
};

}  // namespace

std::unique_ptr<FleetChecker> make_published_in_time() {
  return std::make_unique<PublishedInTime>();
}

}  // namespace weir::sim
