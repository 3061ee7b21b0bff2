#include "sim/stores/watched_ledger.h"

#include <algorithm>

#include "global/ledger_key.h"
#include "memory/tuple_key.h"

namespace weir::sim {

std::string tuple_of(const LedgerKey& key) {
  return memory::TupleKey(global::request_of(key), base::KeyedHash(0)).encoded();
}

CellId cell_of(const LedgerRow& row) {
  return {tuple_of(row.key), row.sequence};
}

void WatchedLedger::register_region(const std::string& region) {
  store_.heartbeat({.region = region}, rules_, [](const auto&) {});
  if (kept_) keep_state();
}

void WatchedLedger::commit(const LedgerUser& by, const Batch& batch, const PublishReply& reply) {
  std::optional<FeedPosition> at;
  store_.publish(batch.region, batch.known, batch.rows, [&](const Result<FeedPosition>& result) {
    if (!result.ok()) return reply(result.error());
    at = *result;
  });
  if (!at) return;
  if (remembers_rows_) count_events(batch);
  FeedPosition& head = heads_[batch.region];
  if (head.epoch != 0 && head.epoch != at->epoch) ++counters_.epochs;
  head = *at;
  if (uint64_t& losing = losing_[batch.region]; losing > 0) {
    --losing;
    store_.drop_batches(batch.region, *at, *at);
    ++counters_.feed_gaps;
  }
  if (remembers_rows_) apply(batch.rows, world_.now().mono);
  if (kept_) keep_state();
  observer_({.by = by, .rows = batch.rows, .at = *at});
  reply(*at);
}

void WatchedLedger::apply(const std::vector<LedgerRow>& rows, MonoTime at) {
  for (const LedgerRow& row : rows) {
    const RowId id{cell_of(row), row.region};
    current_[id] = std::max(current_[id], row.count);
    max_committed_[id] = std::max(max_committed_[id], row.count);
    Lease& lease = leases_[{id.cell.tuple, row.region}];
    if (row.leased_until > lease.until) lease = {.until = row.leased_until, .since = at};
  }
}

void WatchedLedger::count_events(const Batch& batch) {
  const Instant now = world_.now();
  for (const LedgerRow& row : batch.rows) {
    const RowId id{cell_of(row), row.region};
    const std::string& tuple = id.cell.tuple;
    if (current(id) == row.count) ++counters_.repeated;
    const auto lost = lost_.find(id);
    if (lost != lost_.end() && row.count >= lost->second) {
      ++counters_.repaired;
      lost_.erase(lost);
    }
    const WallTime before = leased_until(tuple, row.region);
    if (row.leased_until <= before) continue;
    if (before > WallTime{}) {
      if (!covers(before, row.sequence, row.key.duration)) ++counters_.renewed;
      continue;
    }
    for (auto it = leases_.lower_bound({tuple, {}}); it != leases_.end(); ++it) {
      if (it->first.first != tuple) break;
      if (now.mono - it->second.since <= rules_.publish_every) ++counters_.crossed;
    }
  }
}

void WatchedLedger::keep_states(Millis how_long) {
  kept_ = std::max(how_long, kept_.value_or(how_long));
  keep_state();
}

void WatchedLedger::keep_state() {
  const MonoTime now = world_.now().mono;
  if (!states_.empty() && states_.back().since == now) states_.pop_back();
  states_.push_back({.since = now, .contents = store_.snapshot()});
  while (states_.size() > 1 && states_[1].since <= now - *kept_) states_.pop_front();
}

std::shared_ptr<const WatchedLedger::Snapshot> WatchedLedger::state_at(MonoTime then) const {
  const auto after =
      std::upper_bound(states_.begin(), states_.end(), then,
                       [](MonoTime at, const State& state) { return at < state.since; });
  return after == states_.begin() ? states_.front().contents : (after - 1)->contents;
}

std::shared_ptr<ledgers::MemoryLedger> WatchedLedger::replica_at(MonoTime then) {
  const auto state = state_at(then);
  if (state != replica_state_) {
    replica_ = std::make_shared<ledgers::MemoryLedger>(clock_);
    replica_->restore(*state);
    replica_state_ = state;
  }
  return replica_;
}

void WatchedLedger::fail_over(MonoTime as_of, Millis skew) {
  store_.restore(*state_at(as_of));
  clock_.set_skew(skew);
  if (!remembers_rows_) return keep_state();
  const auto had = std::exchange(current_, {});
  const auto leased = std::exchange(leases_, {});
  for (const LedgerRow& row : store_.contents()) {
    const RowId id{cell_of(row), row.region};
    current_[id] = row.count;
    Lease& lease = leases_[{id.cell.tuple, row.region}];
    if (row.leased_until <= lease.until) continue;
    const auto before = leased.find({id.cell.tuple, row.region});
    lease = {.until = row.leased_until,
             .since = before == leased.end() ? as_of : before->second.since};
  }
  for (const auto& [id, count] : had) {
    if (current(id) >= count) continue;
    lost_[id] = count;
    ++counters_.lost;
  }
  keep_state();
}

WallTime WatchedLedger::leased_until(const std::string& tuple, const std::string& region) const {
  const auto found = leases_.find({tuple, region});
  return found == leases_.end() ? WallTime{} : found->second.until;
}

}  // namespace weir::sim
