#include "sim/fleet/crowd.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/wide.h"
#include "global/publish_rule.h"

namespace weir::sim {
namespace {

constexpr uint64_t kSpotlights = 2;   // of a stream
constexpr int64_t kHidesEvery = 3;    // windows: what was before is forgotten by then
constexpr double kHidingTakes = 200;  // in each region

double millis(Millis span) {
  return static_cast<double>(span.count());
}

const LimitPlan& limit_named(const Scenario& scenario, const std::string& name) {
  return *std::find_if(scenario.limits.begin(), scenario.limits.end(),
                       [&](const LimitPlan& limit) { return limit.name == name; });
}

// What a region may count and not say, while all are known to be here with `told` each: what its
// own admissions leave is divided among all.
Count held_back(Count limit, const SyncRules& rules, Count acked, uint64_t regions) {
  const Count slack = global::permille_of(limit, rules.slack_permille);
  const Count left = base::saturating_sub(limit + slack, regions * acked);
  return base::saturating_sub(base::ceil_div(left, regions + 1), 1);
}

}  // namespace

Crowd::Crowd(const Scenario& scenario, Fleet& fleet)
    : fleet_(fleet), began_(fleet.elapsed()), random_(scenario.seed + 77) {
  for (const StreamPlan& plan : scenario.traffic) add_stream(scenario, plan);
}

void Crowd::add_stream(const Scenario& scenario, const StreamPlan& plan) {
  Stream stream{.plan = plan,
                .limit = limit_named(scenario, plan.limit),
                .regions = {},
                .begins = millis(plan.begins),
                .ends = millis(plan.ends.value_or(scenario.warm_up + scenario.measured))};
  for (uint32_t i = 0; i < fleet_.regions(); ++i) {
    const auto& names = plan.regions;
    const bool named = std::find(names.begin(), names.end(), fleet_.region(i).name) != names.end();
    if (names.empty() || named) stream.regions.push_back(i);
  }
  streams_.push_back(std::move(stream));
  if (plan.shape == Shape::kFresh) return;
  for (uint64_t i = 0; i < plan.keys; ++i) add_key(streams_.size() - 1, scenario.warm_up);
}

double Crowd::draw(const Range<double>& range) {
  return range.from + (range.to - range.from) * random_.uniform();
}

std::vector<uint32_t> Crowd::draw_regions(const Stream& stream) {
  std::vector<uint32_t> left = stream.regions;
  if (!stream.plan.spread) return left;
  const auto wanted =
      static_cast<size_t>(random_.between(stream.plan.spread->from, stream.plan.spread->to));
  std::vector<uint32_t> drawn;
  while (!left.empty() && drawn.size() < wanted) {
    const auto pick = static_cast<std::ptrdiff_t>(random_.next() % left.size());
    drawn.push_back(left[static_cast<size_t>(pick)]);
    left.erase(left.begin() + pick);
  }
  return drawn;
}

void Crowd::add_key(size_t number, Millis warm_up) {
  const Stream& stream = streams_[number];
  const LimitPlan& limit = stream.limit;
  const auto from = static_cast<double>(limit.limit.from);
  const auto to = static_cast<double>(limit.limit.to);
  const auto drawn =
      static_cast<Count>(std::llround(from * std::pow(to / from, random_.uniform())));
  const double demand = draw(stream.plan.demand);
  const double requests =
      stream.plan.unit == StreamPlan::Unit::kLimits ? demand * static_cast<double>(drawn) : demand;
  Asker asker{.stream = number, .gap = millis(limit.duration) / std::max(requests, 1e-9)};
  asker.key = fleet_.add({.ns = limit.name,
                          .limit = drawn,
                          .regions = draw_regions(stream),
                          .duration = limit.duration,
                          .algorithm = limit.algorithm,
                          .burst = limit.burst});
  // Keys come in one by one while it warms up, so that their leases do not all end together.
  asker.phase = stream.begins + random_.uniform() * std::max(millis(warm_up), asker.gap);
  switch (stream.plan.shape) {
    case Shape::kOnOff:
      asker.phase -= random_.uniform() * millis(stream.plan.on + stream.plan.off);
      break;
    case Shape::kLockStep:
    case Shape::kEdgeBurst: asker.phase = stream.begins; break;
    case Shape::kHideThenRun:
    case Shape::kHoldBackThenRun: write_script(asker); break;
    default: asker.last = asker.phase; break;
  }
  if (streams_[number].keys++ < kSpotlights) spotlights_.push_back(asker.key);
  askers_.push_back(std::move(asker));
  plan_next(askers_.size() - 1);
}

// Each region but the last takes as much as it may keep to itself, and stops. When all is quiet the
// last one runs to its limit.
void Crowd::write_script(Asker& asker) const {
  const FleetKey& key = fleet_.account().key(asker.key);
  const SyncRules& rules = fleet_.settings().sync;
  const auto regions = static_cast<uint32_t>(key.regions.size());
  const bool floor = rules.policy == PublishPolicy::kFloor;
  const Count presence = global::unpublished_allowance(key.limit, rules, fleet_.regions());
  const Count unseen = floor ? global::permille_of(key.limit, rules.floor_permille) : presence;
  const double window = millis(key.duration);
  const double span = std::min(kHidingTakes, window / 8 / regions);
  double when = window / 60;
  const auto spread = [&](uint32_t region, Count count, double over) {
    for (Count i = 0; i < count; ++i) {
      const double part = static_cast<double>(i) / static_cast<double>(count);
      asker.script.emplace_back(when + over * part, key.regions[region]);
    }
    when += over;
  };
  if (streams_[asker.stream].plan.shape == Shape::kHideThenRun || floor) {
    for (uint32_t i = 0; i + 1 < regions; ++i) spread(i, unseen - 1, span);
  } else {
    for (uint32_t i = 0; i < regions; ++i) spread(i, presence, span);
    when = window * 4 / 12;
    for (uint32_t i = 0; i + 1 < regions; ++i) {
      spread(i, held_back(key.limit, rules, presence, regions), span);
    }
  }
  when = window * 7 / 12;
  spread(regions - 1, 2 * key.limit, window / 3);
}

double Crowd::exponential(double mean) {
  return -std::log(random_.uniform()) * mean;
}

// When it asks next; each shape has its own idea of what `last` is.
double Crowd::next_of(Asker& asker) {
  const Stream& stream = streams_[asker.stream];
  const StreamPlan& plan = stream.plan;
  const double window = millis(stream.limit.duration);
  const uint64_t number = asker.asked++;
  switch (plan.shape) {
    case Shape::kSteady: return asker.last += asker.gap;
    case Shape::kPoisson:
    case Shape::kHopping:
    case Shape::kFresh: return asker.last += exponential(asker.gap);
    case Shape::kOnOff: {
      const double on = millis(plan.on);
      const double cycle = on + millis(plan.off);
      asker.last += exponential(asker.gap * on / cycle);
      return asker.phase + std::floor(asker.last / on) * cycle + std::fmod(asker.last, on);
    }
    case Shape::kDiurnal:
      // Drawn at the highest rate, and left out where it is lower.
      for (;;) {
        asker.last += exponential(asker.gap / 2);
        const double turn = 2 * std::numbers::pi * asker.last / millis(plan.every);
        if (random_.uniform() <= (1 - std::cos(turn)) / 2) return asker.last;
      }
    case Shape::kLockStep:
      return asker.phase + static_cast<double>(number / plan.clients) * millis(plan.every);
    case Shape::kEdgeBurst: {
      const auto burst =
          std::max<uint64_t>(1, static_cast<uint64_t>(std::llround(window / asker.gap)));
      const double span = std::min(window / 50, 200.0);
      const double edge = asker.phase + static_cast<double>(1 + number / burst) * window;
      return edge + span * (static_cast<double>(number % burst) / static_cast<double>(burst) - 0.5);
    }
    case Shape::kHideThenRun:
    case Shape::kHoldBackThenRun: {
      const double round = static_cast<double>(number / asker.script.size()) * kHidesEvery * window;
      return stream.begins + round + asker.script[number % asker.script.size()].first;
    }
  }
  return stream.ends;
}

void Crowd::plan_next(size_t number) {
  const Stream& stream = streams_[askers_[number].stream];
  double when = 0;
  do {
    when = next_of(askers_[number]);
  } while (when < stream.begins);
  if (when < stream.ends) next_.push({when, number});
}

uint32_t Crowd::region_of(const Asker& asker, double when) {
  const StreamPlan& plan = streams_[asker.stream].plan;
  const std::vector<uint32_t>& regions = fleet_.account().key(asker.key).regions;
  if (plan.shape == Shape::kHopping) {
    return regions[static_cast<size_t>(when / millis(plan.every)) % regions.size()];
  }
  // Its next request is the one that was planned last.
  if (!asker.script.empty()) {
    return asker.script[(asker.asked - 1) % asker.script.size()].second;
  }
  return regions[random_.next() % regions.size()];
}

void Crowd::ask() {
  const auto now = millis(fleet_.elapsed() - began_);
  while (!next_.empty() && next_.top().when < now + 1) {
    const Next next = next_.top();
    next_.pop();
    const Asker& asker = askers_[next.asker];
    const Range<Count>& cost = streams_[asker.stream].plan.cost;
    fleet_.ask(asker.key, region_of(asker, next.when),
               static_cast<Count>(random_.between(static_cast<int64_t>(cost.from),
                                                  static_cast<int64_t>(cost.to))));
    plan_next(next.asker);
  }
  for (Stream& stream : streams_) {
    if (stream.plan.shape == Shape::kFresh && now >= stream.begins && now < stream.ends) {
      ask_fresh(stream, now);
    }
  }
}

void Crowd::ask_fresh(Stream& stream, double now) {
  const double per_ms =
      stream.plan.demand.from / millis(stream.limit.duration) *
      (stream.plan.unit == StreamPlan::Unit::kLimits ? static_cast<double>(stream.limit.limit.from)
                                                     : 1);
  const double passed = now + 1 - stream.begins;
  for (; static_cast<double>(stream.fresh) < passed * per_ms; ++stream.fresh) {
    fleet_.ask_once({.ns = stream.limit.name,
                     .identifier = std::string("fresh-").append(std::to_string(stream.fresh)),
                     .limit = stream.limit.limit.from,
                     .duration = stream.limit.duration,
                     .algorithm = stream.limit.algorithm,
                     .burst = stream.limit.burst},
                    stream.regions[random_.next() % stream.regions.size()]);
  }
}

}  // namespace weir::sim
