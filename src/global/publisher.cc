#include "global/publisher.h"
#include "base/mutex.h"

#include <algorithm>
#include <string>
#include <utility>

#include "global/ledger_key.h"

namespace weir::global {

using memory::mutated;
using memory::Mutation;

struct Publisher::Sent {
  RemoteEntry* entry = nullptr;
  int64_t sequence = 0;
  Count count = 0;
  Count limit = 0;
  PublishReason reason = PublishReason::kNone;
  MonoTime since{};
  bool refused = false;  // the row also tells of a refusal
};

struct Publisher::Chunk {
  Instant began{};
  std::vector<Sent> rows;
  bool ended = false;  // committed, failed or timed out
};

void Publisher::publish(Instant now, Flush flush) {
  for (const auto& chunk : chunks_) {
    if (now.mono - chunk->began.mono >= kDeadline && !chunk->ended) {
      fail(now, *chunk, Cause::kLedger);
    }
  }
  std::erase_if(chunks_, [](const auto& chunk) { return chunk->ended; });
  if (waiting() == 0) failing_since_.reset();
  // With a smaller allowance, a count that was below it may have reached it.
  if (budget_.halve_idle(now.mono)) trigger_.evaluate_all();
  drop_beyond(now, kMaxQueued);
  if (!ledger_.reachable() || now.mono < paused_until_) return;

  budget_.refill(now.mono, rows_per_second());
  std::vector<std::shared_ptr<Chunk>> chunks;
  std::vector<std::shared_ptr<Chunk>> retries;  // rows that were locked; sent after the others
  for (const PublishQueue::Candidate& candidate : queue_.choose(now, flush)) {
    if (in_flight_ >= kMaxInFlight) break;
    // The cell may have changed since it was queued; at shutdown that does not matter.
    if (flush == Flush::kDue) trigger_.evaluate(now, *candidate.entry);
    const base::MutexLock lock(remote_.mutex());
    const RemoteCell& cell = *candidate.cell;
    if (cell.pending.reason == PublishReason::kNone || cell.sent > 0) continue;
    const auto locked = locked_.find({candidate.entry->tuple, cell.sequence});
    if (locked != locked_.end() && now.mono < locked->second) continue;
    if (flush == Flush::kDue && !budget_.take()) break;
    if (locked != locked_.end()) {
      add_row(candidate, *retries.emplace_back(std::make_shared<Chunk>()));
      continue;
    }
    if (chunks.empty() || chunks.back()->rows.size() == kChunkRows) {
      chunks.push_back(std::make_shared<Chunk>());
    }
    add_row(candidate, *chunks.back());
  }
  queue_.remove_idle();
  for (const auto& chunk : chunks) send(now, chunk);
  for (const auto& chunk : retries) send(now, chunk);
  // Rows that are no longer pending.
  std::erase_if(locked_, [&](const auto& each) { return now.mono - each.second > kDeadline * 2; });
}

void Publisher::add_row(const PublishQueue::Candidate& candidate, Chunk& chunk) {
  RemoteCell& cell = *candidate.cell;
  if (mutated(Mutation::kPublishedBeforeCommit)) cell.published = cell.counted;
  if (mutated(Mutation::kVerdictPublished) && cell.refused) cell.counted = cell.limit;
  chunk.rows.push_back({.entry = candidate.entry,
                        .sequence = cell.sequence,
                        .count = cell.counted,
                        .limit = cell.limit == 0 ? kMaxLimit : cell.limit,
                        .reason = cell.pending.reason,
                        .since = cell.pending.since,
                        .refused = std::exchange(cell.refused, false)});
  cell.sent = cell.counted;
  cell.pending = {};
  ++candidate.entry->in_flight;
  ++in_flight_;
}

// Bounds the queue while many tuples are exhausted or the ledger is unreachable: drops the entries
// that were queued last, and evaluates them again later.
void Publisher::drop_beyond(Instant now, size_t most) {
  constexpr Millis kRetryAfter{1000};
  while (queue_.size() > most) {
    trigger_.schedule(queue_.drop_last(), now.mono + kRetryAfter);
    ++stats_.overflow;
    overflow_at_ = now.mono;
  }
}

double Publisher::rows_per_second() const {
  const uint32_t nodes = region_.origin ? std::max(1U, region_.origin->live_nodes()) : 1;
  return static_cast<double>(regions_.rules.rows_per_second) / nodes;
}

void Publisher::send(Instant now, const std::shared_ptr<Chunk>& chunk) {
  chunk->began = now;
  chunks_.push_back(chunk);
  LedgerNews rows;
  for (const Sent& sent : chunk->rows) {
    const LedgerKey key = ledger_key_of(sent.entry->tuple);
    rows.rows.push_back({.key = key,
                         .sequence = sent.sequence,
                         .region = remote_.region(),
                         .count = sent.count,
                         .limit_seen = sent.limit});
    if (sent.reason != PublishReason::kPresence) continue;
    rows.presences.push_back(
        {.key = key, .region = remote_.region(), .until = now.wall + regions_.rules.lease});
  }
  ledger_.publish(std::move(rows),
                  [this, weak = std::weak_ptr(completions_), chunk](const Result<size_t>& result) {
                    const auto completions = weak.lock();
                    if (!completions) return;
                    Cause cause = Cause::kLedger;
                    if (!result && result.error().retry == Retry::kPointless) {
                      cause = Cause::kRejectedRow;
                    } else if (!result && result.error().field == "rows") {
                      cause = Cause::kLockedRow;
                    }
                    completions->post([this, chunk, ok = result.ok(), cause](Instant when) {
                      if (ok) {
                        commit(when, *chunk);
                      } else if (!chunk->ended) {
                        fail(when, *chunk, cause);
                      }
                    });
                  });
}

// A reply after the deadline counts as lost: the rows were sent again, which is harmless.
void Publisher::commit(Instant now, Chunk& chunk) {
  if (std::exchange(chunk.ended, true)) return;
  queue_.note_latency(now.mono - chunk.began.mono);
  failing_since_.reset();
  written_at_ = std::max(written_at_, chunk.began.mono);
  std::vector<CellPublished> notes;
  for (const Sent& sent : chunk.rows) {
    RemoteEntry& entry = *sent.entry;
    {
      const base::MutexLock lock(remote_.mutex());
      end_flight(sent);
      if (RemoteCell* const cell = entry.find(sent.sequence)) {
        cell->published = std::max(cell->published, sent.count);
        cell->published_at = chunk.began.mono;
        cell->refusal_published = cell->refusal_published || sent.refused;
      }
      if (sent.reason == PublishReason::kPresence) renew_lease(entry, chunk.began);
      locked_.erase({entry.tuple, sent.sequence});
      ++stats_.rows[static_cast<size_t>(sent.reason)];
      notes.push_back({.cell = {entry.tuple, sent.sequence},
                       .total = sent.count,
                       .expires_at = WallTime((sent.sequence + 2) * entry.duration())});
    }
    trigger_.evaluate(now, entry);
  }
  if (region_.origin) region_.origin->note_published(std::move(notes));
}

void Publisher::renew_lease(RemoteEntry& entry, Instant began) const {
  const Lease lease = lease_of(began, began.wall + regions_.rules.lease, regions_.rules);
  if (!entry.lease.holds(began) || lease.until > entry.lease.until) entry.lease = lease;
  entry.lease.taken_at = began.mono;
}

void Publisher::end_flight(const Sent& sent) {
  --sent.entry->in_flight;
  --in_flight_;
  if (RemoteCell* const cell = sent.entry->find(sent.sequence)) cell->sent = 0;
}

// Bisects the chunk to find the row that fails, so that it does not block the others.
void Publisher::send_halves(Instant now, const Chunk& chunk) {
  const auto middle = chunk.rows.begin() + static_cast<std::ptrdiff_t>(chunk.rows.size() / 2);
  auto first = std::make_shared<Chunk>();
  auto second = std::make_shared<Chunk>();
  first->rows.assign(chunk.rows.begin(), middle);
  second->rows.assign(middle, chunk.rows.end());
  send(now, first);
  send(now, second);
}

void Publisher::note_locked(Instant now, const CellId& row) {
  locked_[row] = now.mono + kLockedPause;
  if (locked_.size() > kMaxLocked) paused_until_ = now.mono + kLockedPause;
}

void Publisher::fail(Instant now, Chunk& chunk, Cause cause) {
  chunk.ended = true;
  ++stats_.errors;
  if (cause != Cause::kRejectedRow && !failing_since_) failing_since_ = chunk.began.mono;
  const bool single = chunk.rows.size() == 1;
  const bool rejected = cause == Cause::kRejectedRow && single;
  if (cause == Cause::kRejectedRow && !single) return send_halves(now, chunk);
  if (cause == Cause::kLockedRow) {
    if (!single && locked_.size() <= kMaxLocked) return send_halves(now, chunk);
    for (const Sent& sent : chunk.rows) {
      if (locked_.size() <= kMaxLocked) note_locked(now, {sent.entry->tuple, sent.sequence});
    }
  }
  for (const Sent& sent : chunk.rows) {
    const std::string tuple = sent.entry->tuple;  // evaluate() below may erase the entry
    {
      const base::MutexLock lock(remote_.mutex());
      end_flight(sent);
      if (rejected) ++stats_.dropped;
      // Treated as written, so that it is not sent again and again.
      if (rejected && sent.reason == PublishReason::kPresence) {
        renew_lease(*sent.entry, chunk.began);
      }
      if (RemoteCell* const cell = sent.entry->find(sent.sequence)) {
        const bool refused = sent.refused && !mutated(Mutation::kFailedRefusalForgotten);
        cell->refused = cell->refused || refused;
        if (rejected) cell->published = std::max(cell->published, sent.count);
      }
    }
    trigger_.evaluate(now, *sent.entry);
    const base::MutexLock lock(remote_.mutex());
    RemoteEntry* const entry = remote_.find({tuple, tuples_.hash});
    RemoteCell* const cell = entry == nullptr ? nullptr : entry->find(sent.sequence);
    if (rejected || cell == nullptr) continue;
    // The cell has waited since it was first enqueued.
    PendingPublish& pending = cell->pending;
    pending.since = std::min(pending.since, sent.since);
  }
}

void Publisher::enqueue_all(Instant now) {
  std::vector<std::string> tuples;
  {
    const base::MutexLock lock(remote_.mutex());
    remote_.for_each([&](const RemoteEntry& entry) { tuples.push_back(entry.tuple); });
  }
  for (const std::string& tuple : tuples) {
    const auto find = [&] {
      const base::MutexLock lock(remote_.mutex());
      return remote_.find({tuple, tuples_.hash});
    };
    if (RemoteEntry* const entry = find()) trigger_.evaluate(now, *entry);
    RemoteEntry* const entry = find();
    if (entry == nullptr) continue;
    const base::MutexLock lock(remote_.mutex());
    entry->each_cell([&](RemoteCell& cell) {
      if (cell.counted <= cell.published_or_sent()) return;
      queue_.enqueue(now, *entry, cell, PublishReason::kExhaustion);
    });
  }
}

Nanos Publisher::lag(MonoTime now) const {
  MonoTime first = queue_.waiting_since(now);
  for (const auto& chunk : chunks_) {
    if (chunk->ended) continue;
    for (const Sent& sent : chunk->rows) first = std::min(first, sent.since);
  }
  return now - first;
}

}  // namespace weir::global
