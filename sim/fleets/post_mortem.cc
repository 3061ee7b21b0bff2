#include "sim/fleets/post_mortem.h"

#include <algorithm>
#include <map>
#include <set>

namespace weir::sim {
namespace {

constexpr size_t kLastEvents = 30;
constexpr size_t kMostRead = 300;  // keys, at the end

bool has_windows(Algorithm algorithm) {
  return algorithm == Algorithm::kFixedWindow || algorithm == Algorithm::kSlidingWindow;
}

}  // namespace

void PostMortem::report_violation(std::string what) {
  if (!broken_) broken_ = std::move(what);
}

std::string PostMortem::named(size_t key) const {
  const FleetKey& is = fleet_.admissions().key(key);
  return is.ns + "/" + is.identifier;
}

void PostMortem::observe(const FleetAnswer& answer) {
  if (!broken_) broken_ = fleet_.violation();
  if (broken_) return;
  const Verdict& verdict = answer.verdict;
  last_.push_back({.when = fleet_.elapsed(),
                   .key = answer.key,
                   .node = answer.node,
                   .cost = answer.cost,
                   .verdict = verdict});
  if (last_.size() > kLastEvents) last_.pop_front();
  const FleetKey& key = fleet_.admissions().key(answer.key);
  if (!has_windows(key.algorithm) || verdict.basis == Basis::kDegraded) return;
  const Evidence& evidence = verdict.evidence;
  const Count used = evidence.own + evidence.siblings + evidence.foreign + evidence.previous;
  if (verdict.admitted() == (used + answer.cost <= key.limit)) return;
  report_violation("honest verdicts: " + named(answer.key) + " was " +
                   (verdict.admitted() ? "admitted" : "denied") + " a cost of " +
                   std::to_string(answer.cost) + " with " + std::to_string(used) + " used of " +
                   std::to_string(key.limit));
}

uint64_t PostMortem::count_disagreements() {
  const FleetSettings& settings = fleet_.settings();
  fleet_.run_for(settings.max_freshness + settings.replay_within + Millis(1000));
  struct KeyInRegion {
    size_t key = 0;
    uint32_t region = 0;
    auto operator<=>(const KeyInRegion&) const = default;
  };
  std::map<KeyInRegion, std::set<Count>> known;
  const size_t step = fleet_.admissions().keys() / kMostRead + 1;
  for (size_t key = 0; key < fleet_.admissions().keys(); key += step) {
    const FleetKey& is = fleet_.admissions().key(key);
    if (!has_windows(is.algorithm)) continue;
    for (uint32_t number = 0; number < fleet_.nodes(); ++number) {
      Node& node = fleet_.node(number);
      if (!node.serves()) continue;
      if (std::count(is.regions.begin(), is.regions.end(), node.region) == 0) continue;
      node.touched = true;
      node.engine->check_async(
          node.clock.now(), request_for(is, 0), *node.executor,
          [&known, key_in_region =
                       KeyInRegion{key, static_cast<uint32_t>(node.region)}](const auto& verdict) {
            const Evidence& evidence = verdict->evidence;
            known[key_in_region].insert(evidence.own + evidence.siblings);
          });
    }
  }
  fleet_.run_for(settings.read_deadline + Millis(1000));
  return static_cast<uint64_t>(std::count_if(
      known.begin(), known.end(), [](const auto& each) { return each.second.size() > 1; }));
}

void PostMortem::check_bound(const FaultInjector& injector, double bound) {
  const FleetSettings& settings = fleet_.settings();
  if (!settings.ledger || settings.sync.policy != PublishPolicy::kBounded || bound <= 0) return;
  for (const FleetCell& cell : fleet_.admissions().cells()) {
    const FleetKey& key = fleet_.admissions().key(cell.key);
    if (!has_windows(key.algorithm) || cell.in_limits(cell.unexcused) <= bound) continue;
    const WallTime start(cell.sequence * key.duration);
    if (!injector.is_unaffected(start, start + key.duration)) continue;
    report_violation("the global bound: " + named(cell.key) + " admitted " +
                     std::to_string(cell.admitted) + " of " + std::to_string(cell.limit) + ", " +
                     std::to_string(cell.unexcused) + " of it not recent, where the bound is " +
                     std::to_string(bound) + " limits");
    return;
  }
}

std::vector<std::string> PostMortem::last_events() const {
  std::vector<std::string> lines;
  if (!broken_) return lines;
  for (const Event& event : last_) {
    const Evidence& evidence = event.verdict.evidence;
    lines.push_back(
        std::to_string(event.when.count()) + " ms: node " + std::to_string(event.node) + ", " +
        named(event.key) + ": cost " + std::to_string(event.cost) + " " +
        std::string(to_string(event.verdict.outcome)) + ", own " + std::to_string(evidence.own) +
        ", siblings " + std::to_string(evidence.siblings) + ", foreign " +
        std::to_string(evidence.foreign) + ", " + std::string(to_string(event.verdict.basis)));
  }
  return lines;
}

}  // namespace weir::sim
