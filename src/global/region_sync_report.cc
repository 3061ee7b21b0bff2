// What a process reports of its region: the heartbeat, the bound on over-admission, and statistics.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "global/region_sync.h"

namespace weir::global {

using memory::mutated;
using memory::Mutation;

namespace {

constexpr Millis kHeartbeatEvery{2000};
constexpr Millis kHeartbeatRetry{500};
constexpr Millis kHeldReportEvery{5000};
static_assert(2 * kHeldReportEvery < kUnpublishedKept);
constexpr size_t kCleanRows = 5000;
constexpr Millis kBehindAfter{5000};  // without an import
// Without an accepted write: two heartbeats, of which one failed.
constexpr Millis kUnwrittenAfter{4000};
constexpr Millis kSilentAfter{3 * kHeartbeatEvery};
constexpr uint64_t kWholeLimit = 1'000'000;  // in millionths

// Whether a namespace has more unpublished than was reported.
bool is_worse(const LedgerRegion& latest, const LedgerRegion& reported) {
  return latest.unpublished_ppm > reported.unpublished_ppm ||
         std::ranges::any_of(latest.namespaces, [&](const NamespaceReport& each) {
           return each.unpublished_ppm > reported.unpublished_in(each.workspace, each.ns);
         });
}

template <typename Ppm>
Unpublished sum_of(const std::vector<LedgerRegion>& regions, const Ppm& ppm_of) {
  Unpublished sum;
  for (const LedgerRegion& region : regions) {
    const uint64_t ppm = ppm_of(region);
    sum.ppm += ppm;
    sum.max_ppm += std::max(ppm, kWholeLimit);
  }
  return sum;
}

// Many regions may report many namespaces: keeps the widest, and counts the others as all that are
// not listed.
void keep_widest(Regions& regions) {
  while (regions.wider.size() > kMaxReportedNamespaces) {
    const auto least = std::ranges::min_element(regions.wider, {},
                                                [](const auto& each) { return each.second.ppm; });
    Unpublished& rest = regions.unpublished;
    rest.ppm = std::max(rest.ppm, least->second.ppm);
    rest.max_ppm = std::max(rest.max_ppm, least->second.max_ppm);
    regions.wider.erase(least);
  }
}

}  // namespace

void RegionSync::update_siblings(Instant now) {
  const uint32_t siblings = region_->origin ? region_->origin->live_nodes() : 1;
  if (siblings < siblings_) {
    died_counts_until_ =
        std::max(died_counts_until_, now.mono + 2 * Nanos(trigger_.longest_window()));
  }
  siblings_ = siblings;
}

bool RegionSync::origin_is_lost() const {
  return region_->origin && !accepts_writes(region_->origin->reach());
}

// How many siblings may each admit another limit: while the processes of the region cannot exchange
// counts through the origin, or cannot keep them.
uint64_t RegionSync::diverging_siblings(Instant now) const {
  if (!region_->origin || siblings_ <= 1) return 0;
  const bool lost = region_->origin->reach() != Reach::kPrompt;
  const bool late = Nanos(region_->replay_lag.load(std::memory_order_relaxed)) > kMaxInFlight;
  return lost || late || tuples_->sketch.live_until() > now.wall ? siblings_ - 1 : 0;
}

// What a region may leave unpublished when all is well, in millionths of a limit: the allowance,
// and what the row budget adds to the slack.
uint64_t RegionSync::usual_ppm(uint32_t doublings) const {
  const uint64_t others = std::max(regions_.count, 2U) - 1;
  doublings = std::min(doublings, kMaxDoublings);
  const uint64_t allowance = uint64_t{regions_.rules.unpublished_permille} * 1000 / others;
  const uint64_t slack = uint64_t{regions_.rules.slack_permille} * 1000;
  return std::min(allowance << doublings, kWholeLimit) + std::min(slack << doublings, kWholeLimit) -
         slack;
}

// Holds a cause of each namespace until the windows of the time `since` are over.
template <typename Hold>
void RegionSync::hold_all(Instant since, const Hold& hold) {
  trigger_.windows().each(since.wall, [&](const Tenant& tenant, Nanos left) {
    hold(held_[tenant], since.mono + left);
  });
  const Nanos left = trigger_.windows().rest_left(since.wall);
  if (left > Nanos(0)) hold(rest_held_, since.mono + left);
}

// Remembers what widens the bound now. The other causes have a memory of their own.
void RegionSync::hold_causes(Instant now) {
  // Tuples are evaluated, and their windows known, a little after that.
  if (missed_at_ && now.mono - missed_at_->mono <= kMaxInFlight) {
    hold_all(*missed_at_, [](HeldCauses& held, MonoTime until) {
      held.missed_until = std::max(held.missed_until, until);
    });
  }
  const uint64_t diverging = origin_is_lost() ? diverging_siblings(now) : 0;
  if (diverging > 0) {
    hold_all(now, [&](HeldCauses& held, MonoTime until) { held.diverging.hold(diverging, until); });
  }
  if (!regions_.silent.empty()) {
    hold_all(now, [&](HeldCauses& held, MonoTime until) {
      for (const std::string& region : regions_.silent) {
        held.silent[region] = std::max(held.silent[region], until);
      }
    });
  }
  for (const auto& [tenant, times] : regions_.doublings) {
    const Nanos left = trigger_.windows().left(tenant, now.wall);
    if (left > Nanos(0)) held_[tenant].doublings.hold(times, now.mono + left);
  }
  std::erase_if(held_, [&](const auto& each) { return each.second.is_over(now.mono); });
}

// The most that this region may have unpublished, as far as this process can tell. Counts that wait
// too long or that the origin does not have count as a whole limit. So does what the region admits
// while it may not know what others have published.
RegionSync::Report RegionSync::report(Instant now) {
  std::set<Tenant> late = trigger_.late(now);
  const bool evicts = tuples_->evicted.live_until() > now.wall;
  // Without an origin, what a former process had not published died with it.
  const bool lost_alone =
      mode_ == Mode::kAlone && (evicts || importer_.stats().former_rows_until > now.wall);
  const uint64_t diverging = diverging_siblings(now);
  bool whole = skipped_live(now, Nanos(0)) || lost_alone || misses_rows(now) ||
               tuples_->sketch.live_until() > now.wall || died_counts_until_ > now.mono ||
               diverging > 0;
  // Nobody evaluates an evicted tuple when the allowance shrinks again.
  if (!evicts) widest_doublings_.clear();
  for (const auto& [tenant, times] : regions_.doublings) {
    uint32_t& widest = widest_doublings_[tenant];
    widest = std::max(widest, times);
  }
  std::map<Tenant, uint32_t> tenants = widest_doublings_;
  Report report{.region = {.region = global_->shared.region(), .by_bridge = is_bridge(now)},
                .usual = !whole && late.empty() && tenants == regions_.doublings};
  bool all_late = false;
  if (is_bridge(now)) {
    publisher_.each_late_tenant(now.mono, kMaxInFlight,
                                [&](const Tenant& tenant) { late.insert(tenant); });
    all_late = publisher_.is_full() && !late.empty();
  }
  if (mutated(Mutation::kWaitingNotExported)) late.clear(), all_late = false;
  hold_late(now, late, all_late);
  whole = whole || all_late;
  report.urgent = !report.usual;
  report.usual = report.usual && !rest_held_.by_this_process(now.mono) &&
                 std::ranges::none_of(held_, [&](const auto& each) {
                   return each.second.by_this_process(now.mono);
                 });
  for (const Tenant& tenant : late) tenants.try_emplace(tenant, 0);
  for (const auto& [tenant, held] : held_) {
    uint32_t& times = tenants[tenant];
    times = std::max(times, static_cast<uint32_t>(held.doublings.at(now.mono)));
  }

  const auto unpublished = [&](uint32_t doublings, bool waits, const HeldCauses& held) {
    const uint64_t usual = usual_ppm(doublings);
    const uint64_t alone = std::max(diverging, held.diverging.at(now.mono));
    const bool all = whole || waits || alone > 0 || held.waited(now.mono) || held.missed(now.mono);
    return (all ? std::max(kWholeLimit, usual) : usual) + alone * kWholeLimit;
  };
  report.region.unpublished_ppm = unpublished(0, false, rest_held_);
  std::vector<NamespaceReport>& namespaces = report.region.namespaces;
  for (const auto& [tenant, doublings] : tenants) {
    const auto held = held_.find(tenant);
    const uint64_t ppm = unpublished(doublings, late.contains(tenant),
                                     held == held_.end() ? HeldCauses{} : held->second);
    if (ppm <= report.region.unpublished_ppm) continue;
    namespaces.push_back({.workspace = tenant.workspace, .ns = tenant.ns, .unpublished_ppm = ppm});
  }
  if (namespaces.size() > kMaxReportedNamespaces) {
    std::ranges::stable_sort(namespaces, std::ranges::greater{}, &NamespaceReport::unpublished_ppm);
    report.region.unpublished_ppm = namespaces[kMaxReportedNamespaces].unpublished_ppm;
    namespaces.resize(kMaxReportedNamespaces);
  }
  return report;
}

void RegionSync::hold_late(Instant now, const std::set<Tenant>& late, bool all) {
  const auto hold = [](HeldCauses& held, MonoTime until) {
    held.waited_until = std::max(held.waited_until, until);
  };
  if (all) hold_all(now, hold);
  for (const Tenant& tenant : late) {
    const Nanos left = trigger_.windows().left(tenant, now.wall);
    if (left > Nanos(0)) hold(held_[tenant], now.mono + left);
  }
}

// The bridge reports for the region. Another process reports only what is worse than usual.
void RegionSync::heartbeat(Instant now) {
  if (no_memory_.exchange(false, std::memory_order_relaxed)) trigger_.note_skipped(now.mono);
  if (heartbeat_.give_up_late_call(now.mono)) ++heartbeat_errors_;
  const Report latest = report(now);
  if (!is_bridge(now) && latest.usual) return;
  // Since the last report this process has become the bridge.
  if (latest.region.by_bridge && !reported_.by_bridge) {
    heartbeat_.next = std::min(heartbeat_.next, heartbeat_.began() + kHeartbeatEvery);
  }
  // A higher value than reported goes out at once.
  if (is_worse(latest.region, reported_) && !heartbeat_.in_flight()) heartbeat_.next = now.mono;
  if (!heartbeat_.is_due(now.mono)) return;
  // The ledger keeps a report for longer than this.
  const bool held_only = !is_bridge(now) && !latest.urgent;
  heartbeat_.next = now.mono + (held_only ? kHeldReportEvery : kHeartbeatEvery);
  reported_ = latest.region;
  global_->ledger->heartbeat(reported_, configured_rules_,
                             heartbeat_.call<LedgerFleet>(
                                 now.mono, [this](Instant when, const Result<LedgerFleet>& fleet) {
                                   if (fleet) {
                                     fleet_updated_ = heartbeat_.began();
                                     fleet_known_at_ = std::max(fleet_known_at_, fleet_updated_);
                                     importer_.note_ledger_time(fleet->now, heartbeat_.began(),
                                                                when.mono);
                                     update_fleet(when, *fleet);
                                   } else {
                                     ++heartbeat_errors_;
                                     heartbeat_.next = when.mono + kHeartbeatRetry;
                                   }
                                 }));
}

void RegionSync::update_fleet(Instant now, const LedgerFleet& fleet) {
  const bool one = mutated(Mutation::kRegionsUnderestimated);
  const auto count = static_cast<uint32_t>(one ? 1 : std::max<size_t>(1, fleet.regions.size()));
  const SyncRules rules = with_valid_lease(fleet.rules);
  regions_.count = count;
  regions_.rules = rules;
  std::vector<LedgerRegion> others = fleet.regions;
  std::erase_if(others, [&](const LedgerRegion& region) {
    return region.region == global_->shared.region();
  });
  regions_.silent.clear();
  for (const LedgerRegion& region : others) {
    // Or if the clock of the ledger was set back.
    if (region.silent <= kSilentAfter && region.silent >= -kSilentAfter) continue;
    regions_.silent.insert(region.region);
  }
  // A silent region may have a whole limit unpublished, and have admitted one.
  const auto unpublished_of = [&](const HeldCauses& held, const LedgerRegion& region,
                                  uint64_t reported) {
    const bool was_silent =
        regions_.silent.contains(region.region) || held.was_silent(region.region, now.mono);
    return was_silent ? std::max(reported, kWholeLimit) : reported;
  };
  regions_.unpublished = sum_of(others, [&](const LedgerRegion& region) {
    return unpublished_of(rest_held_, region, region.unpublished_ppm);
  });
  std::set<Tenant> tenants;
  for (const auto& [tenant, held] : held_) {
    if (!held.silent.empty()) tenants.insert(tenant);
  }
  for (const LedgerRegion& region : others) {
    for (const NamespaceReport& each : region.namespaces) {
      tenants.insert({.workspace = each.workspace, .ns = each.ns});
    }
  }
  regions_.wider.clear();
  for (const Tenant& tenant : tenants) {
    const auto held = held_.find(tenant);
    const HeldCauses& causes = held == held_.end() ? rest_held_ : held->second;
    const Unpublished sum = sum_of(others, [&](const LedgerRegion& region) {
      return unpublished_of(causes, region, region.unpublished_in(tenant.workspace, tenant.ns));
    });
    if (sum != regions_.unpublished) regions_.wider[tenant] = sum;
  }
  keep_widest(regions_);
}

void RegionSync::clean(Instant now) {
  (void)cleaning_.give_up_late_call(now.mono);
  if (!global_->cleans || !cleaning_.is_due(now.mono) || !global_->ledger->reachable()) return;
  cleaning_.next = now.mono + kCleanEvery;
  global_->ledger->clean(
      kCleanRows, cleaning_.call<LedgerCleaning>(
                      now.mono, [this](Instant when, const Result<LedgerCleaning>& cleaning) {
                        if (!cleaning) return;
                        deleted_ += cleaning->deleted;
                        // There may be more.
                        if (cleaning->deleted >= kCleanRows) cleaning_.next = when.mono;
                      }));
}

void RegionSync::update_stats(Instant now) {
  stats_updated_ = now.mono;
  const Nanos quiet = now.mono - imported_at_;
  const Nanos most = std::max<Nanos>(kBehindAfter, 3 * Nanos(regions_.rules.import_every));
  const Nanos unwritten = write_lag(now);
  global_->behind.store(quiet > most || unwritten > kUnwrittenAfter, std::memory_order_relaxed);

  const BridgePublisher::Stats& published = publisher_.stats();
  const BridgeImporter::Stats& imported = importer_.stats();
  const PublishTrigger::Waiting& waiting = trigger_.waiting(now);
  const auto rows = [&](PublishReason reason) {
    return published.rows[static_cast<size_t>(reason)];
  };
  SyncStats stats{.presence = rows(PublishReason::kPresence),
                  .contended = rows(PublishReason::kContended),
                  .exhaustion = rows(PublishReason::kExhaustion),
                  .roll_over = rows(PublishReason::kRollOver),
                  .publish_errors = published.errors,
                  .dropped = published.dropped,
                  .left_out = trigger_.skipped().cells,
                  .waiting = std::max<uint64_t>(waiting.cells, publisher_.waiting()),
                  .publish_lag = std::max(waiting.longest, publisher_.lag(now.mono)),
                  .imported = imported.read,
                  .applied = rows_applied_,
                  .import_errors = imported.errors + heartbeat_errors_,
                  .last_import = imported.last_read,
                  .invalid = imported.invalid,
                  .no_room = imported.no_room,
                  .messages_missed = messages_missed_,
                  .lost = imported.lost,
                  .import_lag = quiet,
                  .write_lag = unwritten > kUnwrittenAfter ? unwritten : Nanos(0),
                  .full_read_age = now.mono - std::max(started_, imported.full_read_ended),
                  .full_read_took = imported.full_read_took,
                  .full_reads = imported.full_reads,
                  .deleted = deleted_,
                  .regions = regions_.count,
                  .budget_used = publisher_.budget().used(),
                  .rules_differ = regions_.count > 0 && regions_.rules != configured_rules_,
                  .ready = regions_.complete,
                  .bridge = is_bridge(now)};
  update_bounds(now, stats);
  {
    const base::MutexLock lock(global_->shared.mutex());
    stats.keys = global_->shared.size();
  }
  const base::MutexLock lock(stats_mutex_);
  stats_ = stats;
}

// For how long the ledger has accepted neither a heartbeat nor a row of the bridge, since this
// process is the bridge. Rows alone may fail, too. Another process cannot tell.
Nanos RegionSync::write_lag(Instant now) const {
  if (!is_bridge(now)) return Nanos(0);
  const MonoTime accepted = std::max({not_bridge_at_, fleet_updated_, publisher_.written_at()});
  const MonoTime failing = publisher_.failing_since().value_or(now.mono);
  return std::max(now.mono - accepted, now.mono - failing);
}

// Whether the windows of tuples for which there was no memory may not be over, or ended less than
// that ago.
bool RegionSync::skipped_live(Instant now, Nanos after) const {
  const PublishTrigger::Skipped& skipped = trigger_.skipped();
  return skipped.cells > 0 && now.mono - skipped.at < 2 * Nanos(trigger_.longest_window()) + after;
}

// Whether this process has heard nothing of the other regions for so long that it may admit what it
// should deny. Shorter gaps are in flight.
bool RegionSync::misses_rows(Instant now) const {
  const Nanos most = kMaxInFlight + Nanos(regions_.rules.import_every);
  return now.mono - imported_at_ > most || now.mono - complete_at_ > most ||
         now.mono - fleet_known_at_ > kSilentAfter;
}

// Whether other regions may have published counts that this process does not know, or may have more
// unpublished than it knows.
bool RegionSync::may_miss_counts(Instant now) const {
  return misses_rows(now) || stale_at_ < tuples_->table.slots() ||
         skipped_live(now, regions_.rules.lease) || importer_.stats().no_room_until > now.wall ||
         tuples_->sketch.live_until() > now.wall;
}

// The most that may be admitted, as a multiple of a limit, plus the counts in flight, where the
// other regions have this much unpublished. If no region knows of another, each region, or each of
// its processes, admits a limit. docs/ledger.md derives the bounds of states.
NamespaceBound RegionSync::bounds(Instant now, const Tenant& tenant, const Unpublished& others,
                                  const HeldCauses& held) const {
  NamespaceBound bound{.workspace = tenant.workspace, .ns = tenant.ns};
  if (!regions_.complete || regions_.count == 0) {
    bound.bound = bound.backlog_bound = bound.log_bound = std::numeric_limits<double>::infinity();
    return bound;
  }
  const double slack = regions_.rules.slack_permille / 1e3;
  const auto diverging =
      static_cast<double>(std::max(diverging_siblings(now), held.diverging.at(now.mono)));
  const double unpublished = static_cast<double>(others.ppm) / 1e6;
  const double alone = static_cast<double>(others.max_ppm) / 1e6;  // what others admit alone
  const bool missed = may_miss_counts(now) || held.missed(now.mono);
  const auto of = [&](double known, double unknown) {
    return missed ? unknown : std::min(known, unknown);
  };
  bound.bound = of(1 + slack + unpublished, std::max(1 + alone, 1 + slack)) + diverging;
  // By allowances a region admits a quarter more. It leaves something unpublished in each of the
  // two usage windows that a burst or a duration touches. A region alone also refills.
  constexpr double kOwn = 1.25;
  const double hidden = 2 * (slack + unpublished);
  bound.backlog_bound =
      of(kOwn + hidden + (kOwn - 1) * std::floor(unpublished), kOwn + (kOwn + 1) * alone) +
      2 * diverging;
  // A ring and a log count the last usage window in full, and the publish rule does not.
  const auto regions = static_cast<double>(regions_.count);
  const double early = std::max(0.0, (regions - 1) * (1 + slack) / regions - slack);
  bound.log_bound = of(kOwn + early + hidden, kOwn + kOwn * alone) + kOwn * diverging;
  return bound;
}

void RegionSync::update_bounds(Instant now, SyncStats& stats) const {
  NamespaceBound rest = bounds(now, {}, regions_.unpublished, rest_held_);
  std::map<Tenant, NamespaceBound> wider;
  const auto add = [&](const Tenant& tenant) {
    const auto others = regions_.wider.find(tenant);
    const auto held = held_.find(tenant);
    wider.try_emplace(
        tenant,
        bounds(now, tenant, others == regions_.wider.end() ? regions_.unpublished : others->second,
               held == held_.end() ? rest_held_ : held->second));
  };
  for (const auto& [tenant, others] : regions_.wider) add(tenant);
  for (const auto& [tenant, held] : held_) add(tenant);
  std::vector<NamespaceBound>& listed = stats.wider_bounds;
  for (auto& [tenant, each] : wider) listed.push_back(std::move(each));
  const auto list_wider = [&] {
    std::erase_if(listed, [&](const NamespaceBound& each) {
      return each.bound <= rest.bound && each.backlog_bound <= rest.backlog_bound &&
             each.log_bound <= rest.log_bound;
    });
  };
  list_wider();
  if (listed.size() > kMaxReportedNamespaces) {
    std::ranges::stable_sort(listed, std::ranges::greater{}, &NamespaceBound::backlog_bound);
    for (size_t i = kMaxReportedNamespaces; i < listed.size(); ++i) {
      rest.bound = std::max(rest.bound, listed[i].bound);
      rest.backlog_bound = std::max(rest.backlog_bound, listed[i].backlog_bound);
      rest.log_bound = std::max(rest.log_bound, listed[i].log_bound);
    }
    listed.resize(kMaxReportedNamespaces);
    list_wider();
  }
  stats.bound = rest.bound;
  stats.backlog_bound = rest.backlog_bound;
  stats.log_bound = rest.log_bound;
}

SyncStats RegionSync::stats() const {
  const base::MutexLock lock(stats_mutex_);
  return stats_;
}

}  // namespace weir::global
