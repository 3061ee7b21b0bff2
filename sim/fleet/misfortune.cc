#include "sim/fleet/misfortune.h"

#include <algorithm>
#include <cmath>

namespace weir::sim {
namespace {

// A store that starts again is away for so long.
constexpr Millis kRestart{200};
// What was asked in vain is asked again, and told to everyone, within this: the breaker's pause and
// the longest delay.
constexpr Millis kRecovery{10'000};

Millis ms_of(double amount) {
  return Millis(std::llround(amount));
}

int64_t permille_of(double percent) {
  return std::llround(percent * 10);
}

bool is_of_a_node(FaultKind what) {
  return what == FaultKind::kNodeKilled || what == FaultKind::kNodeDrained ||
         what == FaultKind::kNodeIsolated || what == FaultKind::kClockSet;
}

bool restarts_a_store(FaultKind what) {
  return what == FaultKind::kOriginEmptied || what == FaultKind::kOriginOldReplica ||
         what == FaultKind::kLedgerFailsOver;
}

}  // namespace

Misfortune::Misfortune(const Scenario& scenario, Fleet& fleet)
    : fleet_(fleet),
      began_(fleet.now().wall),
      random_(scenario.seed + 0x5eed),
      faults_(scenario.faults) {
  for (const FaultRate& rate : scenario.random_faults) draw(scenario, rate);
  const Millis last = scenario.warm_up + scenario.measured;
  for (FaultPlan& fault : faults_) {
    if (restarts_a_store(fault.what)) fault.lasts = std::max(fault.lasts, kRestart);
    fault.lasts = std::min(fault.lasts, last - fault.at);
    if (is_of_a_node(fault.what) && fault.where.find('/') == std::string::npos) {
      std::vector<std::string> names;
      for (uint32_t region = 0; region < fleet_.regions(); ++region) {
        const std::string& name = fleet_.region(region).name;
        if (!fault.where.empty() && fault.where != name) continue;
        for (uint32_t i = 0; i < fleet_.region(region).nodes; ++i) {
          names.push_back(name + "/" + std::to_string(i));
        }
      }
      fault.where = names[random_.next() % names.size()];
    }
  }
  std::stable_sort(faults_.begin(), faults_.end(),
                   [](const FaultPlan& a, const FaultPlan& b) { return a.at < b.at; });
  active_.resize(faults_.size());
  for (size_t i = 0; i < faults_.size(); ++i) schedule(i);
}

void Misfortune::draw(const Scenario& scenario, const FaultRate& rate) {
  const auto mean = static_cast<double>(rate.every.count());
  const Millis last = scenario.warm_up + scenario.measured;
  Millis at = scenario.warm_up;
  for (;;) {
    at += ms_of(-std::log(random_.uniform()) * mean);
    if (at >= last) return;
    const uint32_t region = static_cast<uint32_t>(random_.next() % fleet_.regions());
    FaultPlan fault{
        .what = rate.what,
        .at = at,
        .lasts = Millis(random_.between(rate.lasts.from.count(), rate.lasts.to.count())),
        .where = fleet_.region(region).name,
        .amount = rate.amount.from + (rate.amount.to - rate.amount.from) * random_.uniform()};
    faults_.push_back(std::move(fault));
  }
}

void Misfortune::schedule(size_t number) {
  const FaultPlan& fault = faults_[number];
  Timeline& timeline = fleet_.timeline();
  if (fault.what == FaultKind::kOriginOldReplica) {
    timeline.post_in(std::max(Millis(0), fault.at - ms_of(fault.amount)), [this, number] {
      for_each_region_hit(faults_[number], [&](uint32_t region) {
        saved_[{number, region}] = fleet_.origin(region).snapshot();
      });
    });
  }
  timeline.post_in(fault.at, [this, number] {
    if (!calm_) begin(number);
  });
}

void Misfortune::begin(size_t number) {
  const FaultPlan& fault = faults_[number];
  active_[number] = true;
  strike(fault);
  if (fault.what == FaultKind::kOriginOldReplica) {
    for_each_region_hit(fault, [&](uint32_t region) {
      fleet_.origin(region).restore(std::move(saved_[{number, region}]));
    });
  }
  set_all();
  fleet_.timeline().post_in(fault.lasts, [this, number] {
    if (active_[number]) end(number);
  });
}

// What happens in an instant.
void Misfortune::strike(const FaultPlan& fault) {
  const MonoTime now = fleet_.now().mono;
  switch (fault.what) {
    case FaultKind::kOriginEmptied:
      for_each_region_hit(fault, [&](uint32_t region) { fleet_.origin(region).clear(); });
      break;
    case FaultKind::kLedgerFailsOver:
      fleet_.ledger().fail_over(now - ms_of(fault.amount), Millis(0));
      break;
    case FaultKind::kLedgerClockSet: fleet_.ledger().set_skew(ms_of(fault.amount)); break;
    case FaultKind::kNodeKilled:
      for_each_hit(fault, [&](FleetNode& node) { fleet_.kill(node); });
      break;
    case FaultKind::kNodeDrained:
      for_each_hit(fault, [&](FleetNode& node) { fleet_.drain(node); });
      break;
    case FaultKind::kClockSet:
      for_each_hit(fault, [&](FleetNode& node) { node.clock.set(ms_of(fault.amount)); });
      break;
    default: break;
  }
}

void Misfortune::end(size_t number) {
  const FaultPlan& fault = faults_[number];
  active_[number] = false;
  const bool lasted = fault.lasts > Millis(0);
  switch (fault.what) {
    case FaultKind::kLedgerClockSet:
      if (lasted) fleet_.ledger().set_skew(Millis(0));
      break;
    case FaultKind::kNodeKilled:
    case FaultKind::kNodeDrained:
      for_each_hit(fault, [&](FleetNode& node) {
        if (node.state == FleetNode::State::kDrains) fleet_.kill(node);
        if (!node.runs()) fleet_.begin(node);
      });
      break;
    case FaultKind::kClockSet:
      if (lasted) for_each_hit(fault, [](FleetNode& node) { node.clock.set(Millis(0)); });
      break;
    default: break;
  }
  set_all();
}

void Misfortune::make_calm() {
  calm_ = true;
  for (size_t i = 0; i < faults_.size(); ++i) {
    if (active_[i]) end(i);
  }
}

bool Misfortune::spares(WallTime from, WallTime to) const {
  return std::none_of(faults_.begin(), faults_.end(), [&](const FaultPlan& fault) {
    const WallTime begins = began_ + fault.at;
    return begins < to && begins + fault.lasts + kRecovery > from;
  });
}

bool Misfortune::hits(const FaultPlan& fault, const FleetNode& node) const {
  const std::string& region = fleet_.region(node.region).name;
  if (fault.where.empty() || fault.where == region) return true;
  const std::vector<uint32_t>& siblings = fleet_.nodes_of(node.region);
  const auto index = std::find(siblings.begin(), siblings.end(), node.number) - siblings.begin();
  return fault.where == region + "/" + std::to_string(index);
}

void Misfortune::for_each_hit(const FaultPlan& fault,
                              const std::function<void(FleetNode&)>& visit) {
  for (uint32_t i = 0; i < fleet_.nodes(); ++i) {
    if (hits(fault, fleet_.node(i))) visit(fleet_.node(i));
  }
}

void Misfortune::for_each_region_hit(const FaultPlan& fault,
                                     const std::function<void(uint32_t)>& visit) {
  for (uint32_t i = 0; i < fleet_.regions(); ++i) {
    if (fault.where.empty() || fault.where == fleet_.region(i).name) visit(i);
  }
}

void Misfortune::set_all() {
  for (uint32_t i = 0; i < fleet_.nodes(); ++i) {
    if (fleet_.node(i).runs()) set(fleet_.node(i));
  }
}

// What lies between a node and its stores follows from all that is going on.
void Misfortune::set(FleetNode& node) {
  LinkFaults near = fleet_.usual_way_to_origin(node);
  LedgerFaults far = fleet_.usual_way_to_ledger(node);
  const auto worse = [](Road& road, Road than) { road = std::max(road, than); };
  for (size_t i = 0; i < faults_.size(); ++i) {
    const FaultPlan& fault = faults_[i];
    if (!active_[i] || !hits(fault, node)) continue;
    const Millis ms = ms_of(fault.amount);
    switch (fault.what) {
      case FaultKind::kOriginRefuses:
      case FaultKind::kOriginEmptied:
      case FaultKind::kOriginOldReplica: worse(near.road, Road::kRefused); break;
      case FaultKind::kOriginSilent: worse(near.road, Road::kCut); break;
      case FaultKind::kOriginSlow: near.slow += ms; break;
      case FaultKind::kNetworkLoses: near.lose_permille += permille_of(fault.amount); break;
      case FaultKind::kNetworkRepeats: near.repeat_permille += permille_of(fault.amount); break;
      case FaultKind::kNetworkReorders: near.most_delay += ms; break;
      case FaultKind::kLedgerRefuses:
      case FaultKind::kLedgerFailsOver: worse(far.road, Road::kRefused); break;
      case FaultKind::kLedgerSilent: worse(far.road, Road::kCut); break;
      case FaultKind::kLedgerSlow: far.slow += ms; break;
      case FaultKind::kLedgerReadOnly: far.read_only = true; break;
      case FaultKind::kLedgerFull: far.full = true; break;
      case FaultKind::kLedgerDeadlocks: far.fail_permille += permille_of(fault.amount); break;
      case FaultKind::kLedgerCutsImports: far.cut_permille += permille_of(fault.amount); break;
      case FaultKind::kLedgerStaleReads:
        far.stale_permille = 1000;
        far.stale = {ms, ms};
        break;
      case FaultKind::kLedgerOutOfOrder: far.late_commit = std::max(far.late_commit, ms); break;
      case FaultKind::kNodeIsolated:
        near.road = Road::kCut;
        far.road = Road::kCut;
        break;
      case FaultKind::kLedgerClockSet:
      case FaultKind::kNodeKilled:
      case FaultKind::kNodeDrained:
      case FaultKind::kClockSet: break;
    }
  }
  const bool back = near.road == Road::kOpen && node.origin->faults.road != Road::kOpen;
  node.origin->faults = near;
  if (node.ledger) node.ledger->faults = far;
  if (back) node.origin->reconnect();
}

}  // namespace weir::sim
