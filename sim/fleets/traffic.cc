#include "sim/fleets/traffic.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/wide.h"
#include "global/publish_rule.h"

namespace weir::sim {
namespace {

constexpr uint64_t kSpotlights = 2;   // of a stream
constexpr int64_t kHidesEvery = 3;    // windows: the earlier ones are over by then
constexpr double kHidingTakes = 200;  // ms in each region

double millis(Millis span) {
  return static_cast<double>(span.count());
}

const LimitPlan& limit_named(const Scenario& scenario, const std::string& name) {
  return *std::find_if(scenario.limits.begin(), scenario.limits.end(),
                       [&](const LimitPlan& limit) { return limit.name == name; });
}

// The count that a region may leave unpublished while all are present with `published` each: the
// rest of the limit is divided among all.
Count max_unpublished(Count limit, const SyncRules& rules, Count published, uint64_t regions) {
  const Count slack = global::permille_of(limit, rules.slack_permille);
  const Count left = base::saturating_sub(limit + slack, regions * published);
  return base::saturating_sub(base::ceil_div(left, regions + 1), 1);
}

}  // namespace

Traffic::Traffic(const Scenario& scenario, Fleet& fleet)
    : fleet_(fleet), began_(fleet.elapsed()), random_(scenario.seed + 77) {
  for (const StreamPlan& plan : scenario.traffic) add_stream(scenario, plan);
}

void Traffic::add_stream(const Scenario& scenario, const StreamPlan& plan) {
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

double Traffic::draw(const Range<double>& range) {
  return range.from + (range.to - range.from) * random_.uniform();
}

std::vector<uint32_t> Traffic::draw_regions(const Stream& stream) {
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

void Traffic::add_key(size_t number, Millis warm_up) {
  const Stream& stream = streams_[number];
  const LimitPlan& limit = stream.limit;
  const auto from = static_cast<double>(limit.limit.from);
  const auto to = static_cast<double>(limit.limit.to);
  const auto drawn =
      static_cast<Count>(std::llround(from * std::pow(to / from, random_.uniform())));
  const double demand = draw(stream.plan.demand);
  const double requests =
      stream.plan.unit == StreamPlan::Unit::kLimits ? demand * static_cast<double>(drawn) : demand;
  KeySource source{.stream = number, .gap = millis(limit.duration) / std::max(requests, 1e-9)};
  source.key = fleet_.add({.ns = limit.name,
                           .limit = drawn,
                           .regions = draw_regions(stream),
                           .duration = limit.duration,
                           .algorithm = limit.algorithm,
                           .burst = limit.burst});
  // Keys start one by one during the warm-up, so that their leases do not all end together.
  source.phase = stream.begins + random_.uniform() * std::max(millis(warm_up), source.gap);
  switch (stream.plan.shape) {
    case Shape::kOnOff:
      source.phase -= random_.uniform() * millis(stream.plan.on + stream.plan.off);
      break;
    case Shape::kLockStep:
    case Shape::kEdgeBurst: source.phase = stream.begins; break;
    case Shape::kHideThenRun:
    case Shape::kHoldBackThenRun: write_script(source); break;
    default: source.last = source.phase; break;
  }
  if (streams_[number].keys++ < kSpotlights) spotlights_.push_back(source.key);
  sources_.push_back(std::move(source));
  plan_next(sources_.size() - 1);
}

// Each region but the last requests as much as it may leave unpublished, and stops. When all are
// idle the last one requests the whole limit.
void Traffic::write_script(KeySource& source) const {
  const FleetKey& key = fleet_.admissions().key(source.key);
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
      source.script.emplace_back(when + over * part, key.regions[region]);
    }
    when += over;
  };
  if (streams_[source.stream].plan.shape == Shape::kHideThenRun || floor) {
    for (uint32_t i = 0; i + 1 < regions; ++i) spread(i, unseen - 1, span);
  } else {
    for (uint32_t i = 0; i < regions; ++i) spread(i, presence, span);
    when = window * 4 / 12;
    for (uint32_t i = 0; i + 1 < regions; ++i) {
      spread(i, max_unpublished(key.limit, rules, presence, regions), span);
    }
  }
  when = window * 7 / 12;
  spread(regions - 1, 2 * key.limit, window / 3);
}

double Traffic::exponential(double mean) {
  return -std::log(random_.uniform()) * mean;
}

// The time of the next request; each shape uses `last` in its own way.
double Traffic::next_of(KeySource& source) {
  const Stream& stream = streams_[source.stream];
  const StreamPlan& plan = stream.plan;
  const double window = millis(stream.limit.duration);
  const uint64_t number = source.sent++;
  switch (plan.shape) {
    case Shape::kSteady: return source.last += source.gap;
    case Shape::kPoisson:
    case Shape::kHopping:
    case Shape::kFresh: return source.last += exponential(source.gap);
    case Shape::kOnOff: {
      const double on = millis(plan.on);
      const double cycle = on + millis(plan.off);
      source.last += exponential(source.gap * on / cycle);
      return source.phase + std::floor(source.last / on) * cycle + std::fmod(source.last, on);
    }
    case Shape::kDiurnal:
      // Drawn at the highest rate, then thinned out where the rate is lower.
      for (;;) {
        source.last += exponential(source.gap / 2);
        const double angle = 2 * std::numbers::pi * source.last / millis(plan.every);
        if (random_.uniform() <= (1 - std::cos(angle)) / 2) return source.last;
      }
    case Shape::kLockStep:
      return source.phase + static_cast<double>(number / plan.clients) * millis(plan.every);
    case Shape::kEdgeBurst: {
      const auto burst =
          std::max<uint64_t>(1, static_cast<uint64_t>(std::llround(window / source.gap)));
      const double span = std::min(window / 50, 200.0);
      const double edge = source.phase + static_cast<double>(1 + number / burst) * window;
      return edge + span * (static_cast<double>(number % burst) / static_cast<double>(burst) - 0.5);
    }
    case Shape::kHideThenRun:
    case Shape::kHoldBackThenRun: {
      const double round =
          static_cast<double>(number / source.script.size()) * kHidesEvery * window;
      return stream.begins + round + source.script[number % source.script.size()].first;
    }
  }
  return stream.ends;
}

void Traffic::plan_next(size_t number) {
  const Stream& stream = streams_[sources_[number].stream];
  double when = 0;
  do {
    when = next_of(sources_[number]);
  } while (when < stream.begins);
  if (when < stream.ends) next_.push({when, number});
}

uint32_t Traffic::region_of(const KeySource& source, double when) {
  const StreamPlan& plan = streams_[source.stream].plan;
  const std::vector<uint32_t>& regions = fleet_.admissions().key(source.key).regions;
  if (plan.shape == Shape::kHopping) {
    return regions[static_cast<size_t>(when / millis(plan.every)) % regions.size()];
  }
  // The next request is the one that was planned last.
  if (!source.script.empty()) {
    return source.script[(source.sent - 1) % source.script.size()].second;
  }
  return regions[random_.next() % regions.size()];
}

void Traffic::send_due() {
  const auto now = millis(fleet_.elapsed() - began_);
  while (!next_.empty() && next_.top().when < now + 1) {
    const Next next = next_.top();
    next_.pop();
    if (!next_.empty()) __builtin_prefetch(&sources_[next_.top().source]);
    const KeySource& source = sources_[next.source];
    const Range<Count>& cost = streams_[source.stream].plan.cost;
    fleet_.send(source.key, region_of(source, next.when),
                static_cast<Count>(random_.between(static_cast<int64_t>(cost.from),
                                                   static_cast<int64_t>(cost.to))));
    plan_next(next.source);
  }
  for (Stream& stream : streams_) {
    if (stream.plan.shape == Shape::kFresh && now >= stream.begins && now < stream.ends) {
      send_fresh(stream, now);
    }
  }
}

void Traffic::send_fresh(Stream& stream, double now) {
  const double per_ms =
      stream.plan.demand.from / millis(stream.limit.duration) *
      (stream.plan.unit == StreamPlan::Unit::kLimits ? static_cast<double>(stream.limit.limit.from)
                                                     : 1);
  const double passed = now + 1 - stream.begins;
  for (; static_cast<double>(stream.fresh) < passed * per_ms; ++stream.fresh) {
    fleet_.send_once({.ns = stream.limit.name,
                      .identifier = std::string("fresh-").append(std::to_string(stream.fresh)),
                      .limit = stream.limit.limit.from,
                      .duration = stream.limit.duration,
                      .algorithm = stream.limit.algorithm,
                      .burst = stream.limit.burst},
                     stream.regions[random_.next() % stream.regions.size()]);
  }
}

}  // namespace weir::sim
