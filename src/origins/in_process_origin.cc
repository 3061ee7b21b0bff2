#include "origins/in_process_origin.h"

#include <algorithm>
#include <utility>

#include "base/mutation.h"
#include "base/wide.h"

namespace weir::origins {

CellTotals InProcessOrigin::totals(const CellId& cell, const Component& mine) const {
  CellTotals totals;
  const auto found = cells_.find(cell);
  if (found == cells_.end()) return totals;
  for (const auto& [component, count] : found->second.components) {
    Count& part = component == mine ? totals.mine : totals.siblings;
    part = base::saturating_add(part, count);
  }
  totals.published = found->second.published;
  return totals;
}

InProcessOrigin::Cell& InProcessOrigin::find_or_create(const CellId& id, WallTime expires_at) {
  const auto [cell, created] = cells_.try_emplace(id);
  if (created) by_expiry_.emplace(expires_at, id);
  return cell->second;
}

void InProcessOrigin::delete_expired(WallTime now) {
  while (!by_expiry_.empty() && by_expiry_.begin()->first <= now) {
    cells_.erase(by_expiry_.begin()->second);
    by_expiry_.erase(by_expiry_.begin());
  }
}

void InProcessOrigin::read(std::vector<CellRead> cells, OriginReply reply) {
  std::vector<CellTotals> answer;
  {
    const std::lock_guard lock(mutex_);
    delete_expired(clock_.now().wall);
    for (const CellRead& read : cells) answer.push_back(totals(read.cell, read.reader));
  }
  reply(std::move(answer));
}

void InProcessOrigin::replay(std::vector<CellReplay> cells, OriginReply reply) {
  std::vector<CellTotals> answer;
  {
    const std::lock_guard lock(mutex_);
    const WallTime now = clock_.now().wall;
    delete_expired(now);
    for (const CellReplay& replay : cells) {
      // A late replay of an expired cell changes nothing.
      if (replay.expires_at > now && replay.total > 0) {
        Count& component = find_or_create(replay.cell, replay.expires_at).components[replay.writer];
        component = std::max(component, replay.total);
      }
      CellTotals current = totals(replay.cell, replay.writer);
      // An expired cell counts as acknowledged.
      if (replay.expires_at <= now) current.mine = replay.total;
      answer.push_back(current);
    }
  }
  reply(std::move(answer));
}

void InProcessOrigin::retire(std::vector<CellRetirement> cells, RetirementReply reply) {
  size_t retired = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const CellRetirement& retirement : cells) {
      const auto cell = cells_.find(retirement.cell);
      if (cell == cells_.end()) continue;
      const auto part = cell->second.components.extract(retirement.writer);
      if (part.empty()) continue;
      Count& departed = cell->second.components[kDeparted];
      const bool lost = base::mutated(base::Mutation::kFoldLost);
      departed = base::saturating_add(departed, lost ? 0 : part.mapped());
      ++retired;
    }
  }
  reply(retired);
}

void InProcessOrigin::note_published(std::vector<CellPublished> cells) {
  const std::lock_guard lock(mutex_);
  const WallTime now = clock_.now().wall;
  delete_expired(now);
  for (const CellPublished& cell : cells) {
    if (cell.expires_at <= now || cell.total == 0) continue;
    Count& published = find_or_create(cell.cell, cell.expires_at).published;
    published = std::max(published, cell.total);
  }
}

void InProcessOrigin::clear() {
  const std::lock_guard lock(mutex_);
  cells_.clear();
  by_expiry_.clear();
}

InProcessOrigin::Snapshot InProcessOrigin::snapshot() const {
  const std::lock_guard lock(mutex_);
  Snapshot snapshot;
  snapshot.cells_ = cells_;
  snapshot.by_expiry_ = by_expiry_;
  return snapshot;
}

void InProcessOrigin::restore(Snapshot snapshot) {
  const std::lock_guard lock(mutex_);
  cells_ = std::move(snapshot.cells_);
  by_expiry_ = std::move(snapshot.by_expiry_);
}

std::map<Component, Count> InProcessOrigin::components(const CellId& cell) const {
  const std::lock_guard lock(mutex_);
  const auto found = cells_.find(cell);
  return found == cells_.end() ? std::map<Component, Count>{} : found->second.components;
}

}  // namespace weir::origins

namespace weir {

std::shared_ptr<RegionalOrigin> make_in_process_origin(const Clock& clock) {
  return std::make_shared<origins::InProcessOrigin>(clock);
}

}  // namespace weir
