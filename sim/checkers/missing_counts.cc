#include "sim/checkers/missing_counts.h"

#include <algorithm>

#include "memory/tuple_key.h"

namespace weir::sim {

Millis duration_of(const CellId& cell) {
  memory::KeyHeader header;
  std::copy_n(cell.tuple.data(), sizeof header.word, reinterpret_cast<char*>(&header.word));
  return header.duration();
}

WallTime expiry_of(const CellId& cell) {
  return WallTime((cell.sequence + 2) * duration_of(cell));
}

bool is_live_at(const CellId& cell, WallTime now) {
  return now < expiry_of(cell);
}

bool had_wrong_clock(const ProcessInfo& process, const CellId& cell) {
  if (process.wrong_clock_until == WallTime{}) return false;
  // No simulation lasts that long, so a wrong clock showed such a window.
  constexpr Millis kFarAhead{1'800'000};
  const WallTime start(cell.sequence * duration_of(cell));
  return start - duration_of(cell) < process.wrong_clock_until ||
         start - kFarAhead > process.wrong_clock_until;
}

bool any_had_wrong_clock(const Oracle& oracle, const CellId& cell) {
  const auto& contributors = oracle.contributors(cell);
  return std::any_of(contributors.begin(), contributors.end(), [&](const auto& contributor) {
    return had_wrong_clock(oracle.process(contributor.first.process), cell);
  });
}

bool is_unrecoverable(const RegionView& view, const Contributor& contributor, const CellId& cell) {
  const ProcessInfo& process = view.oracle.process(contributor.process);
  // Generation 0: the tuple was evicted before the request was answered.
  if (process.ended || contributor.generation == 0) return true;
  const NodeView& node = view.nodes.at(static_cast<size_t>(process.node));
  return node.generation_of(cell.tuple) != contributor.generation;
}

const std::vector<ComponentValue>& history_of(const RegionView& view,
                                              const Contributor& contributor, const CellId& cell) {
  return view.origin.component_history(
      cell, {.incarnation = view.oracle.process(contributor.process).incarnation,
             .generation = contributor.generation});
}

Count unanswered_grants(const Oracle& oracle, const OriginHistory& origin, const CellId& cell) {
  const Count granted = origin.granted(cell);
  return granted - std::min(granted, oracle.accepted_by_origin(cell));
}

MissingCounts missing_counts(const RegionView& view, const CellId& cell) {
  MissingCounts missing;
  for (const auto& [contributor, accepted] : view.oracle.contributors(cell)) {
    if (!is_unrecoverable(view, contributor, cell)) continue;
    // A step told the origin of it; in which component is unknown.
    if (contributor.generation == 0) {
      missing.lost_with_origin += accepted;
      continue;
    }
    Count most = 0;
    Count last = 0;
    for (const ComponentValue& entry : history_of(view, contributor, cell)) {
      most = std::max(most, entry.count);
      last = entry.count;
    }
    // A step may have granted more than was accepted.
    most = std::min(most, accepted);
    missing.died_unacked += accepted - most;
    missing.lost_with_origin += most - std::min(most, last);
  }
  return missing;
}

Count lost_at_origin(const RegionView& view, const CellId& cell) {
  Count lost = 0;
  for (const auto& [contributor, accepted] : view.oracle.contributors(cell)) {
    // In which component it was is unknown.
    if (contributor.generation == 0 && view.origin.has_lost(cell)) lost += accepted;
    Count before = 0;
    for (const ComponentValue& entry : history_of(view, contributor, cell)) {
      lost += before - std::min(before, entry.count);
      before = entry.count;
    }
  }
  return lost;
}

namespace {

// Whether an accept that did not arrive before `until` was excused then.
bool excused_until(const RegionView& view, const ProcessInfo& process, const CellId& cell,
                   const Accept& accept, MonoTime until) {
  if (had_wrong_clock(process, cell)) return true;
  const MonoTime at = process.ended ? std::min(until, process.ended->mono) : until;
  const Nanos arrives_within = view.guarantees.acked_within + process.most_delay;
  if (at - accept.when <= arrives_within) return true;
  const MonoTime recent = at - view.guarantees.read_deadline - arrives_within;
  return process.was_disrupted(std::max(accept.when, recent), at);
}

}  // namespace

ReplayStatus replay_status(const RegionView& view, const CellId& cell, const Accept& accept,
                           MonoTime since) {
  const ProcessInfo& process = view.oracle.process(accept.contributor.process);
  if (accept.contributor.generation == 0) {
    const bool excused =
        accept.when >= since || view.origin.has_lost(cell) || had_wrong_clock(process, cell);
    return excused ? ReplayStatus::kExcused : ReplayStatus::kPresent;
  }
  ReplayStatus status = ReplayStatus::kPresent;
  // Each period in which the accept was missing, also the one before the first write.
  const auto refresh_views = [&](const ComponentValue& entry, MonoTime until) {
    if (entry.count >= accept.total || until < since) return;
    const bool excused =
        entry.max_before >= accept.total || excused_until(view, process, cell, accept, until);
    status = excused && status != ReplayStatus::kOverdue ? ReplayStatus::kExcused
                                                         : ReplayStatus::kOverdue;
  };
  ComponentValue entry{.since = accept.when};
  for (const ComponentValue& next : history_of(view, accept.contributor, cell)) {
    refresh_views(entry, next.since);
    entry = next;
  }
  refresh_views(entry, view.now.mono);
  return status;
}

}  // namespace weir::sim
