// How a fleet runs the checkers of a world.

#include <algorithm>
#include <utility>

#include "base/keyed_hash.h"
#include "memory/tuple_key.h"
#include "sim/fleets/fleet.h"
#include "sim/stores/watched_origin.h"

namespace weir::sim {
namespace {

constexpr Millis kProbeEvery{100};
constexpr size_t kMostProbed = 50;  // keys
// Messages may be late by this when faults end.
constexpr Millis kMostLate{2000};

}  // namespace

// The checkers need the history of each origin. It expires cells as PlainOrigin does, so that
// checking changes no decision.
void Fleet::make_monitor() {
  const FleetChecks& checks = *options_.checks;
  const FleetSettings& settings = options_.settings;
  monitor_ = std::make_unique<Monitor>(timeline_, checks.only_checker);
  monitor_->conditions.fault_free = checks.fault_free;
  monitor_->guarantees = {.max_freshness = settings.max_freshness,
                          .read_deadline = settings.read_deadline,
                          .on_origin_loss = settings.on_origin_loss,
                          .evicts = checks.evicts,
                          .acked_within = settings.replay_within + 2 * kIteration,
                          .probed_within = kProbeEvery,
                          .max_clock_skew = checks.max_clock_skew};
  Millis to_origin{0};
  Millis to_ledger{0};
  for (uint32_t i = 0; i < regions(); ++i) {
    const int region = static_cast<int>(i);
    auto origin = std::make_unique<WatchedOrigin>(
        timeline_, Writing::kRaise, checks.planted_bug,
        [this, region](const OriginWrite& write) { monitor_->after_write(region, write); },
        Millis(0));
    monitor_->add_region(plans_[i].name, *origin);
    origins_.push_back(std::move(origin));
    to_origin = std::max(to_origin, plans_[i].to_origin.to + checks.extra_origin_delay);
    to_ledger = std::max(to_ledger, plans_[i].to_ledger.to);
  }
  // The floor policy has no bound to check.
  if (!settings.ledger || settings.sync.policy != PublishPolicy::kBounded) return;
  const Delays delays = delays_of(settings.sync, {.acked_within = monitor_->guarantees.acked_within,
                                                  .to_origin = to_origin,
                                                  .to_ledger = to_ledger});
  monitor_->watch_ledger(*ledger_, [delays] { return delays; });
}

void Fleet::set_clock(Node& node, Millis skew) {
  const bool wrong = skew > kWrongClock || skew < -kWrongClock;
  const Millis before = node.clock.skew();
  node.clock.set_skew(skew);
  note_disruption();
  if (!monitor_ || (!wrong && !node.wrong_clock)) return;
  node.wrong_clock = wrong;
  if (!wrong) node.clock.forget_latest();
  if (node.process == nullptr) return;
  node.process->wrong_clock_until =
      wrong ? WallTime::max() : node.clock.now().wall + std::max(before, Millis(0));
}

void Fleet::fail_over_ledger(MonoTime as_of) {
  ledger_->fail_over(as_of, Millis(0));
  if (monitor_) monitor_->conditions.failed_over = true;
}

RequestRecord Fleet::record_of(const Node& node, const Request& request) const {
  return {.node = node.index,
          .contributor = {.process = node.process->number},
          .tuple = memory::TupleKey(request, base::KeyedHash(0)).encoded(),
          .duration = request.duration,
          .algorithm = request.algorithm,
          .limit = request.limit,
          .burst = request.burst.value_or(request.limit),
          .cost = request.cost,
          .requested_at = node.clock.now(),
          .verdict = {}};
}

void Fleet::check_answer(Node& node, RequestRecord record, const Verdict& verdict) {
  record.verdict = verdict;
  record.charged = verdict.admitted() && record.cost > 0;
  std::vector<RequestRecord> together{std::move(record)};
  monitor_->record(node, together);
  monitor_->after_answer(node, together.front(), together);
}

void Fleet::audit() {
  for (const auto& node : nodes_) {
    if (!node->is_running()) continue;
    const SyncStats sync = node->engine->sync_stats();
    if (sync.waiting > 0 && sync.budget_used > 0.9) monitor_->conditions.budget_limited = true;
  }
  monitor_->audit();
}

void Fleet::note_disruption() {
  if (monitor_) monitor_->note_disruption();
}

void Fleet::note_calm() {
  if (!monitor_) return;
  MonoTime calm = timeline_.now().mono + kMostLate + options_.settings.read_deadline;
  if (!options_.checks->fault_free) calm += Monitor::kRecovery;
  monitor_->conditions.calm_since = calm;
}

// Sends requests without cost, so that every node reads all counts.
void Fleet::probe_all() {
  const size_t step = admissions_.keys() / kMostProbed + 1;
  for (const auto& node : nodes_) {
    for (size_t key = 0; key < admissions_.keys() && node->serves(); key += step) {
      const std::vector<uint32_t>& used_in = admissions_.key(key).regions;
      if (std::count(used_in.begin(), used_in.end(), node->region) > 0) send_to(*node, key, 0);
    }
  }
}

void Fleet::check_convergence() {
  if (!monitor_ || !monitor_->conditions.calm_since) return;
  const auto run_until = [&](MonoTime end, const std::function<void()>& each) {
    const Nanos left = end - timeline_.now().mono;
    if (left > Nanos(0)) run_for(std::chrono::ceil<Millis>(left), each);
  };
  const Guarantees& bounds = monitor_->guarantees;
  const MonoTime calm_since = std::max(*monitor_->conditions.calm_since, timeline_.now().mono);
  run_until(calm_since + bounds.read_deadline +
                2 * (bounds.max_freshness + bounds.acked_within + kProbeEvery + Millis(500)) +
                Millis(1000),
            [&] {
              if (elapsed_ % kProbeEvery == Millis(0)) probe_all();
            });
  run_until(timeline_.now().mono + 2 * (bounds.read_deadline + bounds.acked_within), [] {});
  audit();
  monitor_->at_end();
}

std::optional<std::string> Fleet::violation() const {
  return monitor_ ? monitor_->violation() : std::nullopt;
}

}  // namespace weir::sim
