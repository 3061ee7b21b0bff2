#include "origins/in_process_state.h"

#include <algorithm>
#include <utility>

#include "base/mutation.h"
#include "base/wide.h"
#include "origins/step_rule.h"

namespace weir::origins {

void InProcessState::delete_expired(WallTime now) {
  while (!cells_by_expiry_.empty() && cells_by_expiry_.begin()->first <= now) {
    for (const CellId& cell : cells_by_expiry_.begin()->second) erase_cell(cell);
    cells_by_expiry_.erase(cells_by_expiry_.begin());
  }
  exact.delete_expired(now);
  while (!regions_by_expiry_.empty() && regions_by_expiry_.begin()->first <= now) {
    const auto entries = regions_by_expiry_.extract(regions_by_expiry_.begin());
    for (std::string& name : entries.mapped()) {
      const auto found = tuples_.find(name);
      if (found == tuples_.end() || !found->second.has_regions()) continue;
      Tuple& tuple = found->second;
      if (*tuple.regions_kept_until > now) {
        regions_by_expiry_[*tuple.regions_kept_until].push_back(std::move(name));
        continue;
      }
      forget_regions(tuple);
      if (tuple.is_empty()) tuples_.erase(found);
    }
  }
}

const InProcessState::Tuple* InProcessState::find(const std::string& tuple) const {
  const auto found = tuples_.find(tuple);
  return found == tuples_.end() ? nullptr : &found->second;
}

const InProcessState::Cell* InProcessState::find(const CellId& cell) const {
  const Tuple* const tuple = find(cell.tuple);
  return tuple == nullptr ? nullptr : tuple->cells.find(cell.sequence);
}

void InProcessState::erase_cell(const CellId& cell) {
  const auto found = tuples_.find(cell.tuple);
  if (found == tuples_.end()) return;
  found->second.cells.erase(cell.sequence);
  if (found->second.is_empty()) tuples_.erase(found);
}

void InProcessState::forget_regions(Tuple& tuple) {
  tuple.regions = {};
  tuple.regions_kept_until.reset();
  --with_regions_;
}

CellTotals InProcessState::totals(const Tuple& tuple, int64_t sequence, const Component& mine) {
  CellTotals totals;
  const Cell* const found = tuple.cells.find(sequence);
  if (found == nullptr) return totals;
  totals.refused = found->refused;
  for (const auto& [component, part] : found->parts) {
    Count& sum = component == mine ? totals.mine : totals.siblings;
    sum = base::saturating_add(sum, part.total);
  }
  return totals;
}

CellTotals InProcessState::totals(const CellId& cell, const Component& mine) const {
  const Tuple* const tuple = find(cell.tuple);
  return tuple == nullptr ? CellTotals{} : totals(*tuple, cell.sequence, mine);
}

void InProcessState::replay(const CellReplay& replay, WallTime now) {
  if (replay.expires_at <= now) return;
  const Part part{.total = replay.total, .limit_seen = replay.limit_seen};
  if (!part.is_empty()) {
    raise(open(tuples_[replay.cell.tuple], replay.cell, replay.expires_at), replay.writer, part);
  }
  if (replay.due != Due::kNever) {
    due.add(due_entry(replay.cell, replay.expires_at, replay.due, now));
  }
}

StepTotals InProcessState::step(const CellStep& step, WallTime now) {
  const auto found = tuples_.try_emplace(step.cell.tuple).first;
  Tuple& tuple = found->second;
  StepTotals result{.current = totals(tuple, step.cell.sequence, step.writer),
                    .last = totals(tuple, step.cell.sequence - 1, step.writer),
                    .granted = {}};
  StepGrant grant = origins::grant(step, result.current, result.last);
  // An expired cell counts as written.
  if (step.expires_at > now) {
    const Part part{.total = grant.total, .limit_seen = step.limit_seen};
    if (!part.is_empty() || grant.refused) {
      Cell& cell = open(tuple, step.cell, step.expires_at);
      if (!part.is_empty()) raise(cell, step.writer, part);
      cell.refused = cell.refused || grant.refused;
    }
    if (step.due != Due::kNever) due.add(due_entry(step.cell, step.expires_at, step.due, now));
    result.current = totals(tuple, step.cell.sequence, step.writer);
  } else {
    result.current.mine = std::max(result.current.mine, grant.total);
  }
  if (step.with_regions) {
    result.current.regions = std::make_shared<const std::vector<RegionCount>>(tuple.regions.list());
  }
  result.granted = std::move(grant.granted);
  if (tuple.is_empty()) tuples_.erase(found);
  return result;
}

InProcessState::Cell& InProcessState::open(Tuple& tuple, const CellId& cell, WallTime expires_at) {
  const auto [found, created] = tuple.cells.obtain(cell.sequence);
  if (created) cells_by_expiry_[expires_at].push_back(cell);
  return found;
}

void InProcessState::raise(Cell& cell, const Component& writer, const Part& by) {
  Part& part = cell.parts[writer];
  part.total = std::max(part.total, by.total);
  part.limit_seen = smaller_limit(part.limit_seen, by.limit_seen);
}

bool InProcessState::retire(const CellRetirement& retirement) {
  Cell* const cell = const_cast<Cell*>(find(retirement.cell));
  if (cell == nullptr) return false;
  const Part* const found = cell->parts.find(retirement.writer);
  if (found == nullptr) return false;
  const Part part = *found;
  cell->parts.erase(retirement.writer);
  Part& departed = cell->parts[kDeparted];
  const bool lost = base::mutated(base::Mutation::kFoldLost);
  departed.total = base::saturating_add(departed.total, lost ? 0 : part.total);
  departed.limit_seen = smaller_limit(departed.limit_seen, part.limit_seen);
  return true;
}

std::map<Component, Count> InProcessState::components(const CellId& cell) const {
  std::map<Component, Count> totals;
  const Cell* const found = find(cell);
  if (found == nullptr) return totals;
  for (const auto& [component, part] : found->parts) totals.emplace(component, part.total);
  return totals;
}

std::vector<RegionCount> InProcessState::regions(const std::string& tuple) const {
  const Tuple* const found = find(tuple);
  return found == nullptr ? std::vector<RegionCount>{} : found->regions.list();
}

TupleCounts InProcessState::tuple(const std::string& name,
                                  const std::vector<int64_t>& sequences) const {
  TupleCounts counts;
  const Tuple* const tuple = find(name);
  if (tuple != nullptr) counts.regions = tuple->regions.list();
  counts.windows.reserve(sequences.size());
  for (const int64_t sequence : sequences) {
    TupleCounts::Window& window = counts.windows.emplace_back();
    window.sequence = sequence;
    const Cell* const cell = tuple == nullptr ? nullptr : tuple->cells.find(sequence);
    if (cell == nullptr) continue;
    for (const auto& [component, part] : cell->parts) {
      window.total = base::saturating_add(window.total, part.total);
      window.limit_seen = smaller_limit(window.limit_seen, part.limit_seen);
    }
  }
  return counts;
}

bool InProcessState::update(const TupleUpdate& update, WallTime now, size_t max_tuples) {
  if (update.kept_until <= now || update.counts.empty()) return true;
  // A tuple with cells is used here, and bounded by the memory of its processes.
  const bool is_full = max_tuples > 0 && with_regions_ >= max_tuples;
  if (is_full && find(update.tuple) == nullptr) return false;
  Tuple& tuple = tuples_[update.tuple];
  if (!tuple.has_regions()) {
    ++with_regions_;
    tuple.regions_kept_until = update.kept_until;
    regions_by_expiry_[update.kept_until].push_back(update.tuple);
  }
  tuple.regions_kept_until = std::max(*tuple.regions_kept_until, update.kept_until);
  for (const RegionCount& count : update.counts) tuple.regions.merge(count);
  return true;
}

void InProcessState::raise_departed(const std::string& tuple, const CellFloor& floor,
                                    WallTime now) {
  if (floor.expires_at <= now || floor.total == 0) return;
  const CellId id{tuple, floor.sequence};
  Count written = 0;
  for (const auto& [component, total] : components(id)) {
    if (is_written_again(component, floor)) written = base::saturating_add(written, total);
  }
  if (written >= floor.total) return;
  replay({.cell = id,
          .writer = kDeparted,
          .total = floor.total - written,
          .expires_at = floor.expires_at},
         now);
}

void InProcessState::evict(const std::string& tuple) {
  exact.erase(tuple);
  const auto found = tuples_.find(tuple);
  if (found == tuples_.end()) return;
  evicted_ += found->second.cells.size();
  if (found->second.has_regions()) {
    ++evicted_;
    forget_regions(found->second);
  }
  tuples_.erase(found);
}

void InProcessState::keep_record(std::string record, WallTime at) {
  records_.emplace(at, std::move(record));
  records_.erase(records_.begin(), records_.lower_bound(at - kRecordsKept));
}

std::vector<std::string> InProcessState::records() const {
  std::vector<std::string> records;
  for (const auto& [at, record] : records_) records.push_back(record);
  return records;
}

BridgeGrant InProcessState::acquire(const std::string& holder, Millis lease, Instant now) {
  const bool ours = holder_.empty() || leased_until_ <= now.mono || holder_ == holder;
  if (ours) {
    holder_ = holder;
    leased_until_ = now.mono + lease;
  }
  return {.ours = ours, .state = bridge_state_, .evicted = evicted_, .now = now.wall};
}

void InProcessState::release(const std::string& holder) {
  if (holder_ == holder) holder_.clear();
}

bool InProcessState::save(const std::string& holder, const std::string& before, std::string state,
                          MonoTime now) {
  if (holder_ != holder || leased_until_ <= now || bridge_state_ != before) return false;
  bridge_state_ = std::move(state);
  return true;
}

}  // namespace weir::origins
