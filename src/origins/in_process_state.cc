#include "origins/in_process_state.h"

#include <algorithm>
#include <utility>

#include "base/mutation.h"
#include "base/wide.h"
#include "origins/step_rule.h"

namespace weir::origins {

void InProcessState::delete_expired(WallTime now) {
  while (!cells_by_expiry_.empty() && cells_by_expiry_.begin()->first <= now) {
    erase(cells_by_expiry_.begin()->second);
    cells_by_expiry_.erase(cells_by_expiry_.begin());
  }
  exact.delete_expired(now);
  while (!tuples_by_expiry_.empty() && tuples_by_expiry_.begin()->first <= now) {
    const auto entry = tuples_by_expiry_.extract(tuples_by_expiry_.begin());
    const auto found = tuples_.find(entry.mapped());
    if (found == tuples_.end()) continue;
    if (found->second.kept_until <= now) {
      tuples_.erase(found);
    } else {
      tuples_by_expiry_.emplace(found->second.kept_until, entry.mapped());
    }
  }
}

const InProcessState::Cell* InProcessState::find(const CellId& cell) const {
  const auto cells = cells_.find(cell.tuple);
  if (cells == cells_.end()) return nullptr;
  const auto found = cells->second.find(cell.sequence);
  return found == cells->second.end() ? nullptr : &found->second;
}

void InProcessState::erase(const CellId& cell) {
  const auto cells = cells_.find(cell.tuple);
  if (cells == cells_.end()) return;
  cells->second.erase(cell.sequence);
  if (cells->second.empty()) cells_.erase(cells);
}

CellTotals InProcessState::totals(const CellId& cell, const Component& mine) const {
  CellTotals totals;
  const Cell* const found = find(cell);
  if (found == nullptr) return totals;
  totals.refused = found->refused;
  for (const auto& [component, part] : found->parts) {
    Count& sum = component == mine ? totals.mine : totals.siblings;
    sum = base::saturating_add(sum, part.total);
  }
  return totals;
}

void InProcessState::replay(const CellReplay& replay, WallTime now) {
  if (replay.expires_at <= now) return;
  if (replay.total > 0 || replay.limit_seen > 0) {
    Part& part = open(replay.cell, replay.expires_at).parts[replay.writer];
    part.total = std::max(part.total, replay.total);
    part.limit_seen = smaller_limit(part.limit_seen, replay.limit_seen);
  }
  if (replay.due != Due::kNever) due.add(due_entry(replay, now));
}

StepTotals InProcessState::step(const CellStep& step, WallTime now) {
  const CellId last{step.cell.tuple, step.cell.sequence - 1};
  StepTotals result{
      .current = totals(step.cell, step.writer), .last = totals(last, step.writer), .granted = {}};
  StepGrant grant = origins::grant(step, result.current, result.last);
  // An expired cell counts as written.
  if (step.expires_at > now) {
    replay({.cell = step.cell,
            .writer = step.writer,
            .total = grant.total,
            .expires_at = step.expires_at,
            .limit_seen = step.limit_seen,
            .due = step.due},
           now);
    if (grant.refused) open(step.cell, step.expires_at).refused = true;
    result.current = totals(step.cell, step.writer);
  } else {
    result.current.mine = std::max(result.current.mine, grant.total);
  }
  if (step.with_regions) {
    result.current.regions =
        std::make_shared<const std::vector<RegionCount>>(regions(step.cell.tuple));
  }
  result.granted = std::move(grant.granted);
  return result;
}

InProcessState::Cell& InProcessState::open(const CellId& cell, WallTime expires_at) {
  const auto [found, created] = cells_[cell.tuple].try_emplace(cell.sequence);
  if (created) cells_by_expiry_.emplace(expires_at, cell);
  return found->second;
}

bool InProcessState::retire(const CellRetirement& retirement) {
  Cell* const cell = const_cast<Cell*>(find(retirement.cell));
  if (cell == nullptr) return false;
  const auto part = cell->parts.extract(retirement.writer);
  if (part.empty()) return false;
  Part& departed = cell->parts[kDeparted];
  const bool lost = base::mutated(base::Mutation::kFoldLost);
  departed.total = base::saturating_add(departed.total, lost ? 0 : part.mapped().total);
  departed.limit_seen = smaller_limit(departed.limit_seen, part.mapped().limit_seen);
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
  const auto found = tuples_.find(tuple);
  return found == tuples_.end() ? std::vector<RegionCount>{} : found->second.counts.list();
}

TupleCounts InProcessState::tuple(const std::string& tuple,
                                  const std::vector<int64_t>& sequences) const {
  TupleCounts counts{.windows = {}, .regions = regions(tuple)};
  const auto cells = cells_.find(tuple);
  counts.windows.reserve(sequences.size());
  for (const int64_t sequence : sequences) {
    TupleCounts::Window& window = counts.windows.emplace_back();
    window.sequence = sequence;
    if (cells == cells_.end()) continue;
    const auto cell = cells->second.find(sequence);
    if (cell == cells->second.end()) continue;
    for (const auto& [component, part] : cell->second.parts) {
      window.total = base::saturating_add(window.total, part.total);
      window.limit_seen = smaller_limit(window.limit_seen, part.limit_seen);
    }
  }
  return counts;
}

bool InProcessState::has_cells(const std::string& tuple) const {
  return cells_.contains(tuple);
}

bool InProcessState::update(const TupleUpdate& update, WallTime now, size_t max_tuples) {
  if (update.kept_until <= now || update.counts.empty()) return true;
  auto found = tuples_.find(update.tuple);
  if (found == tuples_.end()) {
    // A tuple with cells is used here, and bounded by the memory of its processes.
    if (max_tuples > 0 && tuples_.size() >= max_tuples && !has_cells(update.tuple)) return false;
    found = tuples_.emplace(update.tuple, Tuple{}).first;
    tuples_by_expiry_.emplace(update.kept_until, update.tuple);
  }
  Tuple& tuple = found->second;
  tuple.kept_until = std::max(tuple.kept_until, update.kept_until);
  for (const RegionCount& count : update.counts) tuple.counts.merge(count);
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
  evicted_ += tuples_.erase(tuple);
  exact.erase(tuple);
  const auto cells = cells_.find(tuple);
  if (cells == cells_.end()) return;
  evicted_ += cells->second.size();
  cells_.erase(cells);
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

bool InProcessState::save(const std::string& holder, std::string state, MonoTime now) {
  if (holder_ != holder || leased_until_ <= now) return false;
  bridge_state_ = std::move(state);
  return true;
}

}  // namespace weir::origins
