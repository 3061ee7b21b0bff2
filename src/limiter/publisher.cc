#include "limiter/publisher.h"

#include <algorithm>
#include <string>
#include <utility>

namespace weir::limiter {

using memory::mutated;
using memory::Mutation;

struct Publisher::Sent {
  RemoteEntry* entry = nullptr;
  int64_t sequence = 0;
  Count count = 0;
  Count limit = 0;
  Publish rule = Publish::kNothing;
  MonoTime since{};
  bool refused = false;  // what it tells was reason to refuse
};

struct Publisher::Chunk {
  Instant began{};
  std::vector<Sent> rows;
  bool over = false;  // failed, or given up
};

void Publisher::publish(Instant now, Flush flush) {
  for (const auto& chunk : chunks_) {
    if (now.mono - chunk->began.mono >= kDeadline && !chunk->over) fail(now, *chunk, Blame::kNoRow);
  }
  std::erase_if(chunks_, [](const auto& chunk) { return chunk->over; });
  if (waiting() == 0) failing_since_.reset();
  // Where less may be hidden again, what was little enough may be so no more.
  if (budget_.relent(now.mono)) trigger_.look_at_all();
  drop_beyond(now, kMostQueued);
  if (!store_->ledger->reachable() || now.mono < held_off_until_) return;

  budget_.refill(now.mono, rows_per_second());
  std::vector<std::shared_ptr<Chunk>> chunks;
  std::vector<std::shared_ptr<Chunk>> alone;  // rows that were held before: the others go first
  for (const PublishQueue::Candidate& candidate : queue_.choose(now, flush)) {
    if (in_flight_ >= kMostInFlight) break;
    // It may have changed while it waited; at the end that does not matter.
    if (flush == Flush::kDue) trigger_.look_at(now, *candidate.entry);
    const base::MutexLock lock(store_->remote.mutex());
    const RemoteCell& cell = *candidate.cell;
    if (cell.pending.rule == Publish::kNothing || cell.sent > 0) continue;
    const auto held = held_.find({candidate.entry->tuple, cell.sequence});
    if (held != held_.end() && now.mono < held->second) continue;
    if (flush == Flush::kDue && !budget_.take()) break;
    if (held != held_.end()) {
      take(candidate, *alone.emplace_back(std::make_shared<Chunk>()));
      continue;
    }
    if (chunks.empty() || chunks.back()->rows.size() == kChunkRows) {
      chunks.push_back(std::make_shared<Chunk>());
    }
    take(candidate, *chunks.back());
  }
  queue_.tidy();
  for (const auto& chunk : chunks) send(now, chunk);
  for (const auto& chunk : alone) send(now, chunk);
  // Of rows that are not owed any more.
  std::erase_if(held_, [&](const auto& each) { return now.mono - each.second > kDeadline * 2; });
}

void Publisher::take(const PublishQueue::Candidate& candidate, Chunk& chunk) {
  RemoteCell& cell = *candidate.cell;
  if (mutated(Mutation::kPublishedBeforeCommit)) cell.published = cell.counted;
  if (mutated(Mutation::kVerdictPublished) && cell.refused) cell.counted = cell.limit;
  chunk.rows.push_back({.entry = candidate.entry,
                        .sequence = cell.sequence,
                        .count = cell.counted,
                        .limit = cell.limit == 0 ? static_cast<Count>(kMaxLimit) : cell.limit,
                        .rule = cell.pending.rule,
                        .since = cell.pending.since,
                        .refused = std::exchange(cell.refused, false)});
  cell.sent = cell.counted;
  cell.pending = {};
  ++candidate.entry->under_way;
  ++in_flight_;
}

// A flood of tuples that are full, say, or a ledger that is away: those that came last are left
// out for a while.
void Publisher::drop_beyond(Instant now, size_t most) {
  constexpr Millis kLater{1000};
  while (queue_.size() > most) {
    trigger_.look_again_at(queue_.drop_last(), now.mono + kLater);
    ++stats_.left_out;
    left_out_at_ = now.mono;
  }
}

double Publisher::rows_per_second() const {
  const uint32_t nodes = store_->origin ? std::max(1U, store_->origin->live_nodes()) : 1;
  return static_cast<double>(regions_.rules.rows_per_second) / nodes;
}

void Publisher::send(Instant now, const std::shared_ptr<Chunk>& chunk) {
  chunk->began = now;
  chunks_.push_back(chunk);
  LedgerNews news;
  for (const Sent& sent : chunk->rows) {
    const LedgerKey key = ledger_key_of(sent.entry->tuple);
    news.rows.push_back({.key = key,
                         .sequence = sent.sequence,
                         .region = store_->remote.region(),
                         .count = sent.count,
                         .limit_seen = sent.limit});
    if (sent.rule != Publish::kPresence) continue;
    news.presences.push_back(
        {.key = key, .region = store_->remote.region(), .until = now.wall + regions_.rules.lease});
  }
  store_->ledger->publish(std::move(news), [this, box = std::weak_ptr(completions_),
                                            chunk](const Result<size_t>& result) {
    const auto completions = box.lock();
    if (!completions) return;
    Blame blame = Blame::kNoRow;
    if (!result && result.error().retry == Retry::kPointless) {
      blame = Blame::kBadRow;
    } else if (!result && result.error().field == "rows") {
      blame = Blame::kHeldRow;
    }
    completions->put([this, chunk, ok = result.ok(), blame](Instant when) {
      if (ok) {
        commit(when, *chunk);
      } else if (!chunk->over) {
        fail(when, *chunk, blame);
      }
    });
  });
}

// An answer that comes after it was given up is as if it were lost: sending again is free.
void Publisher::commit(Instant now, Chunk& chunk) {
  if (std::exchange(chunk.over, true)) return;
  queue_.note_took(now.mono - chunk.began.mono);
  failing_since_.reset();
  written_at_ = std::max(written_at_, chunk.began.mono);
  std::vector<CellPublished> words;
  for (const Sent& sent : chunk.rows) {
    RemoteEntry& entry = *sent.entry;
    {
      const base::MutexLock lock(store_->remote.mutex());
      land(sent);
      if (RemoteCell* const cell = entry.find(sent.sequence)) {
        cell->published = std::max(cell->published, sent.count);
        cell->published_at = chunk.began.mono;
        cell->acked_full = cell->acked_full || sent.refused;
      }
      if (sent.rule == Publish::kPresence) hold_lease(entry, chunk.began);
      held_.erase({entry.tuple, sent.sequence});
      ++stats_.rows[static_cast<size_t>(sent.rule)];
      words.push_back({.cell = {entry.tuple, sent.sequence},
                       .total = sent.count,
                       .expires_at = WallTime((sent.sequence + 2) * entry.duration())});
    }
    trigger_.look_at(now, entry);
  }
  if (store_->origin) store_->origin->note_published(std::move(words));
}

void Publisher::hold_lease(RemoteEntry& entry, Instant began) const {
  const Lease lease = lease_of(began, began.wall + regions_.rules.lease, regions_.rules);
  if (!entry.lease.holds(began) || lease.until > entry.lease.until) entry.lease = lease;
  entry.lease.taken_at = began.mono;
}

void Publisher::land(const Sent& sent) {
  --sent.entry->under_way;
  --in_flight_;
  if (RemoteCell* const cell = sent.entry->find(sent.sequence)) cell->sent = 0;
}

// One of its rows is to blame: it is found by halves, and the others are not held up by it.
void Publisher::send_halves(Instant now, const Chunk& chunk) {
  const auto middle = chunk.rows.begin() + static_cast<std::ptrdiff_t>(chunk.rows.size() / 2);
  auto first = std::make_shared<Chunk>();
  auto second = std::make_shared<Chunk>();
  first->rows.assign(chunk.rows.begin(), middle);
  second->rows.assign(middle, chunk.rows.end());
  send(now, first);
  send(now, second);
}

void Publisher::hold(Instant now, const CellId& row) {
  held_[row] = now.mono + kHeldPause;
  if (held_.size() > kMostHeld) held_off_until_ = now.mono + kHeldPause;
}

void Publisher::fail(Instant now, Chunk& chunk, Blame blame) {
  chunk.over = true;
  ++stats_.errors;
  if (blame != Blame::kBadRow && !failing_since_) failing_since_ = chunk.began.mono;
  const bool alone = chunk.rows.size() == 1;
  const bool is_bad = blame == Blame::kBadRow && alone;
  if (blame == Blame::kBadRow && !alone) return send_halves(now, chunk);
  if (blame == Blame::kHeldRow) {
    if (!alone && held_.size() <= kMostHeld) return send_halves(now, chunk);
    for (const Sent& sent : chunk.rows) {
      if (held_.size() <= kMostHeld) hold(now, {sent.entry->tuple, sent.sequence});
    }
  }
  for (const Sent& sent : chunk.rows) {
    const std::string tuple = sent.entry->tuple;  // the entry may be forgotten below
    {
      const base::MutexLock lock(store_->remote.mutex());
      land(sent);
      if (is_bad) ++stats_.dropped;
      // As if it were written, lest it be sent again and again.
      if (is_bad && sent.rule == Publish::kPresence) hold_lease(*sent.entry, chunk.began);
      if (RemoteCell* const cell = sent.entry->find(sent.sequence)) {
        const bool refused = sent.refused && !mutated(Mutation::kFailedRefusalForgotten);
        cell->refused = cell->refused || refused;
        if (is_bad) cell->published = std::max(cell->published, sent.count);
      }
    }
    trigger_.look_at(now, *sent.entry);
    const base::MutexLock lock(store_->remote.mutex());
    RemoteEntry* const entry = store_->remote.find({tuple, store_->hash});
    RemoteCell* const cell = entry == nullptr ? nullptr : entry->find(sent.sequence);
    if (is_bad || cell == nullptr) continue;
    // It has been waiting since it was first owed.
    PendingPublish& pending = cell->pending;
    pending.since = std::min(pending.since, sent.since);
  }
}

void Publisher::enqueue_all(Instant now) {
  std::vector<std::string> tuples;
  {
    const base::MutexLock lock(store_->remote.mutex());
    store_->remote.for_each([&](const RemoteEntry& entry) { tuples.push_back(entry.tuple); });
  }
  for (const std::string& tuple : tuples) {
    const auto find = [&] {
      const base::MutexLock lock(store_->remote.mutex());
      return store_->remote.find({tuple, store_->hash});
    };
    if (RemoteEntry* const entry = find()) trigger_.look_at(now, *entry);
    RemoteEntry* const entry = find();
    if (entry == nullptr) continue;
    const base::MutexLock lock(store_->remote.mutex());
    entry->each_cell([&](RemoteCell& cell) {
      if (cell.counted > cell.acked()) queue_.enqueue(now, *entry, cell, Publish::kExhaustion);
    });
  }
}

Nanos Publisher::lag(MonoTime now) const {
  MonoTime first = queue_.waiting_since(now);
  for (const auto& chunk : chunks_) {
    if (chunk->over) continue;
    for (const Sent& sent : chunk->rows) first = std::min(first, sent.since);
  }
  return now - first;
}

}  // namespace weir::limiter
