#include "sim/fleets/fault_injector.h"

#include <algorithm>
#include <cmath>

namespace weir::sim {
namespace {

// A store that restarts is unavailable for this long.
constexpr Millis kRestart{200};
// Failed calls are retried, and all regions know the result, within this: the pause of the circuit
// breaker plus the longest delay.
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

FaultInjector::FaultInjector(const Scenario& scenario, Fleet& fleet)
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
  // Copies of the ledger are expensive, so only faults that go back to one keep them.
  for (const FaultPlan& fault : faults_) {
    if (fault.what == FaultKind::kLedgerFailsOver || fault.what == FaultKind::kLedgerStaleReads) {
      fleet_.ledger().keep_states(ms_of(fault.amount));
    }
  }
  for (size_t i = 0; i < faults_.size(); ++i) schedule(i);
}

void FaultInjector::draw(const Scenario& scenario, const FaultRate& rate) {
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

void FaultInjector::schedule(size_t number) {
  const FaultPlan& fault = faults_[number];
  Timeline& timeline = fleet_.timeline();
  if (fault.what == FaultKind::kOriginOldReplica) {
    timeline.post_in(std::max(Millis(0), fault.at - ms_of(fault.amount)), [this, number] {
      for_each_matching_region(faults_[number],
                               [&](uint32_t region) { fleet_.origin(region).save(number); });
    });
  }
  timeline.post_in(fault.at, [this, number] {
    if (!calm_) begin(number);
  });
}

void FaultInjector::begin(size_t number) {
  const FaultPlan& fault = faults_[number];
  active_[number] = true;
  fleet_.note_disruption();
  apply_once(fault);
  if (fault.what == FaultKind::kOriginOldReplica) {
    for_each_matching_region(fault,
                             [&](uint32_t region) { fleet_.origin(region).restore_saved(number); });
  }
  update_links();
  fleet_.timeline().post_in(fault.lasts, [this, number] {
    if (active_[number]) end(number);
  });
}

// Faults that happen at one instant.
void FaultInjector::apply_once(const FaultPlan& fault) {
  const MonoTime now = fleet_.now().mono;
  switch (fault.what) {
    case FaultKind::kOriginEmptied:
      for_each_matching_region(fault, [&](uint32_t region) { fleet_.origin(region).forget_all(); });
      break;
    case FaultKind::kLedgerFailsOver: fleet_.fail_over_ledger(now - ms_of(fault.amount)); break;
    case FaultKind::kLedgerClockSet: fleet_.ledger().set_skew(ms_of(fault.amount)); break;
    case FaultKind::kLedgerFeedGap:
      for_each_matching_region(fault, [&](uint32_t region) {
        fleet_.ledger().lose_next_batches(fleet_.region(region).name, 1);
      });
      break;
    case FaultKind::kNodeKilled:
      for_each_matching_node(fault, [&](Node& node) { fleet_.kill(node); });
      break;
    case FaultKind::kBridgeKilled:
      for_each_matching_node(fault, [&](Node& node) {
        if (fleet_.sync_stats(node.number).bridge) fleet_.kill(node);
      });
      break;
    case FaultKind::kNodeDrained:
      for_each_matching_node(fault, [&](Node& node) { fleet_.drain(node); });
      break;
    case FaultKind::kClockSet:
      for_each_matching_node(fault,
                             [&](Node& node) { fleet_.set_clock(node, ms_of(fault.amount)); });
      break;
    default: break;
  }
}

void FaultInjector::end(size_t number) {
  const FaultPlan& fault = faults_[number];
  active_[number] = false;
  fleet_.note_disruption();
  const bool lasted = fault.lasts > Millis(0);
  switch (fault.what) {
    case FaultKind::kLedgerClockSet:
      if (lasted) fleet_.ledger().set_skew(Millis(0));
      break;
    case FaultKind::kNodeKilled:
    case FaultKind::kNodeDrained:
    case FaultKind::kBridgeKilled:
      for_each_matching_node(fault, [&](Node& node) {
        if (node.draining) fleet_.kill(node);
        if (!node.is_running()) fleet_.start_process(node);
      });
      break;
    case FaultKind::kClockSet:
      if (lasted)
        for_each_matching_node(fault, [&](Node& node) { fleet_.set_clock(node, Millis(0)); });
      break;
    default: break;
  }
  update_links();
}

void FaultInjector::stop_faults() {
  calm_ = true;
  for (size_t i = 0; i < faults_.size(); ++i) {
    if (active_[i]) end(i);
  }
  fleet_.note_calm();
}

bool FaultInjector::is_unaffected(WallTime from, WallTime to) const {
  return std::none_of(faults_.begin(), faults_.end(), [&](const FaultPlan& fault) {
    const WallTime begins = began_ + fault.at;
    return begins < to && begins + fault.lasts + kRecovery > from;
  });
}

bool FaultInjector::matches(const FaultPlan& fault, const Node& node) const {
  const std::string& region = fleet_.region(node.region).name;
  if (fault.where.empty() || fault.where == region) return true;
  return fault.where == region + "/" + std::to_string(node.index);
}

void FaultInjector::for_each_matching_node(const FaultPlan& fault,
                                           const std::function<void(Node&)>& visit) {
  for (uint32_t i = 0; i < fleet_.nodes(); ++i) {
    if (matches(fault, fleet_.node(i))) visit(fleet_.node(i));
  }
}

void FaultInjector::for_each_matching_region(const FaultPlan& fault,
                                             const std::function<void(uint32_t)>& visit) {
  for (uint32_t i = 0; i < fleet_.regions(); ++i) {
    if (fault.where.empty() || fault.where == fleet_.region(i).name) visit(i);
  }
}

void FaultInjector::update_links() {
  for (uint32_t i = 0; i < fleet_.nodes(); ++i) {
    if (fleet_.node(i).is_running()) set(fleet_.node(i));
  }
}

// The faults of a node's links follow from all active faults.
void FaultInjector::set(Node& node) {
  LinkFaults near = fleet_.normal_origin_link(node);
  LedgerFaults far = fleet_.normal_ledger_link(node);
  const auto worse = [](Connectivity& connectivity, Connectivity than) {
    connectivity = std::max(connectivity, than);
  };
  for (size_t i = 0; i < faults_.size(); ++i) {
    const FaultPlan& fault = faults_[i];
    if (!active_[i] || !matches(fault, node)) continue;
    const Millis ms = ms_of(fault.amount);
    switch (fault.what) {
      case FaultKind::kOriginRefuses:
      case FaultKind::kOriginEmptied:
      case FaultKind::kOriginOldReplica: worse(near.connectivity, Connectivity::kRefused); break;
      case FaultKind::kOriginSilent: worse(near.connectivity, Connectivity::kSilent); break;
      case FaultKind::kOriginSlow: near.slow += ms; break;
      case FaultKind::kNetworkLoses: near.lose_permille += permille_of(fault.amount); break;
      case FaultKind::kNetworkRepeats: near.repeat_permille += permille_of(fault.amount); break;
      case FaultKind::kNetworkReorders: near.most_delay += ms; break;
      case FaultKind::kLedgerRefuses:
      case FaultKind::kLedgerFailsOver: worse(far.connectivity, Connectivity::kRefused); break;
      case FaultKind::kLedgerSilent: worse(far.connectivity, Connectivity::kSilent); break;
      case FaultKind::kLedgerSlow: far.slow += ms; break;
      case FaultKind::kLedgerReadOnly: far.read_only = true; break;
      case FaultKind::kLedgerFull: far.full = true; break;
      case FaultKind::kLedgerDeadlocks: far.fail_permille += permille_of(fault.amount); break;
      case FaultKind::kLedgerCutsImports: far.cut_permille += permille_of(fault.amount); break;
      case FaultKind::kLedgerStaleReads:
        far.stale_permille = 1000;
        far.stale = {ms, ms};
        break;
      case FaultKind::kNodeIsolated:
        near.connectivity = Connectivity::kSilent;
        far.connectivity = Connectivity::kSilent;
        break;
      case FaultKind::kLedgerClockSet:
      case FaultKind::kLedgerFeedGap:
      case FaultKind::kBridgeKilled:
      case FaultKind::kNodeKilled:
      case FaultKind::kNodeDrained:
      case FaultKind::kClockSet: break;
    }
  }
  const bool back =
      near.connectivity == Connectivity::kUp && node.link->faults.connectivity != Connectivity::kUp;
  node.link->faults = near;
  if (node.ledger) node.ledger->faults = far;
  if (back) node.link->reconnect();
}

}  // namespace weir::sim
