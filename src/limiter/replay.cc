#include "limiter/replay.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/mutex.h"
#include "base/wide.h"
#include "limiter/told.h"

namespace weir::limiter {

using memory::mutated;
using memory::Mutation;
using memory::Tagged;
using memory::Tuple;
using memory::WindowCells;

namespace {

// A tuple that was far from being due may become so in a burst.
constexpr Nanos kLongestUnseen = Millis(50);

}  // namespace

// One cell on its way; the generation says whether the place still is the same tuple's.
struct Replay::Sent {
  uint32_t index = 0;
  uint64_t generation = 0;
  int64_t sequence = 0;
  Count total = 0;
  bool current = false;  // the window at the time of sending; only its read-back is news
  Extent extent = Extent::kBoth;
};

struct Replay::Batch {
  Instant began{};
  uint64_t epoch = 0;
  std::vector<Sent> sent;
  std::vector<CellReplay> cells;  // moved out when sent
  bool tells = false;             // something, and does not only read
  base::Atomic<bool> answered{false};
};

WorkReport Replay::run_once(Instant now, Executor& timers, Flush flush) {
  const base::MutexLock lock(mutex_);
  now = latest_ = std::max(now, latest_, [](Instant a, Instant b) { return a.mono < b.mono; });
  WorkReport report;
  if (!accepts_writes(store_->origin->reach())) return wait(now);
  list_all_again(now.wall);
  choose_due_after(now.mono);
  auto batch = std::make_shared<Batch>();
  size_t tuples = 0;
  take_dirty(now);
  for (Pending& pending : std::exchange(pending_, {})) {
    const bool room =
        in_flight_.load(std::memory_order_relaxed) + batch->sent.size() < kMostInFlight;
    if (!room || (flush == Flush::kDue && !due(now, pending))) {
      pending_.push_back(pending);
      ++report.waiting;
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
  note_waiting(now);
  if (again_at_ < store_->table.slots()) ++report.waiting;
  return report;
}

// Nothing is sent in vain: the counts stay where they are until there is someone to tell.
WorkReport Replay::wait(Instant now) {
  take_dirty(now);
  note_waiting(now);
  return {.waiting = pending_.size()};
}

void Replay::take_dirty(Instant now) {
  // Acquire: what failed is listed before it is no longer in flight.
  const bool idle = in_flight_.load(std::memory_order_acquire) == 0;
  for (const uint32_t index : store_->dirty.take_all()) {
    pending_.push_back({.index = index, .since = now.mono});
  }
  // Nothing is left to tell: what failed is over, or was forgotten.
  if (idle && pending_.empty()) store_->failing_since.store(0, std::memory_order_relaxed);
}

// They wait in the order in which they came.
void Replay::note_waiting(Instant now) {
  waiting_.store(pending_.size(), std::memory_order_relaxed);
  const Nanos lag = pending_.empty() ? Nanos(0) : now.mono - pending_.front().since;
  const auto failing_since = store_->tells_fail_since();
  const Nanos failing = failing_since ? now.mono - *failing_since : Nanos(0);
  store_->replay_lag.store(std::max(lag, failing).count(), std::memory_order_relaxed);
}

// An origin that forgot everything does not say so: what it acknowledged means nothing any more.
// What this process accepted is in its cells, so all of them are told again, a few at a time:
// what is accepted meanwhile must not wait behind them, nor the origin choke on them.
void Replay::list_all_again(WallTime now) {
  constexpr size_t kSlotsAtATime = 16'384;
  constexpr size_t kTuplesAtATime = 256;
  if (const uint64_t epoch = store_->origin->epoch(); epoch != epoch_) {
    epoch_ = epoch;
    again_at_ = 0;
  }
  size_t listed = 0;
  for (size_t i = 0;
       i < kSlotsAtATime && listed < kTuplesAtATime && again_at_ < store_->table.slots() &&
       in_flight_.load(std::memory_order_relaxed) < kMostInFlight / 2;
       ++i, ++again_at_) {
    const auto index = static_cast<uint32_t>(again_at_);
    const epoch::Guard guard;
    const Tuple tuple = store_->table.at(index);
    if (!tuple || tuple.slot->header.cell_class() != memory::CellClass::kWindow) continue;
    const WindowCells cells(tuple);
    const int64_t newest = cells.newest();
    const auto matters = [&](int64_t sequence) {
      return WallTime((sequence + 2) * tuple.slot->header.duration()) > now;
    };
    // A window that is over was told when it mattered.
    if (!matters(newest)) continue;
    (void)heal_acked(cells, newest, 0);
    if (matters(newest - 1)) (void)heal_acked(cells, newest - 1, 0);
    store_->make_dirty(tuple);
    ++listed;
  }
}

// What need not be told at once is told together with what comes due a little later: a few long
// messages cost less than many short ones.
void Replay::choose_due_after(MonoTime now) {
  const Nanos together = Nanos(store_->replay_within) / 4;
  due_after_ = store_->replay_within;
  if (now - acked_together_ < together) return;
  acked_together_ = now;
  due_after_ -= together;
}

// At once if it is much of what remains, so that all together cannot use the rest twice
// before they hear of each other; else after a while, with what came meanwhile.
bool Replay::due(Instant now, Pending& pending) const {
  if (now.mono - pending.since >= due_after_) return true;
  if (now.mono < pending.look_again) return false;
  const WindowCells cells(store_->table.slot_at(pending.index));
  const auto as_found = [&] {
    return pending.generation != 0 && cells.generation() == pending.generation &&
           cells.newest() == pending.sequence &&
           cells.others(pending.sequence).load(std::memory_order_relaxed) == pending.others;
  };
  if (!as_found()) {
    const epoch::Guard guard;
    const Tuple found = store_->table.at(pending.index);
    if (!found || found.slot->header.cell_class() != memory::CellClass::kWindow) return true;
    look_at(now, found, pending);
  }
  const Count own = memory::count_in(cells.own(pending.sequence), pending.sequence);
  if (own >= pending.due_at) return true;
  const auto passed = static_cast<uint64_t>((now.mono - pending.looked).count());
  const Count grown = std::max<Count>(1, base::saturating_sub(own, pending.own));
  const uint64_t until_due = base::mul_div(pending.due_at - own, passed, 4 * grown);
  pending.own = own;
  pending.looked = now.mono;
  pending.look_again =
      now.mono + Nanos(static_cast<int64_t>(std::min<uint64_t>(until_due, kLongestUnseen.count())));
  return false;
}

// Due is an own count with own - told >= remaining / 2n, where remaining is what is left now
// less what own grows by: so own >= (2n told + own now + remaining now) / (2n + 1).
void Replay::look_at(Instant now, const Tuple& tuple, Pending& pending) const {
  const WindowCells cells(tuple);
  if (pending.generation == 0) pending.looked = now.mono;
  pending.generation = cells.generation();
  pending.sequence = cells.newest();
  pending.others = cells.others(pending.sequence).load(std::memory_order_relaxed);
  const Count own = memory::count_in(cells.own(pending.sequence), pending.sequence);
  const Count acked =
      std::min(own, memory::count_in(cells.acked(pending.sequence), pending.sequence));
  const uint64_t parts = uint64_t{2} * store_->origin->live_nodes();
  const Count sum = parts * acked + own + memory::remaining_of(tuple, now.wall);
  pending.due_at = std::max(acked + 1, base::ceil_div(sum, parts + 1));
}

// False: batches kept changing the count; it stays dirty for the next round.
bool Replay::collect(Instant now, uint32_t index, Batch& batch) const {
  const epoch::Guard guard;
  const Tuple tuple = store_->table.at(index);
  if (!tuple || tuple.slot->header.cell_class() != memory::CellClass::kWindow) return true;
  const WindowCells cells(tuple);
  // Clean first, then read: an admission from here on makes it dirty again.
  if (!mutated(Mutation::kMarkedCleanLast)) cells.mark_clean();
  const int64_t newest = cells.newest();
  for (const int64_t sequence : {newest, newest - 1}) {
    const auto own = memory::settled(cells.own(sequence), cells.tentative());
    if (!own) {
      store_->make_dirty(tuple);
      return false;
    }
  }
  // The last window is read along, lest what is said of it late be missed; now and then is
  // enough.
  const bool last_too = !knows_last_window(tuple, newest, now, store_->max_freshness) ||
                        cells.has_unacked(newest - 1);
  collect_cell(now.wall, tuple, newest, last_too ? Extent::kBoth : Extent::kCurrent, batch);
  if (last_too) collect_cell(now.wall, tuple, newest - 1, Extent::kBoth, batch);
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
    // Of a window that can matter to nobody any more. What was not told of it is counted,
    // once, and dropped.
    const Count known = acked.tag() == own->tag() ? acked.count() : 0;
    if (own->count() > known) {
      store_->stats.add(Stat::kLateReplays);
      cells.acked(sequence).store(own->word & ~memory::kClosedBit, std::memory_order_release);
    }
    if (expires_at <= now) return;
  }
  const Count total = own->count_of(sequence);
  batch.tells = batch.tells || total > 0;
  batch.sent.push_back(
      {.index = tuple.index,
       .generation = cells.generation(),
       .sequence = sequence,
       .total = total,
       .current = algorithms::position_of(now, header.duration()).sequence == sequence,
       .extent = extent});
  batch.cells.push_back({.cell = {memory::encode_key(header, tuple.slot->key_words()), sequence},
                         .writer = store_->component(cells.generation()),
                         .total = total,
                         .expires_at = expires_at});
}

void Replay::send(Instant now, const std::shared_ptr<Batch>& batch, Executor& timers) {
  if (batch->sent.empty()) return;
  batch->began = now;
  batch->epoch = epoch_;
  in_flight_.fetch_add(batch->sent.size(), std::memory_order_relaxed);
  timers.post_at(now.mono + store_->read_deadline, [self = shared_from_this(), batch] {
    if (!batch->answered.exchange(true)) self->fail(*batch);
  });
  // Weak: an origin that never answers must not keep its user alive.
  store_->origin->replay(std::move(batch->cells), [weak = weak_from_this(), batch](auto totals) {
    const auto self = weak.lock();
    if (!self) return;
    const bool late = batch->answered.exchange(true);
    if (totals && totals->size() == batch->sent.size()) {
      self->land(*batch, totals);
      if (!late) self->in_flight_.fetch_sub(batch->sent.size(), std::memory_order_relaxed);
    } else if (!late) {
      self->fail(*batch);
    }
  });
}

void Replay::fail(const Batch& batch) {
  store_->stats.add(Stat::kReplayErrors);
  if (batch.tells) note_failing(batch);
  mark_again(batch);
  in_flight_.fetch_sub(batch.sent.size(), std::memory_order_release);
}

void Replay::note_failing(const Batch& batch) {
  int64_t none = 0;
  store_->failing_since.compare_exchange_strong(none, batch.began.mono.time_since_epoch().count(),
                                                std::memory_order_relaxed);
}

void Replay::land(const Batch& batch, const Result<std::vector<CellTotals>>& totals) {
  store_->stats.add(Stat::kReplayed, batch.sent.size());
  // An origin that refuses writes still answers reads.
  if (batch.tells) store_->failing_since.store(0, std::memory_order_relaxed);
  // From the end: of a tuple the last window comes before this one, which makes it fresh.
  for (size_t i = batch.sent.size(); i-- > 0;) {
    const Sent& sent = batch.sent[i];
    const CellTotals& received = (*totals)[i];
    const epoch::Guard guard;
    const Tuple tuple = store_->table.at(sent.index);
    if (!tuple || tuple.slot->header.cell_class() != memory::CellClass::kWindow) continue;
    const WindowCells cells(tuple);
    if (cells.generation() != sent.generation) continue;
    const Count known = memory::count_in(cells.siblings(sent.sequence), sent.sequence);
    // What an origin said that may have been replaced since proves nothing.
    if (batch.epoch == store_->origin->epoch()) {
      note_acked(cells, sent.sequence, std::min(sent.total, received.mine));
    }
    if (!mutated(Mutation::kFreshByAcknowledgement) &&
        cells.raise_siblings(sent.sequence, received.siblings)) {
      store_->look_after_news(tuple, sent.sequence);
    }
    if (heal_acked(cells, sent.sequence, received.mine) || received.mine < sent.total) {
      store_->stats.add(Stat::kHealed);
      store_->make_dirty(tuple);
    }
    if (sent.current) {
      const Millis longest =
          longest_while_failing(store_->tells_fail_since(), batch.began.mono,
                                tuple.slot->header.duration(), store_->max_freshness);
      note_read(tuple, sent.sequence, batch.began, sent.extent, known, longest);
    }
  }
}

void Replay::mark_again(const Batch& batch) {
  for (const Sent& sent : batch.sent) {
    const epoch::Guard guard;
    const Tuple tuple = store_->table.at(sent.index);
    if (!tuple || tuple.slot->header.cell_class() != memory::CellClass::kWindow) continue;
    if (WindowCells(tuple).generation() == sent.generation) store_->make_dirty(tuple);
  }
}

WorkReport Replay::leave(Instant now) {
  const base::MutexLock lock(mutex_);
  WorkReport report;
  std::vector<CellRetirement> cells;
  if (std::exchange(left_, true)) return {.waiting = leaving_.load(std::memory_order_relaxed)};
  store_->table.for_each([&](const Tuple& tuple) {
    if (tuple.slot->header.cell_class() != memory::CellClass::kWindow) return;
    const WindowCells window(tuple);
    const int64_t newest = window.newest();
    for (const int64_t sequence : {newest, newest - 1}) {
      const Tagged acked{window.acked(sequence).load(std::memory_order_acquire)};
      const WallTime expires_at((sequence + 2) * tuple.slot->header.duration());
      if (acked.count_of(sequence) == 0 || expires_at <= now.wall) continue;
      cells.push_back(
          {.cell = {memory::encode_key(tuple.slot->header, tuple.slot->key_words()), sequence},
           .writer = store_->component(window.generation())});
    }
    if (cells.size() < 2 * kBatchTuples) return;
    report.done += cells.size();
    retire(std::exchange(cells, {}));
  });
  report.done += cells.size();
  retire(std::move(cells));
  report.waiting = leaving_.load(std::memory_order_relaxed);
  return report;
}

void Replay::retire(std::vector<CellRetirement> cells) {
  const size_t count = cells.size();
  if (count == 0) return;
  leaving_.fetch_add(count, std::memory_order_relaxed);
  store_->origin->retire(std::move(cells), [weak = weak_from_this(), count](auto retired) {
    const auto self = weak.lock();
    if (self && retired) self->leaving_.fetch_sub(count, std::memory_order_relaxed);
  });
}

}  // namespace weir::limiter
