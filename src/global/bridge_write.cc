// How the publisher writes rows to the ledger, and notes at the origin what was written.

#include <algorithm>
#include <utility>

#include "base/mutation.h"
#include "global/bridge_publisher.h"
#include "global/bridge_rule.h"
#include "global/ledger_key.h"
#include "global/shared_tuples.h"
#include "memory/tuple_key.h"

namespace weir::global {

using base::mutated;
using base::Mutation;

namespace {

constexpr Nanos kRepeatPause = Millis(5000);
constexpr Nanos kLockedPause = Millis(1000);  // for rows that another transaction holds
// Instead of more batches without rows, a new epoch begins.
constexpr uint64_t kMostWithoutRows = 8;

}  // namespace

size_t BridgePublisher::rows_in(const Chunk& chunk) {
  size_t rows = 0;
  for (const TupleRows& tuple : chunk) rows += tuple.rows.size();
  return rows;
}

std::vector<LedgerRow> BridgePublisher::ledger_rows(const Chunk& chunk) const {
  std::vector<LedgerRow> rows;
  for (const TupleRows& tuple : chunk) {
    const LedgerKey key = ledger_key_of(tuple.tuple);
    for (const OwnRow& row : tuple.rows) {
      rows.push_back({.key = key,
                      .sequence = row.sequence,
                      .region = identity_.region,
                      .count = row.count,
                      .limit_seen = row.limit,
                      .leased_until = row.leased_until});
    }
  }
  return rows;
}

std::vector<TupleChange> BridgePublisher::changes_of(const Chunk& chunk) const {
  std::vector<TupleChange> changes;
  for (const TupleRows& tuple : chunk) {
    TupleChange change{.tuple = tuple.tuple, .counts = {}};
    for (const OwnRow& row : tuple.rows) {
      change.counts.push_back({.region = identity_.region,
                               .sequence = row.sequence,
                               .count = row.count,
                               .limit_seen = row.limit,
                               .leased_until = row.leased_until});
    }
    changes.push_back(std::move(change));
  }
  return changes;
}

void BridgePublisher::send_next(Instant now) {
  if (chunks_.empty()) {
    if (std::exchange(repeats_records_, false)) {
      importer_.note_records_published(repeated_any_);
      // A ledger whose reads are behind its writes shows every batch too late.
      repeat_after_ = now.mono + kRepeatPause;
    }
    end_failure_if_empty();
    // More may be due than one round can take.
    if (backlog_.size() > 0 && budget_.has_rows(1)) task_.next = now.mono;
    return;
  }
  const auto next = next_number();
  if (next && !is_reserved(*next, now.mono)) {
    return reserve(now, *next, [this](Instant when) { send_next(when); });
  }
  // A batch without an answer may have been read by other regions, and then lost with the end of
  // our feed. They take a later batch with its number for read: that one has no rows.
  const FeedPosition known = next ? importer_.own_position() : FeedPosition{};
  if (next && next->number > known.number + 1) chunks_.emplace_front();
  const FeedPosition used = used_;
  if (next) used_ = *next;
  current_ = std::move(chunks_.front());
  chunks_.pop_front();
  if (mutated(Mutation::kPublishedBeforeCommit)) notify_(now, changes_of(current_));
  const MonoTime began = now.mono;
  ledger_->publish(
      identity_.region, known, ledger_rows(current_),
      task_.call<FeedPosition>(
          now.mono, [this, known, began, used](Instant when, const Result<FeedPosition>& at) {
            if (at || at.error().code != ErrorCode::kTimeout) used_ = used;
            if (!at) return on_failed(when, at.error());
            written_at_ = began;
            on_committed(when, known, *at);
          }));
}

// The number that the next batch has at most; none: it begins an epoch.
std::optional<FeedPosition> BridgePublisher::next_number() const {
  const FeedPosition known = importer_.own_position();
  const FeedPosition used = used_.epoch == known.epoch ? std::max(used_, known) : known;
  if (known.epoch == 0 || used.number - known.number > kMostWithoutRows) return std::nullopt;
  return FeedPosition{.epoch = used.epoch, .number = used.number + 1};
}

bool BridgePublisher::is_reserved(FeedPosition at, MonoTime now) const {
  const bool kept = reserved_at_ != MonoTime{} && now - reserved_at_ < kRecordsKept / 2;
  return kept && reserved_ == at;
}

// This process may be killed after it has written the batch. The next bridge must know its number.
void BridgePublisher::reserve(Instant now, FeedPosition at, std::function<void(Instant)> done) {
  const MonoTime began = now.mono;
  store_->keep_record(encode(ReservationRecord{.at = at}),
                      task_.call_origin<bool>(began, [this, began, at, done = std::move(done)](
                                                         Instant when, const Result<bool>& kept) {
                        if (!kept) return on_unnoted(when);
                        reserved_ = at;
                        reserved_at_ = began;
                        done(when);
                      }));
}

// No row that failed is left. Also after a round that wrote nothing: a process may ask again and
// again for what is published already.
void BridgePublisher::end_failure_if_empty() {
  if (backlog_.size() == 0) failing_since_.reset();
}

void BridgePublisher::on_committed(Instant now, FeedPosition known, FeedPosition at) {
  failing_since_.reset();
  repeated_any_ = true;
  importer_.note_own_batch(known, at);
  for (const TupleRows& tuple : current_) {
    for (const OwnRow& row : tuple.rows) ++stats_.rows[static_cast<size_t>(row.reason)];
  }
  note_published(now, [this, known, at](Instant when) {
    importer_.note_own_rows(known, at);
    send_next(when);
  });
}

// Writes what was published to the origin, and tells the processes of the region. The record comes
// first: the next bridge must know of every batch whose rows count as published.
void BridgePublisher::note_published(Instant now, std::function<void(Instant)> done) {
  BridgeNotice record;
  record.regions.own = importer_.own_position();
  record.changes = changes_of(current_);
  store_->keep_record(
      encode(record),
      task_.call_origin<bool>(now.mono, [this, changes = record.changes, done = std::move(done)](
                                            Instant when, const Result<bool>& kept) {
        if (!kept) return on_unnoted(when);
        update_counts(when, changes, done);
      }));
}

void BridgePublisher::update_counts(Instant now, const std::vector<TupleChange>& changes,
                                    std::function<void(Instant)> done) {
  std::vector<TupleUpdate> updates;
  for (const TupleChange& change : changes) {
    const Millis duration = memory::header_of(change.tuple).duration();
    updates.push_back({.tuple = change.tuple,
                       .counts = change.counts,
                       .kept_until = {},
                       .now = now.wall,
                       .sequences = windows_at(now.wall, duration)});
    for (const RegionCount& count : change.counts) {
      updates.back().kept_until = std::max(updates.back().kept_until, kept_until(count, duration));
    }
  }
  store_->update_tuples(
      std::move(updates),
      task_.call_origin<std::vector<TupleCounts>>(
          now.mono, [this, changes, done = std::move(done)](
                        Instant when, const Result<std::vector<TupleCounts>>& tuples) {
            if (!tuples || tuples->size() != current_.size()) return on_unnoted(when);
            finish(when, std::exchange(current_, {}), *tuples);
            notify_(when, changes);
            done(when);
          }));
}

// Rows that are in the ledger come back by the feed. They stay due.
void BridgePublisher::on_unnoted(Instant now) {
  ++stats_.errors;
  put_back_all(now.mono + kRetry);
}

// Nothing of these tuples is left to publish: they leave the due set, unless they became due again.
// New entries are added before others are removed: this process may end between the two.
void BridgePublisher::finish(Instant now, const Chunk& chunk,
                             const std::vector<TupleCounts>& tuples) {
  std::vector<DueTuple> removed;
  std::vector<DueTuple> added;
  for (size_t i = 0; i < chunk.size(); ++i) {
    for (const DueTuple& due : chunk[i].due) {
      removed.push_back(due);
      backlog_.remove(due);
    }
    // Without space for what was published, it would seem unpublished for ever.
    if (tuples[i].dropped) continue;
    const OriginTuple tuple(chunk[i].tuple, tuples[i], identity_.region, now.wall, regions_);
    if (tuple.has_reason()) {
      // Not the time of an entry that is removed.
      WallTime at = now.wall;
      for (const DueTuple& due : chunk[i].due) at = std::max(at, due.at + Millis(1));
      added.push_back({.tuple = chunk[i].tuple, .kind = Due::kRule, .at = at});
    } else if (tuple.is_contended()) {
      added.push_back({.tuple = chunk[i].tuple,
                       .kind = Due::kWindowEnd,
                       .at = end_of_window(tuple.current(), tuple.duration())});
    }
  }
  if (!added.empty()) store_->add_due(std::move(added));
  if (!removed.empty()) store_->remove_due(std::move(removed));
}

void BridgePublisher::put_back(const Chunk& chunk, MonoTime not_before) {
  for (const TupleRows& tuple : chunk) {
    for (const DueTuple& due : tuple.due) backlog_.put_back(due, not_before);
  }
  repeats_records_ = false;
}

void BridgePublisher::put_back_all(MonoTime not_before) {
  put_back(std::exchange(current_, {}), not_before);
  for (const Chunk& chunk : std::exchange(chunks_, {})) put_back(chunk, not_before);
}

// A row that the ledger rejects, or that another transaction has locked, must not block the others:
// the chunk is bisected to find it.
void BridgePublisher::on_failed(Instant now, const Error& error) {
  ++stats_.errors;
  const bool of_rows =
      !current_.empty() && (error.field == "rows" || error.retry == Retry::kPointless);
  const bool rejected = error.retry == Retry::kPointless;
  if (!rejected && !failing_since_) failing_since_ = task_.began();
  if (!of_rows) {
    put_back_all(now.mono + kRetry);
    task_.next = now.mono + kRetry;
    return;
  }
  if (current_.size() == 1 && rejected) {
    // Counts as published, so that it is not sent again and again.
    stats_.dropped += rows_in(current_);
    return note_published(now, [this](Instant when) { send_next(when); });
  }
  const Chunk chunk = std::exchange(current_, {});
  if (chunk.size() > 1) {
    const auto middle = chunk.begin() + static_cast<std::ptrdiff_t>(chunk.size() / 2);
    chunks_.push_front(Chunk(middle, chunk.end()));
    chunks_.push_front(Chunk(chunk.begin(), middle));
  } else {
    if (repeats_records_) repeat_after_ = now.mono + kLockedPause;
    put_back(chunk, now.mono + kLockedPause);
  }
  send_next(now);
}

}  // namespace weir::global
