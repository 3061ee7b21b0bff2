#include "global/bridge_publisher.h"

#include <algorithm>
#include <map>
#include <utility>

#include "algorithms/windows.h"
#include "base/mutation.h"
#include "global/bridge_rule.h"
#include "global/ledger_key.h"
#include "global/shared_tuples.h"
#include "memory/publish_watch.h"
#include "memory/tuple_key.h"

namespace weir::global {

using base::mutated;
using base::Mutation;

namespace {

constexpr size_t kDuePerRead = 5000;
constexpr size_t kMaxBacklog = 50'000;  // more stay in the due set
constexpr size_t kTuplesPerChunk = 500;
constexpr Nanos kPublishRetry = Millis(500);
constexpr Nanos kLockedPause = Millis(1000);  // for rows that another transaction holds
// The clocks of processes differ: entries may be added a little before the last one that was read.
constexpr Millis kClocksDiffer{2000};
constexpr WallTime kAnyTime{Millis(int64_t{1} << 52)};

// The lease of a region on a tuple covers whole windows, so that all regions agree in which
// windows it holds.
WallTime lease_from(WallTime now, Millis duration, Millis lease) {
  if (mutated(Mutation::kLeaseWithinCell)) return now + lease;
  return end_of_window(algorithms::position_of(now + lease, duration).sequence, duration);
}

}  // namespace

BridgePublisher::BridgePublisher(BridgeIdentity identity, std::shared_ptr<GlobalLedger> ledger,
                                 std::shared_ptr<CompletionQueue> completions, Regions& regions,
                                 BridgeImporter& importer, BridgeImporter::Notify notify)
    : identity_(std::move(identity)),
      ledger_(std::move(ledger)),
      regions_(regions),
      importer_(importer),
      notify_(std::move(notify)),
      task_(std::move(completions)) {}

void BridgePublisher::use(BridgeStore& store) {
  store_ = &store;
  stop();
}

void BridgePublisher::stop() {
  task_.cancel();
  task_.next = {};
  backlog_.clear();
  read_until_ = {};
  current_.clear();
  chunks_.clear();
  repeats_records_ = false;
  failing_since_.reset();
}

void BridgePublisher::run(Instant now, Flush flush) {
  flush_ = flush;
  if (task_.give_up_late_call(now.mono)) {
    put_back_all(now.mono);
    if (!failing_since_) failing_since_ = task_.began();
    ++stats_.errors;
  }
  if (regions_.count > 0) {
    budget_.refill(now.mono, static_cast<double>(regions_.rules.rows_per_second) / regions_.count);
  }
  note_waits(now.mono);
  if (task_.in_flight() || (now.mono < task_.next && flush == Flush::kDue)) return;
  if (importer_.wants_records()) return read_records(now);
  if (backlog_.size() >= kMaxBacklog) return choose(now);
  read_due(now);
}

void BridgePublisher::note_waits(MonoTime now) {
  // Rows may also wait for a ledger that fails; a larger allowance would not help.
  if (needs_rows_) {
    backlog_.each_tenant(
        [&](const Tenant& tenant, MonoTime since) { budget_.note_wait(now, tenant, now - since); });
  }
  (void)budget_.halve_idle(now);
  regions_.doublings = budget_.doublings();
}

Nanos BridgePublisher::lag(MonoTime now) const {
  MonoTime first = now;
  backlog_.each_tenant([&](const Tenant&, MonoTime since) { first = std::min(first, since); });
  return now - first;
}

void BridgePublisher::read_due(Instant now) {
  task_.next = now.mono + Nanos(regions_.rules.publish_every);
  const WallTime by = flush_ == Flush::kAll ? kAnyTime : now.wall;
  // A long backlog is not read again and again.
  const bool is_long = backlog_.size() > kDuePerRead / 2;
  store_->read_due(is_long ? read_until_ : WallTime{}, by, kDuePerRead,
                   task_.call<std::vector<DueTuple>>(
                       now.mono,
                       [this, by](Instant when, const Result<std::vector<DueTuple>>& due) {
                         if (due) return on_due(when, by, *due);
                         ++stats_.errors;
                         task_.next = when.mono + kPublishRetry;
                       }));
}

// Entries of kWindowEnd become entries of kRule before the counts are read: one that a process adds
// for the next window meanwhile is then not removed with the one that was read.
void BridgePublisher::on_due(Instant now, WallTime by, const std::vector<DueTuple>& due) {
  std::vector<DueTuple> removed;
  std::vector<DueTuple> added;
  for (const DueTuple& each : due) {
    if (!is_window_tuple(each.tuple)) {
      removed.push_back(each);
      continue;
    }
    DueTuple entry = each;
    if (each.kind == Due::kWindowEnd) {
      removed.push_back(each);
      entry.kind = Due::kRule;
      entry.at = now.wall;
      added.push_back(entry);
    }
    backlog_.add(entry, now.mono);
  }
  if (!added.empty()) store_->add_due(std::move(added));
  if (!removed.empty()) store_->remove_due(std::move(removed));
  if (due.size() < kDuePerRead) {
    read_until_ = std::min(by, now.wall) - kClocksDiffer;
  } else {
    // More entries of one millisecond than one reply has are read when the backlog is short.
    read_until_ = due.back().at + Millis(due.front().at == due.back().at ? 1 : 0);
  }
  choose(now);
}

void BridgePublisher::choose(Instant now) {
  std::map<std::string, TupleRows> chosen;
  needs_rows_ = false;
  while (chosen.size() < kTuplesPerChunk) {
    // Most tuples have one row.
    needs_rows_ = flush_ == Flush::kDue && !budget_.has_rows(chosen.size() + 1);
    if (needs_rows_) break;
    DueBacklog::Entry* const entry = backlog_.take(now.mono);
    if (entry == nullptr) break;
    TupleRows& rows = chosen[entry->due.tuple];
    rows.tuple = entry->due.tuple;
    rows.due.push_back(entry->due);
  }
  if (chosen.empty()) return;
  std::vector<TupleRead> reads;
  current_.clear();
  for (auto& [tuple, rows] : chosen) {
    const Millis duration = memory::header_of(tuple).duration();
    reads.push_back({.tuple = tuple, .sequences = windows_at(now.wall, duration)});
    current_.push_back(std::move(rows));
  }
  store_->read_tuples(
      std::move(reads),
      task_.call<std::vector<TupleCounts>>(
          now.mono, [this](Instant when, const Result<std::vector<TupleCounts>>& tuples) {
            if (tuples && tuples->size() == current_.size()) return on_tuples(when, *tuples);
            ++stats_.errors;
            put_back_all(when.mono + kPublishRetry);
          }));
}

// A process that asked for the current window has a reason, which may be a refusal. For the others
// the rule decides.
std::vector<BridgePublisher::OwnRow> BridgePublisher::rows_of(Instant now, const TupleRows& chosen,
                                                              const TupleCounts& counts) const {
  const OriginTuple tuple(chosen.tuple, counts, identity_.region, now.wall, regions_);
  const bool asked = std::any_of(chosen.due.begin(), chosen.due.end(),
                                 [](const DueTuple& due) { return due.kind == Due::kNow; });
  std::vector<OwnRow> rows;
  for (const int64_t sequence : windows_at(now.wall, tuple.duration())) {
    PublishReason reason = tuple.reason(sequence);
    const bool over = sequence < tuple.current();
    const Count count = tuple.counted(sequence);
    const bool unknown = count > tuple.published(sequence) || !tuple.is_leased(sequence);
    if (asked && !over && count > 0 && unknown && reason == PublishReason::kNone) {
      reason = PublishReason::kExhaustion;
    }
    if (reason == PublishReason::kNone) continue;
    const Count limit = tuple.limit_seen();
    rows.push_back({.sequence = sequence,
                    .count = count,
                    .limit = limit == 0 ? kMaxLimit : limit,
                    .leased_until =
                        over ? WallTime{}
                             : lease_from(std::max(now.wall, WallTime(sequence * tuple.duration())),
                                          tuple.duration(), regions_.rules.lease),
                    .reason = reason});
  }
  return rows;
}

void BridgePublisher::on_tuples(Instant now, const std::vector<TupleCounts>& tuples) {
  Chunk chunk;
  Chunk done;
  std::vector<TupleCounts> done_counts;
  const Chunk chosen = std::exchange(current_, {});
  for (size_t i = 0; i < chosen.size(); ++i) {
    TupleRows rows = chosen[i];
    rows.rows = rows_of(now, chosen[i], tuples[i]);
    budget_.take(rows.rows.size());
    if (!rows.rows.empty()) {
      chunk.push_back(std::move(rows));
      continue;
    }
    done.push_back(std::move(rows));
    done_counts.push_back(tuples[i]);
  }
  if (!done.empty()) {
    tell_published(now, done, done_counts);
    finish(now, done, done_counts);
  }
  if (!chunk.empty()) chunks_.push_back(std::move(chunk));
  send_next(now);
}

// A process that asks for what was published already has missed that.
void BridgePublisher::tell_published(Instant now, const Chunk& done,
                                     const std::vector<TupleCounts>& tuples) {
  std::vector<TupleChange> changes;
  for (size_t i = 0; i < done.size(); ++i) {
    TupleChange change{.tuple = done[i].tuple, .counts = {}};
    for (const RegionCount& count : tuples[i].regions) {
      if (count.region == identity_.region) change.counts.push_back(count);
    }
    if (!change.counts.empty()) changes.push_back(std::move(change));
  }
  if (!changes.empty()) notify_(now, std::move(changes));
}

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

void BridgePublisher::send_next(Instant now) {
  if (chunks_.empty()) {
    if (std::exchange(repeats_records_, false)) importer_.note_records_published();
    // More may be due than one round can take.
    if (backlog_.size() > 0 && budget_.has_rows(1)) task_.next = now.mono;
    return;
  }
  current_ = std::move(chunks_.front());
  chunks_.pop_front();
  const FeedPosition known = importer_.own_position();
  const MonoTime began = now.mono;
  ledger_->publish(
      identity_.region, known, ledger_rows(current_),
      task_.call<FeedPosition>(now.mono,
                               [this, known, began](Instant when, const Result<FeedPosition>& at) {
                                 if (!at) return on_failed(when, at.error());
                                 written_at_ = began;
                                 on_committed(when, known, *at);
                               }));
}

void BridgePublisher::on_committed(Instant now, FeedPosition known, FeedPosition at) {
  failing_since_.reset();
  for (const TupleRows& tuple : current_) {
    for (const OwnRow& row : tuple.rows) ++stats_.rows[static_cast<size_t>(row.reason)];
  }
  note_published(now, [this, known, at](Instant when) {
    importer_.note_own_batch(known, at);
    send_next(when);
  });
}

// Writes what was published to the origin, and tells the processes of the region.
void BridgePublisher::note_published(Instant now, std::function<void(Instant)> done) {
  std::vector<TupleUpdate> updates;
  std::vector<TupleChange> changes;
  for (const TupleRows& tuple : current_) {
    const Millis duration = memory::header_of(tuple.tuple).duration();
    TupleUpdate update{.tuple = tuple.tuple,
                       .counts = {},
                       .kept_until = {},
                       .sequences = windows_at(now.wall, duration)};
    for (const OwnRow& row : tuple.rows) {
      update.counts.push_back({.region = identity_.region,
                               .sequence = row.sequence,
                               .count = row.count,
                               .limit_seen = row.limit,
                               .leased_until = row.leased_until});
      update.kept_until = std::max(update.kept_until, kept_until(update.counts.back(), duration));
    }
    changes.push_back({.tuple = update.tuple, .counts = update.counts});
    updates.push_back(std::move(update));
  }
  store_->update_tuples(
      std::move(updates),
      task_.call<std::vector<TupleCounts>>(
          now.mono, [this, changes, done = std::move(done)](
                        Instant when, const Result<std::vector<TupleCounts>>& tuples) {
            if (!tuples || tuples->size() != current_.size()) {
              // The rows are in the ledger, and the feed brings them back. They stay due.
              ++stats_.errors;
              return put_back_all(when.mono + kPublishRetry);
            }
            finish(when, std::exchange(current_, {}), *tuples);
            BridgeNotice record;
            record.changes = changes;
            store_->keep_record(encode(record), when.wall);
            notify_(when, changes);
            done(when);
          }));
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

// The rows of the last minute, which the ledger may have lost with the end of our feed.
void BridgePublisher::read_records(Instant now) {
  task_.next = now.mono + kPublishRetry;
  store_->read_records(task_.call<std::vector<std::string>>(
      now.mono, [this](Instant when, const Result<std::vector<std::string>>& records) {
        if (records) return on_records(when, *records);
        ++stats_.errors;
      }));
}

void BridgePublisher::on_records(Instant now, const std::vector<std::string>& records) {
  ChangeSet changes;
  for (const std::string& record : records) {
    const auto notice = decode_notice(record);
    if (!notice) continue;
    for (const TupleChange& change : notice->changes) {
      if (!is_window_tuple(change.tuple)) continue;
      for (const RegionCount& count : change.counts) changes.add(change.tuple, count);
    }
  }
  Chunk chunk;
  for (const TupleChange& change : changes.changes()) {
    const Millis duration = memory::header_of(change.tuple).duration();
    std::map<int64_t, OwnRow> rows;
    for (const RegionCount& count : change.counts) {
      if (kept_until(count, duration) <= now.wall) continue;
      OwnRow& row = rows[count.sequence];
      row = {.sequence = count.sequence,
             .count = std::max(row.count, count.count),
             .limit = memory::smaller_limit(row.limit, count.limit_seen),
             .leased_until = std::max(row.leased_until, count.leased_until),
             .reason = PublishReason::kContended};
    }
    if (rows.empty()) continue;
    TupleRows tuple{.tuple = change.tuple, .due = {}, .rows = {}};
    for (const auto& [sequence, row] : rows) tuple.rows.push_back(row);
    chunk.push_back(std::move(tuple));
    if (chunk.size() == kTuplesPerChunk) chunks_.push_back(std::exchange(chunk, {}));
  }
  if (!chunk.empty()) chunks_.push_back(std::move(chunk));
  repeats_records_ = true;
  send_next(now);
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
  const bool of_rows = error.field == "rows" || error.retry == Retry::kPointless;
  const bool rejected = error.retry == Retry::kPointless;
  if (!rejected && !failing_since_) failing_since_ = task_.began();
  if (!of_rows) {
    put_back_all(now.mono + kPublishRetry);
    task_.next = now.mono + kPublishRetry;
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
    put_back(chunk, now.mono + kLockedPause);
  }
  send_next(now);
}

}  // namespace weir::global
