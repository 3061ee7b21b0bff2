#include "regional/replay.h"

#include <algorithm>
#include <atomic>
#include <tuple>
#include <utility>

#include "base/mutex.h"
#include "base/wide.h"

namespace weir::regional {

using memory::mutated;
using memory::Mutation;
using memory::Tagged;
using memory::Tuple;
using memory::WindowCells;
using telemetry::Stat;

namespace {

// A tuple that was far from due may become due in a burst.
constexpr Nanos kMaxCheckPause = Millis(50);

// The order of cells, whatever makes them due.
bool is_before(const DueCell& a, const DueCell& b) {
  return std::tie(a.index, a.generation, a.sequence) < std::tie(b.index, b.generation, b.sequence);
}
bool is_more_urgent(const DueCell& a, const DueCell& b) {
  return a.due < b.due;
}

bool is_window(const Tuple& tuple) {
  return tuple && tuple.slot->header.cell_class() == memory::CellClass::kWindow;
}

}  // namespace

// One cell in flight. The generation tells whether the slot still holds the same tuple.
struct Replay::Sent {
  uint32_t index = 0;
  uint64_t generation = 0;
  int64_t sequence = 0;
  Count own = 0;
  Count total = 0;       // as sent
  bool current = false;  // the current window when sent: only its read-back makes a tuple fresh
  Extent extent = Extent::kBoth;
  Due due = Due::kNever;

  // Whether it is the window before, of the same tuple.
  [[nodiscard]] bool is_last_of(const Sent& newer) const {
    return index == newer.index && generation == newer.generation && sequence == newer.sequence - 1;
  }
};

struct Replay::Batch {
  Instant began{};
  uint64_t epoch = 0;
  std::vector<Sent> sent;
  std::vector<CellReplay> cells;  // moved out when sent
  bool writes = false;            // some total is above 0; else the message only reads
  base::Atomic<bool> answered{false};
};

WorkReport Replay::run_once(Instant now, Executor& timers, Flush flush) {
  const base::MutexLock lock(mutex_);
  now = latest_ = std::max(now, latest_, [](Instant a, Instant b) { return a.mono < b.mono; });
  WorkReport report;
  if (const auto membership = region_->origin->membership()) {
    region_->allowance.update(*membership, now.mono, region_->max_freshness);
  }
  if (!accepts_writes(region_->origin->reach())) return wait(now);
  requeue_all_after_loss(now);
  choose_due_after(now.mono);
  report.done += send_due(now, timers);
  note_unanswered_due();
  auto batch = std::make_shared<Batch>();
  size_t tuples = 0;
  std::vector<uint32_t> tells;
  take_dirty(now);
  std::vector<Pending> all = std::exchange(pending_, {});
  for (size_t i = 0; i < all.size(); ++i) {
    constexpr size_t kAhead = 8;
    if (i + kAhead < all.size()) tuples_->table.prefetch_at(all[i + kAhead].index);
    Pending& pending = all[i];
    const size_t telling = tells.size() + (steps_ == nullptr ? 0 : steps_->reports_in_flight());
    const bool has_capacity =
        in_flight_.load(std::memory_order_relaxed) + batch->sent.size() + telling < kMaxInFlight;
    if (!has_capacity || (flush == Flush::kDue && !is_due(now, pending))) {
      pending_.push_back(pending);
      ++report.waiting;
      continue;
    }
    if (pending.exact) {
      tells.push_back(pending.index);
      continue;
    }
    if (!collect(now, pending.index, *batch)) {
      ++report.waiting;
      continue;
    }
    if (++tuples % kBatchTuples == 0) {
      report.done += batch->sent.size();
      send(now, batch, timers);
      batch = std::make_shared<Batch>();
    }
  }
  report.done += batch->sent.size();
  send(now, batch, timers);
  if (!tells.empty() && steps_ != nullptr) {
    // A tuple that was busy and is dirty again is listed twice.
    std::sort(tells.begin(), tells.end());
    tells.erase(std::unique(tells.begin(), tells.end()), tells.end());
    const std::vector<uint32_t> busy = steps_->report(now, tells, timers);
    for (const uint32_t index : busy) {
      pending_.push_back({.index = index, .since = now.mono, .exact = true});
    }
    report.done += tells.size() - busy.size();
    report.waiting += busy.size();
  }
  update_lag(now);
  if (requeue_at_ < tuples_->table.slots()) ++report.waiting;
  return report;
}

// Cells that the bridge must publish go out at once: their counts in the same message as the
// request to publish them.
size_t Replay::send_due(Instant now, Executor& timers) {
  size_t sent = 0;
  auto batch = std::make_shared<Batch>();
  for (const DueCell& cell : region_->take_due()) {
    const epoch::Guard guard;
    const Tuple tuple = tuples_->table.at(cell.index);
    // A tuple that was evicted since will be evaluated by the bridge.
    if (!is_window(tuple) || WindowCells(tuple).generation() != cell.generation) continue;
    const size_t before = batch->cells.size();
    collect_cell(now.wall, tuple, cell.sequence, Extent::kCurrent, *batch);
    if (batch->cells.size() > before) {
      batch->cells.back().due = cell.due;
      batch->sent.back().due = cell.due;
    }
    if (batch->cells.size() < kBatchTuples) continue;
    sent += batch->sent.size();
    due_batches_.push_back(batch);
    send(now, std::exchange(batch, std::make_shared<Batch>()), timers);
  }
  if (batch->sent.empty()) return sent;
  sent += batch->sent.size();
  due_batches_.push_back(batch);
  send(now, batch, timers);
  return sent;
}

// A message may bring the count of a due cell to the origin while the one that made it due is lost,
// and this process may end before it notices: so each message makes the cell due until one is
// answered.
void Replay::note_unanswered_due() {
  std::erase_if(due_batches_,
                [](const auto& batch) { return batch->answered.load(std::memory_order_relaxed); });
  unanswered_due_.clear();
  for (const auto& batch : due_batches_) {
    for (const Sent& sent : batch->sent) {
      if (sent.due == Due::kNever) continue;
      unanswered_due_.push_back({.index = sent.index,
                                 .generation = sent.generation,
                                 .sequence = sent.sequence,
                                 .due = sent.due});
    }
  }
  std::sort(unanswered_due_.begin(), unanswered_due_.end(), is_before);
}

Due Replay::unanswered_due(const DueCell& cell) const {
  const auto [first, last] =
      std::equal_range(unanswered_due_.begin(), unanswered_due_.end(), cell, is_before);
  return first == last ? Due::kNever : std::min_element(first, last, is_more_urgent)->due;
}

// The origin accepts no writes: the counts stay in their cells until it does.
WorkReport Replay::wait(Instant now) {
  take_dirty(now);
  update_lag(now);
  return {.waiting = pending_.size()};
}

void Replay::take_dirty(Instant now) {
  // Acquire: a failed batch marks its tuples dirty before it leaves writing_.
  const bool writes = writing_.load(std::memory_order_acquire) > 0;
  for (const uint32_t index : region_->pending_replay.take_all()) {
    const epoch::Guard guard;
    const Tuple tuple = tuples_->table.at(index);
    pending_.push_back({.index = index, .since = now.mono, .exact = tuple && !is_window(tuple)});
  }
  // Nothing is left to write: the failed counts expired or were evicted. Messages that only read
  // may follow each other without a pause.
  if (!writes && region_->replay_failing_since() && !has_unwritten()) {
    region_->failing_since.store(0, std::memory_order_relaxed);
  }
}

// Whether a pending tuple has counts that the origin has not acknowledged.
bool Replay::has_unwritten() const {
  return std::any_of(pending_.begin(), pending_.end(), [&](const Pending& pending) {
    const epoch::Guard guard;
    const Tuple tuple = tuples_->table.at(pending.index);
    if (!is_window(tuple)) return false;
    const WindowCells cells(tuple);
    return cells.has_unacked(cells.newest()) || cells.has_unacked(cells.newest() - 1);
  });
}

// pending_ is in the order of arrival.
void Replay::update_lag(Instant now) {
  waiting_.store(pending_.size(), std::memory_order_relaxed);
  const Nanos lag = pending_.empty() ? Nanos(0) : now.mono - pending_.front().since;
  const auto failing_since = region_->replay_failing_since();
  const Nanos failing = failing_since ? now.mono - *failing_since : Nanos(0);
  region_->replay_lag.store(std::max(lag, failing).count(), std::memory_order_relaxed);
}

// An origin that lost its data has a new epoch, and its former acknowledgements mean nothing. The
// cells still hold all that this process accepted, so all of them are replayed, a few per run: new
// counts must not wait behind them, and the origin must not be overloaded.
void Replay::requeue_all_after_loss(Instant now) {
  constexpr size_t kSlotsAtATime = 16'384;
  constexpr size_t kTuplesAtATime = 256;
  if (const uint64_t epoch = region_->origin->epoch(); epoch != epoch_) {
    epoch_ = epoch;
    requeue_at_ = 0;
  }
  size_t queued = 0;
  for (size_t i = 0;
       i < kSlotsAtATime && queued < kTuplesAtATime && requeue_at_ < tuples_->table.slots() &&
       in_flight_.load(std::memory_order_relaxed) < kMaxInFlight / 2;
       ++i, ++requeue_at_) {
    const auto index = static_cast<uint32_t>(requeue_at_);
    const epoch::Guard guard;
    const Tuple tuple = tuples_->table.at(index);
    if (!is_window(tuple)) continue;
    const WindowCells cells(tuple);
    const int64_t newest = cells.newest();
    const auto matters = [&](int64_t sequence) {
      return WallTime((sequence + 2) * tuple.slot->header.duration()) > now.wall;
    };
    // An expired window was replayed while it mattered.
    if (!matters(newest)) continue;
    (void)merger_->lower_acked(tuple, newest, 0, now.mono);
    if (matters(newest - 1)) (void)merger_->lower_acked(tuple, newest - 1, 0, now.mono);
    region_->mark_dirty(tuple);
    ++queued;
  }
}

// A tuple that is not due at once is sent together with those that are due a little later: a few
// long messages cost less than many short ones.
void Replay::choose_due_after(MonoTime now) {
  const Nanos group_within = Nanos(region_->replay_within) / 4;
  due_after_ = region_->replay_within;
  if (now - grouped_at_ < group_within) return;
  grouped_at_ = now;
  due_after_ -= group_within;
}

// A tuple is due at once if its unacknowledged count is a large part of the remaining limit, so
// that the nodes cannot use the remainder twice before they know of each other. Otherwise it is due
// after a while, together with later charges.
bool Replay::is_due(Instant now, Pending& pending) const {
  if (now.mono - pending.since >= due_after_) return true;
  if (pending.exact) return is_half_used(pending.index);
  if (now.mono < pending.next_check) return false;
  const WindowCells cells(tuples_->table.slot_at(pending.index));
  const auto is_unchanged = [&] {
    return pending.generation != 0 && cells.generation() == pending.generation &&
           cells.newest() == pending.sequence &&
           cells.others(pending.sequence).load(std::memory_order_relaxed) == pending.others;
  };
  if (!is_unchanged()) {
    const epoch::Guard guard;
    const Tuple found = tuples_->table.at(pending.index);
    if (!is_window(found)) return true;
    check(now, found, pending);
  }
  const Count own = memory::count_in(cells.own(pending.sequence), pending.sequence);
  if (own >= pending.due_at) return true;
  const auto passed = static_cast<uint64_t>((now.mono - pending.last_check).count());
  const Count grown = std::max<Count>(1, base::saturating_sub(own, pending.own));
  const uint64_t until_due = base::mul_div(pending.due_at - own, passed, 4 * grown);
  pending.own = own;
  pending.last_check = now.mono;
  pending.next_check =
      now.mono + Nanos(static_cast<int64_t>(std::min<uint64_t>(until_due, kMaxCheckPause.count())));
  return false;
}

// The same of a tuple whose whole state the origin keeps.
bool Replay::is_half_used(uint32_t index) const {
  const epoch::Guard guard;
  const Tuple tuple = tuples_->table.at(index);
  if (!tuple || is_window(tuple)) return true;
  const memory::ExactUse use(tuple);
  const memory::ExactUse::Known known = use.known();
  const Count left = base::saturating_sub(known.capacity, known.used);
  const uint64_t parts = std::max(region_->allowance.last().parts, kAllowanceParts);
  return use.unreported() >= std::max<Count>(1, left / (2 * parts));
}

// The tuple is due when this process has admitted half of its allowance beyond what it told: so the
// next read arrives before the allowance ends, and steady requests do not wait.
void Replay::check(Instant now, const Tuple& tuple, Pending& pending) const {
  const WindowCells cells(tuple);
  if (pending.generation == 0) pending.last_check = now.mono;
  pending.generation = cells.generation();
  pending.sequence = cells.newest();
  pending.others = cells.others(pending.sequence).load(std::memory_order_relaxed);
  const Count own = memory::count_in(cells.own(pending.sequence), pending.sequence);
  const Count acked =
      std::min(own, memory::count_in(cells.acked(pending.sequence), pending.sequence));
  const uint64_t heard = region_->allowance.last().parts;
  const uint64_t parts = heard > 0 ? heard : kAllowanceParts * region_->origin->live_nodes();
  const Count left = memory::remaining_of(tuple, now.wall) + own - acked;
  pending.due_at = acked + std::max<Count>(1, left / (2 * parts));
}

// False: batches kept changing the count; the tuple stays dirty for the next run.
bool Replay::collect(Instant now, uint32_t index, Batch& batch) const {
  const epoch::Guard guard;
  const Tuple tuple = tuples_->table.at(index);
  if (!is_window(tuple)) return true;
  const WindowCells cells(tuple);
  // Mark clean before reading the counts: a later admission marks the tuple dirty again.
  if (!mutated(Mutation::kMarkedCleanLast)) cells.mark_clean();
  const int64_t newest = cells.newest();
  for (const int64_t sequence : {newest, newest - 1}) {
    const auto own = memory::settled(cells.own(sequence), cells.tentative());
    if (!own) {
      region_->mark_dirty(tuple);
      return false;
    }
  }
  // The message also reads the last window now and then, to see counts that siblings replayed late.
  const bool with_last = !knows_last_window(tuple, newest, now, region_->max_freshness) ||
                         cells.has_unacked(newest - 1);
  collect_cell(now.wall, tuple, newest, with_last ? Extent::kBoth : Extent::kCurrent, batch);
  if (with_last) collect_cell(now.wall, tuple, newest - 1, Extent::kBoth, batch);
  if (mutated(Mutation::kMarkedCleanLast)) cells.mark_clean();
  return true;
}

void Replay::collect_cell(WallTime now, const Tuple& tuple, int64_t sequence, Extent extent,
                          Batch& batch) const {
  const WindowCells cells(tuple);
  const auto own = memory::settled(cells.own(sequence), cells.tentative());
  if (!own) return;
  if (own->word != 0 && own->ahead_of(sequence) > 0) return;
  const Tagged acked{cells.acked(sequence).load(std::memory_order_acquire)};
  const memory::KeyHeader header = tuple.slot->header;
  const WallTime expires_at((sequence + 2) * header.duration());
  if (!own->is_of(sequence) || expires_at <= now) {
    // The window expired. Its unacknowledged count is reported once as a late replay and dropped. A
    // step may have been granted something in the new window already.
    const Count known = acked.tag() == own->tag() ? acked.count() : 0;
    const bool of_newer_window = !own->is_of(sequence) && acked.is_of(sequence);
    if (own->count() > known && !of_newer_window) {
      counters_->add(Stat::kLateReplays);
      cells.acked(sequence).store(own->word & ~memory::kClosedBit, std::memory_order_release);
    }
    if (expires_at <= now) return;
  }
  // Not less than a step granted: the next step will grant that again.
  Count total = own->count_of(sequence);
  const Count granted = acked.count_of(sequence);
  if (granted > total && !mutated(Mutation::kReplayLowersGrant)) total = granted;
  // A count that may change the answer of the publish rule, and that was not evaluated yet. The
  // bridge evaluates it, even if this process ends or evicts the tuple now.
  const bool unevaluated = region_->reads_regions && sequence == cells.newest() &&
                           cells.watch_seq_cst().reached_by(cells.counted_seq_cst(sequence));
  batch.writes = batch.writes || total > 0;
  batch.sent.push_back(
      {.index = tuple.index,
       .generation = cells.generation(),
       .sequence = sequence,
       .own = own->count_of(sequence),
       .total = total,
       .current = algorithms::position_of(now, header.duration()).sequence == sequence,
       .extent = extent});
  batch.cells.push_back({.cell = {memory::encode_key(header, tuple.slot->key_words()), sequence},
                         .writer = region_->component(cells.generation()),
                         .total = total,
                         .expires_at = expires_at,
                         .limit_seen = region_->reads_regions ? memory::smallest_limit(tuple) : 0,
                         .due = unevaluated ? Due::kRule
                                            : unanswered_due({.index = tuple.index,
                                                              .generation = cells.generation(),
                                                              .sequence = sequence})});
}

void Replay::send(Instant now, const std::shared_ptr<Batch>& batch, Executor& timers) {
  if (batch->sent.empty()) return;
  batch->began = now;
  batch->epoch = epoch_;
  in_flight_.fetch_add(batch->sent.size(), std::memory_order_relaxed);
  if (batch->writes) writing_.fetch_add(1, std::memory_order_relaxed);
  timers.post_at(now.mono + region_->read_deadline, [self = shared_from_this(), batch] {
    if (!batch->answered.exchange(true)) self->fail(*batch);
  });
  // Weak: an origin that never answers must not keep this object alive.
  region_->origin->replay(std::move(batch->cells), [weak = weak_from_this(), batch](auto totals) {
    const auto self = weak.lock();
    if (!self) return;
    const bool late = batch->answered.exchange(true);
    if (totals && totals->size() == batch->sent.size()) {
      self->on_reply(*batch, totals);
      if (!late) self->end(*batch);
    } else if (!late) {
      self->fail(*batch);
    }
  });
}

void Replay::fail(const Batch& batch) {
  counters_->add(Stat::kReplayErrors);
  if (batch.writes) note_failing(batch);
  mark_dirty_again(batch);
  end(batch);
}

void Replay::end(const Batch& batch) {
  if (batch.writes) writing_.fetch_sub(1, std::memory_order_release);
  in_flight_.fetch_sub(batch.sent.size(), std::memory_order_relaxed);
}

void Replay::note_failing(const Batch& batch) {
  int64_t none = 0;
  region_->failing_since.compare_exchange_strong(none, batch.began.mono.time_since_epoch().count(),
                                                 std::memory_order_relaxed);
}

void Replay::on_reply(const Batch& batch, const Result<std::vector<CellTotals>>& totals) {
  counters_->add(Stat::kReplayed, batch.sent.size());
  // An origin that refuses writes still answers reads.
  if (batch.writes) region_->failing_since.store(0, std::memory_order_relaxed);
  const std::vector<Sent>& all = batch.sent;
  for (size_t i = 0; i < all.size(); ++i) {
    const Sent& sent = all[i];
    const CellTotals* const received = &(*totals)[i];
    // Each of two windows that are not current is merged for itself: the older may be the current
    // one, if the clock was set back.
    const bool has_last = sent.current && i + 1 < all.size() && all[i + 1].is_last_of(sent);
    if (has_last) ++i;
    const epoch::Guard guard;
    const Tuple tuple = tuples_->table.at(sent.index);
    if (!is_window(tuple) || WindowCells(tuple).generation() != sent.generation) continue;
    merger_->merge(tuple, {.began = batch.began,
                           .sequence = sent.sequence,
                           .is_now = sent.current,
                           .own = sent.own,
                           .epoch = batch.epoch,
                           .written = sent.total,
                           .written_last = has_last ? all[i].total : 0,
                           .extent = sent.extent,
                           .current = received,
                           .last = has_last ? received + 1 : nullptr});
  }
}

void Replay::mark_dirty_again(const Batch& batch) {
  for (const Sent& sent : batch.sent) {
    const epoch::Guard guard;
    const Tuple tuple = tuples_->table.at(sent.index);
    if (!is_window(tuple)) continue;
    if (WindowCells(tuple).generation() != sent.generation) continue;
    region_->mark_dirty(tuple);
    if (sent.due == Due::kNever) continue;
    region_->add_due({{.index = sent.index,
                       .generation = sent.generation,
                       .sequence = sent.sequence,
                       .due = sent.due}});
  }
}

WorkReport Replay::shut_down(Instant now) {
  const base::MutexLock lock(mutex_);
  WorkReport report;
  std::vector<CellRetirement> cells;
  if (std::exchange(retired_, true)) return {.waiting = retiring_.load(std::memory_order_relaxed)};
  tuples_->table.for_each([&](const Tuple& tuple) {
    if (!is_window(tuple)) return;
    const WindowCells window(tuple);
    const int64_t newest = window.newest();
    for (const int64_t sequence : {newest, newest - 1}) {
      const Tagged acked{window.acked(sequence).load(std::memory_order_acquire)};
      const WallTime expires_at((sequence + 2) * tuple.slot->header.duration());
      if (acked.count_of(sequence) == 0 || expires_at <= now.wall) continue;
      cells.push_back(
          {.cell = {memory::encode_key(tuple.slot->header, tuple.slot->key_words()), sequence},
           .writer = region_->component(window.generation())});
    }
    if (cells.size() < 2 * kBatchTuples) return;
    report.done += cells.size();
    retire(std::exchange(cells, {}));
  });
  report.done += cells.size();
  retire(std::move(cells));
  report.waiting = retiring_.load(std::memory_order_relaxed);
  return report;
}

void Replay::retire(std::vector<CellRetirement> cells) {
  const size_t count = cells.size();
  if (count == 0) return;
  retiring_.fetch_add(count, std::memory_order_relaxed);
  region_->origin->retire(std::move(cells), [weak = weak_from_this(), count](auto retired) {
    const auto self = weak.lock();
    if (self && retired) self->retiring_.fetch_sub(count, std::memory_order_relaxed);
  });
}

}  // namespace weir::regional
